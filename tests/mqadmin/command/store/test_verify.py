"""`mqadmin store verify`: findings on stdout, words on stderr, status 0 or 7."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def store(golden_store) -> Path:
    return golden_store("normal-stop-533", copy=True) / "store"


def fingerprint(folder: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def break_unit(store: Path) -> Path:
    path = store / "consumequeue" / "OrdersA" / "0" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[67] ^= 0xFF
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("face", [False, True])
def test_a_clean_store_is_status_0(mqadmin: Run, store: Path, face: bool) -> None:
    before = fingerprint(store)
    done = mqadmin("store", "verify", str(store), face=face)
    assert done.status == 0
    assert done.out == ""
    assert "no findings" in done.err
    assert "280 records" in done.err
    assert "100.0%" in done.err
    assert fingerprint(store) == before


def test_a_finding_is_a_row_and_status_7(mqadmin: Run, store: Path) -> None:
    path = break_unit(store)
    before = fingerprint(store)
    done = mqadmin("store", "verify", str(store))
    assert done.status == 7
    assert "unit" in done.out
    assert str(path) in done.out
    assert "mqadmin store repair" in done.out
    assert "1 unit" in done.err
    assert fingerprint(store) == before


def test_json_is_one_document_with_the_summary(mqadmin: Run, store: Path) -> None:
    path = break_unit(store)
    done = mqadmin("store", "verify", str(store), "-o", "json")
    assert done.status == 7
    found = json.loads(done.out)
    assert found["schema"] == "mqadmin.store.verify/1"
    assert (found["truncated"], found["errors"]) == (False, [])
    (row,) = found["items"]
    assert set(row) == {
        *("kind", "severity", "path", "physicalOffset", "length", "detail", "suggestion"),
    }
    assert (row["kind"], row["severity"], row["path"]) == ("unit", "error", str(path))
    assert (row["physicalOffset"], row["length"]) == (60, 20)
    summary = found["summary"]
    assert summary["kinds"] == {"unit": 1}
    assert summary["coverage"] == 1.0
    assert summary["checkpoint"]["physicMsgTime"].endswith("Z")


def test_lines_are_one_finding_each(mqadmin: Run, store: Path) -> None:
    break_unit(store)
    done = mqadmin("store", "verify", str(store), "-o", "ndjson")
    assert done.status == 7
    assert [json.loads(line)["kind"] for line in done.out.splitlines()] == ["unit"]


def test_the_summary_alone(mqadmin: Run, store: Path) -> None:
    done = mqadmin("store", "verify", str(store), "--summary", "-o", "json")
    assert done.status == 0
    summary = json.loads(done.out)
    assert summary["schema"] == "mqadmin.store.verify.summary/1"
    assert (summary["records"], summary["units"], summary["keys"]) == (280, 260, 624)


def test_it_can_be_narrowed(mqadmin: Run, store: Path) -> None:
    break_unit(store)
    assert mqadmin("store", "verify", str(store), "--topic", "PaymentsA").status == 0
    assert mqadmin("store", "verify", str(store), "--topic", "OrdersA").status == 7
    path = sorted((store / "commitlog").iterdir())[0]
    data = bytearray(path.read_bytes())
    data[120] ^= 1
    path.write_bytes(data)
    full = mqadmin("store", "verify", str(store), "-o", "json")
    fast = mqadmin("store", "verify", str(store), "--fast", "-o", "json")
    assert {row["kind"] for row in json.loads(full.out)["items"]} == {"crc", "unit"}
    assert {row["kind"] for row in json.loads(fast.out)["items"]} == {"unit"}
    late = mqadmin("store", "verify", str(store), "--since", "2099-01-01", "-o", "json")
    assert late.status == 0
    assert json.loads(late.out)["summary"]["coverage"] < 1


def test_a_notice_leaves_the_status_at_0(mqadmin: Run, store: Path) -> None:
    (store / "config" / "topics.json.bak").write_text("{")
    done = mqadmin("store", "verify", str(store))
    assert done.status == 0
    assert "notice" in done.out
    assert "no errors" in done.err


def test_a_folder_without_a_store_is_reported(mqadmin: Run, tmp_path: Path) -> None:
    done = mqadmin("store", "verify", str(tmp_path / "nothing"))
    assert done.status == 2
    assert "no such file" in done.err


def test_errors_come_first_and_repeated_findings_are_folded(mqadmin: Run, store: Path) -> None:
    (store / "config" / "topics.json.bak").write_text("{")
    folder = store / "consumequeue" / "OrdersA" / "0"
    data = bytearray((folder / f"{0:020d}").read_bytes())
    for at in (3, 7, 12):
        data[20 * at + 6] ^= 0xFF
    (folder / f"{0:020d}").write_bytes(data)
    log = sorted((store / "commitlog").iterdir())[-1]
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size // 3)
    table = mqadmin("store", "verify", str(store))
    severities = [line.split()[0] for line in table.out.splitlines()[1:]]
    order = ["error", "warning", "notice"]
    assert severities == sorted(severities, key=order.index)
    assert set(severities) == set(order)
    (unit,) = [line for line in table.out.splitlines() if " unit " in line and "OrdersA/0" in line]
    assert unit.split()[5] == "3"
    rows = json.loads(mqadmin("store", "verify", str(store), "-o", "json").out)["items"]
    assert [row["severity"] for row in rows] == sorted(
        (row["severity"] for row in rows), key=order.index
    )
    assert sum(row["kind"] == "unit" for row in rows) == 3
    lines = mqadmin("store", "verify", str(store), "-o", "ndjson").out.splitlines()
    assert [json.loads(line) for line in lines] == rows


def test_a_torn_end_is_one_finding(mqadmin: Run, golden_store) -> None:
    store = golden_store("normal-stop-533", copy=True) / "store"
    log = sorted((store / "commitlog").iterdir())[-1]
    end = len(log.read_bytes().rstrip(b"\0"))
    with log.open("r+b") as file:
        file.truncate(end - 40)
        file.truncate(end - 36)  # fewer zeros than a blank record has bytes
    rows = json.loads(mqadmin("store", "verify", str(store), "-o", "json").out)["items"]
    assert sum(row["kind"] == "truncated" for row in rows) == 1
    done = mqadmin("store", "inspect", str(store))
    assert done.err.count("truncated (") == 1


def test_the_summary_describes_the_findings(mqadmin: Run, store: Path) -> None:
    (store / "checkpoint").unlink()
    done = mqadmin("store", "verify", str(store))
    assert "(stopped cleanly): 1 warning" in done.err
    assert "1 checkpoint: the checkpoint is missing" in done.err
