"""Of two runs with the same output directory the second is refused before Spark starts."""

from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigError, StoreLockedError
from mqadmin.pipeline.sinks.output_lock import output_lock
from tests.support.pipeline_store import MakeLog


def test_a_second_run_is_refused_and_an_empty_directory_is_removed(tmp_path: Path) -> None:
    out = tmp_path / "lake" / "messages"
    with output_lock(str(out)):
        assert list(out.iterdir()) == []
        with (
            pytest.raises(StoreLockedError, match="another run is writing to it"),
            output_lock(str(out)),
        ):
            pass
        assert out.is_dir()
    assert not out.exists()
    with output_lock(str(out)):
        (out / "manifest.json").touch()
    with output_lock(str(out)):
        pass
    assert [path.name for path in out.iterdir()] == ["manifest.json"]


def test_a_directory_that_cannot_be_created_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(ConfigError, match="cannot write to"), output_lock(str(directory)):
            pass


def test_without_a_directory_nothing_is_locked() -> None:
    with output_lock(""), output_lock(""):
        pass


@pytest.mark.spark
def test_a_run_takes_the_lock_before_it_starts_the_jvm(
    mqadmin: Any, make_log: MakeLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mqadmin.pipeline import run

    def started(*_: Any) -> None:
        raise AssertionError("the JVM was started")

    log = make_log()
    log.put()
    monkeypatch.setattr(run, "spark_session", started)
    out = tmp_path / "out"
    for job in ("traffic", "export"):
        with output_lock(str(out)):
            done = mqadmin("pipeline", "run", job, "--store", str(log.root), "--out", str(out))
        assert done.status == 4
        assert done.err.splitlines() == [
            f"error: job {job}: {out}: another run is writing to it",
            "hint: wait for it, or choose another --out",
        ]
