"""Of two runs into one directory the second is turned away before Spark starts."""

from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigError, StoreLockedError
from mqadmin.pipeline.lock import held


def test_a_second_run_is_turned_away_and_the_first_leaves_no_trace(tmp_path: Path) -> None:
    out = tmp_path / "lake" / "messages"
    with held(str(out)):
        assert list(out.iterdir()) == []
        with pytest.raises(StoreLockedError, match="another run is writing to it"), held(str(out)):
            pass
        assert out.is_dir()
    assert not out.exists()
    with held(str(out)):
        (out / "manifest.json").touch()
    with held(str(out)):
        pass
    assert [path.name for path in out.iterdir()] == ["manifest.json"]


def test_a_place_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match="cannot write to"), held(str(place)):
            pass


def test_without_a_directory_nothing_is_held() -> None:
    with held(""), held(""):
        pass


@pytest.mark.spark
def test_a_run_asks_for_the_lock_before_it_starts_a_machine(
    mqadmin: Any, make_log: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mqadmin.pipeline import run

    def started(*_: Any) -> None:
        raise AssertionError("a machine was started")

    log = make_log()
    log.put()
    monkeypatch.setattr(run, "spark_session", started)
    out = tmp_path / "out"
    for job in ("traffic", "export"):
        with held(str(out)):
            done = mqadmin("pipeline", "run", job, "--store", str(log.root), "--out", str(out))
        assert done.status == 7
        assert done.err.splitlines() == [
            f"error: job {job}: {out}: another run is writing to it",
            "hint: wait for it, or give another --out",
        ]
