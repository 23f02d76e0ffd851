"""`mqadmin store repair` and `recover`: the plan by default, a copy where it is asked for."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def store(golden_store) -> Path:
    """A store with a queue gone, a record whose magic is gone, and a config in pieces."""
    root = golden_store("normal-stop-533", copy=True) / "store"
    shutil.rmtree(root / "consumequeue" / "OrdersA" / "1")
    log = root / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[332 + 4 : 332 + 8] = b"\0\0\0\1"
    log.write_bytes(data)
    (root / "config" / "consumerOffset.json").write_bytes(b'{"half')
    return root


def tree(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_the_plan_equals_its_own_output(mqadmin: Run, store: Path) -> None:
    before = tree(store)
    done = mqadmin("store", "repair", str(store))
    assert done.status == 0
    for word in ("cover", "rebuildQueue", "OrdersA/1", "rebuildIndex", "restoreConfig"):
        assert word in done.out
    assert "--out DIR applies it" in done.err
    dry = mqadmin("store", "repair", str(store), "--dry-run")
    assert dry.out.splitlines()[-1] == "dry run: nothing was changed"
    steps = json.loads(mqadmin("store", "repair", str(store), "-o", "json").out)
    assert steps["schema"] == "mqadmin.store.repair/1"
    assert {"action", "target", "detail", "physicalOffset", "length"} == set(steps["items"][0])
    assert tree(store) == before


@pytest.mark.parametrize("face", [False, True])
def test_a_copy_is_made_and_verified(mqadmin: Run, store: Path, tmp_path: Path, face: bool) -> None:
    before = tree(store)
    out = tmp_path / "out"
    done = mqadmin("store", "repair", str(store), "--out", str(out), "-o", "json", face=face)
    assert done.status == 0, done.err
    result = json.loads(done.out)
    assert result["schema"] == "mqadmin.store.repair.result/1"
    assert (result["ok"], result["bridged"], result["backup"]) == (True, 1, None)
    assert tree(store) == before
    assert mqadmin("store", "verify", str(out)).status == 0
    again = mqadmin("store", "repair", str(store), "--out", str(out))
    assert again.status == 2
    assert "not empty" in again.err


def test_in_place_needs_yes_and_keeps_a_backup(mqadmin: Run, store: Path, tmp_path: Path) -> None:
    before = tree(store)
    done = mqadmin("store", "repair", str(store), "--in-place")
    assert done.status == 2
    assert tree(store) == before
    backup = tmp_path / "backup"
    done = mqadmin(
        "store", "repair", str(store), "--in-place", "--yes", "--backup", str(backup), "-o", "json"
    )
    assert done.status == 0, done.err
    assert json.loads(done.out)["backup"] == str(backup)
    assert tree(backup) == before
    assert mqadmin("store", "verify", str(store)).status == 0
    done = mqadmin("store", "repair", str(store), "--in-place", "--yes")
    assert (done.status, done.err.strip()) == (0, "nothing to repair")


def test_both_ways_at_once_are_a_usage_error(mqadmin: Run, store: Path, tmp_path: Path) -> None:
    words = ("--out", str(tmp_path / "x"), "--in-place", "--yes")
    assert mqadmin("store", "repair", str(store), *words).status == 2


def test_a_clean_store_needs_nothing(mqadmin: Run, golden_store) -> None:
    done = mqadmin("store", "repair", str(golden_store("pop-533") / "store"))
    assert (done.status, done.out, done.err.strip()) == (0, "", "nothing to repair")


def test_messages_come_out_of_single_files(mqadmin: Run, store: Path, tmp_path: Path) -> None:
    single = tmp_path / "single"
    shutil.copy(store / "commitlog" / f"{0:020d}", single)
    done = mqadmin("store", "recover", str(single), "-o", "ndjson", "--body", "text")
    assert done.status == 7  # one record is lost
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert len(rows) > 50
    assert rows[0]["body"]
    assert 332 not in {row["physicalOffset"] for row in rows}
    assert '"physicalOffset":332' in done.err
    whole = mqadmin("store", "recover", str(store))
    assert "OrdersA/1" not in whole.err  # that queue's units are gone
    assert "messages read" in whole.err


def test_a_new_store_is_made_of_them(mqadmin: Run, store: Path, tmp_path: Path) -> None:
    out = tmp_path / "new"
    done = mqadmin(
        *("store", "recover", str(store), "--out", str(out), "--file-size", "65536"),
        *("-o", "json"),
    )
    assert done.status == 7
    result = json.loads(done.out)
    assert (result["ok"], result["messages"], len(result["losses"])) == (True, 279, 1)
    assert mqadmin("store", "verify", str(out)).status == 0


def test_a_new_store_can_be_of_one_topic(mqadmin: Run, store: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    words = ("store", "recover", str(store), "--out", str(new), "--file-size", "65536")
    assert mqadmin(*words, "--body", "text").status == 2
    assert not new.exists()
    done = mqadmin(*words, "--topic", "OrdersA", "-o", "json")
    assert done.status == 7  # a loss is a failure
    summary = json.loads(mqadmin("store", "inspect", str(new), "--summary", "-o", "json").out)
    assert {row["topic"] for row in summary["topics"]} == {"OrdersA"}
    rows = mqadmin("store", "recover", str(store), "--topic", "OrdersA", "-o", "ndjson").out
    assert summary["messages"] == json.loads(done.out)["messages"] == len(rows.splitlines()) > 0


def test_nothing_to_recover_is_reported(mqadmin: Run, tmp_path: Path) -> None:
    noise = tmp_path / "noise"
    noise.write_bytes(b"no log at all" * 100)
    done = mqadmin("store", "recover", str(noise), "--out", str(tmp_path / "new"))
    assert done.status == 7
    assert "no message" in done.err
    assert mqadmin("store", "recover").status == 2


def test_a_dry_run_of_recover_writes_nothing(mqadmin: Run, store: Path, tmp_path: Path) -> None:
    before = tree(tmp_path)
    out = tmp_path / "deep" / "new"
    words = ("store", "recover", str(store), "--out", str(out), "-o", "json")
    dry = mqadmin(*words, "--dry-run")
    assert dry.status == 7  # as the real run: a record is lost
    assert "nothing was changed" in dry.err
    assert tree(tmp_path) == before
    assert not out.parent.exists()
    plan = json.loads(dry.out)
    assert plan["schema"] == "mqadmin.store.recover.plan/1"
    made = json.loads(mqadmin(*words, "--file-size", "65536").out)
    for name in ("messages", "duplicates", "queues", "lostBytes", "lostMessages", "lost"):
        assert plan[name] == made[name]
    small = mqadmin(*words[:3], "--out", f"{out}2", "--file-size", "5", "--dry-run")
    assert (small.status, "--file-size" in small.err) == (2, True)
    again = mqadmin(*words, "--dry-run")
    assert (again.status, "not empty" in again.err) == (2, True)
    alone = mqadmin("store", "recover", str(store), "--dry-run")
    assert (alone.status, "--out" in alone.err) == (2, True)


def test_losses_of_recover_are_objects_for_programs(mqadmin: Run, store: Path) -> None:
    log = sorted((store / "commitlog").iterdir())[-1]
    log.write_bytes(bytes(65536))
    done = mqadmin("store", "recover", str(store), "-o", "ndjson")
    assert done.status == 7
    errors = [json.loads(line)["error"] for line in done.err.splitlines()]
    assert {error["kind"] for error in errors} == {"lost"}
    assert any(error["message"].startswith("lost: ") for error in errors)
    whole = json.loads(mqadmin("store", "recover", str(store), "-o", "json").out)
    assert {row["kind"] for row in whole["errors"]} == {"lost"}
    table = mqadmin("store", "recover", str(store))
    assert "messages read" in table.err
    assert table.err.count("\nlost: ") > 1


def test_a_repair_reports_the_losses_of_a_truncated_log(
    mqadmin: Run, golden_store, tmp_path: Path
) -> None:
    store = golden_store("normal-stop-533", copy=True) / "store"
    log = sorted((store / "commitlog").iterdir())[-1]
    with log.open("r+b") as file:
        file.truncate(1000)
    found = json.loads(mqadmin("store", "verify", str(store), "-o", "json").out)["summary"]
    assert found["lostMessages"] == sum(row["messages"] for row in found["lost"]) > 10
    plan = mqadmin("store", "repair", str(store))
    assert plan.err.count("lost: ") == len(found["lost"])
    out = tmp_path / "out"
    done = mqadmin("store", "repair", str(store), "--out", str(out), "-o", "json")
    assert json.loads(done.out)["lost"] == found["lost"]


def test_a_store_that_a_broker_holds_is_refused(
    mqadmin: Run, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqadmin.inspector.directory.lock_holder", lambda path: 4242)
    (store / "lock").write_bytes(b"lock")
    done = mqadmin("store", "repair", str(store), "--out", str(tmp_path / "out"))
    assert (done.status, "process 4242" in done.err) == (4, True)
    assert not (tmp_path / "out").exists()
