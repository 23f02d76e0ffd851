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


def test_the_plan_is_what_it_shows_by_itself(mqadmin: Run, store: Path) -> None:
    before = tree(store)
    done = mqadmin("store", "repair", str(store))
    assert done.status == 0
    for word in ("cover", "rebuildQueue", "OrdersA/1", "rebuildIndex", "restoreConfig"):
        assert word in done.out
    assert "--output DIR carries it out" in done.err
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
    done = mqadmin("store", "repair", str(store), "--output", str(out), "-o", "json", face=face)
    assert done.status == 0, done.err
    result = json.loads(done.out)
    assert result["schema"] == "mqadmin.store.repair.result/1"
    assert (result["ok"], result["bridged"], result["backup"]) == (True, 1, None)
    assert tree(store) == before
    assert mqadmin("store", "verify", str(out)).status == 0
    again = mqadmin("store", "repair", str(store), "--output", str(out))
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
    words = ("--output", str(tmp_path / "x"), "--in-place", "--yes")
    assert mqadmin("store", "repair", str(store), *words).status == 2


def test_a_clean_store_needs_nothing(mqadmin: Run, golden_store) -> None:
    done = mqadmin("store", "repair", str(golden_store("pop-533") / "store"))
    assert (done.status, done.out, done.err.strip()) == (0, "", "nothing to repair")


def test_messages_come_out_of_single_files(mqadmin: Run, store: Path, tmp_path: Path) -> None:
    lone = tmp_path / "lone"
    shutil.copy(store / "commitlog" / f"{0:020d}", lone)
    done = mqadmin("store", "recover", str(lone), "-o", "ndjson", "--body", "text")
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
        *("store", "recover", str(store), "--output", str(out), "--file-size", "65536"),
        *("-o", "json"),
    )
    assert done.status == 7
    result = json.loads(done.out)
    assert (result["ok"], result["messages"], len(result["losses"])) == (True, 279, 1)
    assert mqadmin("store", "verify", str(out)).status == 0


def test_a_new_store_can_be_of_one_topic(mqadmin: Run, store: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    words = ("store", "recover", str(store), "--output", str(new), "--file-size", "65536")
    assert mqadmin(*words, "--body", "text").status == 2
    assert not new.exists()
    done = mqadmin(*words, "--topic", "OrdersA", "-o", "json")
    assert done.status == 7  # something is lost, which is said
    told = json.loads(mqadmin("store", "inspect", str(new), "--summary", "-o", "json").out)
    assert {row["topic"] for row in told["topics"]} == {"OrdersA"}
    rows = mqadmin("store", "recover", str(store), "--topic", "OrdersA", "-o", "ndjson").out
    assert told["messages"] == json.loads(done.out)["messages"] == len(rows.splitlines()) > 0


def test_nothing_to_recover_is_said(mqadmin: Run, tmp_path: Path) -> None:
    noise = tmp_path / "noise"
    noise.write_bytes(b"no log at all" * 100)
    done = mqadmin("store", "recover", str(noise), "--output", str(tmp_path / "new"))
    assert done.status == 7
    assert "no message" in done.err
    assert mqadmin("store", "recover").status == 2
