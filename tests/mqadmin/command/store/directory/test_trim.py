"""`mqadmin store trim`: plan, output, exchange, and exit statuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.server.standalone import BlockingEmbeddedBroker
from tests.support.live_broker import SMALL, send
from tests.support.made_store import MadeStore

Run = Callable[..., Any]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    made = MadeStore(tmp_path / "store")
    for _ in range(60):
        made.put()
    return made.write_all()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "commitlog").iterdir())


def test_without_an_output_only_the_plan_is_printed(mqadmin: Run, store: Path) -> None:
    before = names(store)
    for extra in ((), ("--in-place", "--dry-run")):
        done = mqadmin("store", "trim", str(store), "--keep-bytes", "5000", "-o", "json", *extra)
        assert done.status == 0, done.err
        plan = json.loads(done.out)
        assert plan["schema"] == "mqadmin.store.trim/1"
        assert f"commitlog/{before[0]}" in plan["files"]
    assert names(store) == before
    assert [path.name for path in store.parent.iterdir()] == ["store"]


def test_the_output_starts_at_the_new_begin(mqadmin: Run, store: Path, tmp_path: Path) -> None:
    words = ("store", "trim", str(store), "--keep-bytes", "5000", "-o", "json")
    plan = json.loads(mqadmin(*words).out)
    done = mqadmin(*words, "--out", str(tmp_path / "out"))
    assert done.status == 0, done.err
    assert json.loads(done.out)["ok"]
    assert int(names(tmp_path / "out")[0]) == plan["newMinPhysicalOffset"] > 0
    assert names(store)[0] == f"{0:020d}"


def test_in_place_keeps_a_backup(mqadmin: Run, store: Path, tmp_path: Path) -> None:
    before = names(store)
    words = ("store", "trim", str(store), "--keep-bytes", "5000", "--in-place")
    refused = mqadmin(*words)
    assert (refused.status, "needs --yes" in refused.err) == (2, True)
    done = mqadmin(*words, "--backup", str(tmp_path / "old"), "--yes", "-o", "json")
    assert done.status == 0, done.err
    assert names(tmp_path / "old") == before
    assert names(store) == before[-len(names(store)) :]
    assert names(store)[0] > before[0]


def test_options_that_contradict_are_status_2(mqadmin: Run, store: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    for words in (
        (),
        ("--keep-bytes", "1", "--before", "now"),
        ("--keep-bytes", "1", "--out", out, "--in-place", "--yes"),
        ("--keep-bytes", "1", "--out", out, "--backup", out),
    ):
        assert mqadmin("store", "trim", str(store), *words).status == 2
    assert not (tmp_path / "out").exists()


def test_the_status_is_1_if_every_file_is_kept(mqadmin: Run, store: Path, tmp_path: Path) -> None:
    done = mqadmin(
        *("store", "trim", str(store), "--keep-bytes", "1000000"),
        *("--out", str(tmp_path / "out"), "--yes"),
    )
    assert (done.status, (tmp_path / "out").exists()) == (1, False)


@pytest.mark.parametrize("extra", [(), ("--dry-run",), ("--in-place", "--dry-run")])
def test_a_plan_without_files_is_shown_with_status_1(
    mqadmin: Run, store: Path, extra: tuple[str, ...]
) -> None:
    done = mqadmin("store", "trim", str(store), "--before", "2000-01-01", "-o", "json", *extra)
    assert done.status == 1
    assert json.loads(done.out)["files"] == []
    assert "no file to remove" in done.err
    assert "this is the plan" not in done.err


def test_the_store_of_a_running_broker_is_status_4(mqadmin: Run, tmp_path: Path) -> None:
    with BlockingEmbeddedBroker(str(tmp_path / "store"), SMALL) as broker:
        send(broker, "orders", "k")
        done = mqadmin("store", "trim", str(tmp_path / "store"), "--keep-bytes", "0")
    assert (done.status, "holds the lock" in done.err) == (4, True)
