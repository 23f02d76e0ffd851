"""``mqadmin store`` queue, index, config and export of a recorded store."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def store(golden_store) -> Path:
    return golden_store("normal-stop-533") / "store"


def items(done: Any) -> list[dict[str, Any]]:
    assert done.status == 0, done.err
    return json.loads(done.out)["items"]  # type: ignore[no-any-return]


def test_queues_and_their_units(mqadmin: Run, store: Path, golden_expect) -> None:
    rows = items(mqadmin("store", "queue", str(store), "-o", "json"))
    ends = {(row["topic"], row["queueId"]): row["maxOffset"] for row in rows}
    for queue in golden_expect("normal-stop-533")["queues"]:
        if queue["maxOffset"]:
            assert ends[queue["topic"], queue["queueId"]] == queue["maxOffset"]
    one = items(
        mqadmin("store", "queue", str(store), "--topic", "OrdersA", "--queue", "2", "-o", "json")
    )
    assert [(row["topic"], row["queueId"]) for row in one] == [("OrdersA", 2)]
    units = items(
        mqadmin(
            *("store", "queue", str(store), "--topic", "OrdersA", "--queue", "2", "--units"),
            *("--from", "3", "--to", "6", "-o", "json"),
        )
    )
    assert [row["queueOffset"] for row in units] == [3, 4, 5]


def test_index_files_and_entries(mqadmin: Run, store: Path) -> None:
    files = items(mqadmin("store", "index", str(store), "-o", "json"))
    assert [row["record"] for row in files] == ["file"] * 5
    rows = items(
        mqadmin("store", "index", str(store), "--key", "o-1", "--topic", "OrdersA", "-o", "json")
    )
    assert [row["physicalOffset"] for row in rows if row["record"] == "entry"] == [332]


@pytest.mark.parametrize("words", [("inspect", "--kind", "index"), ("index",)])
def test_a_key_that_the_index_cannot_answer_is_not_an_empty_result(
    mqadmin: Run, store: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    file = min((store / "index").iterdir())
    single = tmp_path / file.name
    single.write_bytes(file.read_bytes())
    verb, *kind = words
    done = mqadmin("store", verb, str(single), *kind, "--key", "o-1")
    assert (done.status, done.out) == (2, "")
    assert f"key o-1 ({single}): no topic is known" in done.err
    assert "--topic" in done.err
    done = mqadmin("store", verb, str(single), *kind, "--key", "o-1", "--topic", "OrdersA")
    assert (done.status, len(done.out.splitlines())) == (0, 3)
    done = mqadmin("store", verb, str(single), *kind, "--key", "none", "--topic", "OrdersA")
    assert (done.status, done.out) == (1, "")
    assert f"nothing in {single} matches" in done.err


def test_configuration(mqadmin: Run, store: Path) -> None:
    rows = items(mqadmin("store", "config", str(store), "-o", "json"))
    assert "topics.json" in {row["name"] for row in rows}
    done = mqadmin("store", "config", str(store), "--topic", "OrdersA")
    assert done.status == 0
    assert "topicConfigTable" in done.out


def test_export_to_stdout_and_to_files(mqadmin: Run, store: Path, tmp_path: Path) -> None:
    lines = mqadmin("store", "export", str(store), "--topic", "ZipA", "-o", "ndjson").out
    assert len(lines.splitlines()) == 12
    done = mqadmin(
        *("store", "export", str(store), "--topic", "ZipA", "--out", str(tmp_path / "z.csv")),
        *("-o", "json"),
    )
    assert done.status == 0
    result = json.loads(done.out)
    assert (result["format"], result["rows"], result["resumed"]) == ("csv", 12, False)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "z.csv").read_text("utf-8"))))
    assert {row["topic"] for row in rows} == {"ZipA"}
    again = mqadmin(
        *("store", "export", str(store), "--topic", "ZipA", "--out", str(tmp_path / "z.csv")),
        *("-o", "json"),
    )
    assert json.loads(again.out)["resumed"] is True
    other = mqadmin("store", "export", str(store), "--out", str(tmp_path / "z.csv"))
    assert other.status == 2
    assert mqadmin("store", "export", str(store), "--format", "csv").status == 2


def test_damage_on_the_way_is_status_7(mqadmin: Run, golden_store, tmp_path: Path) -> None:
    root = golden_store("normal-stop-533", copy=True) / "store"
    log = root / "commitlog" / f"{0:020d}"
    data = bytearray(log.read_bytes())
    data[336] ^= 0xFF
    log.write_bytes(data)
    done = mqadmin("store", "export", str(root), "--out", str(tmp_path / "x"))
    assert done.status == 7
    assert mqadmin("store", "export", str(root), "-o", "ndjson").status == 7


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("queue --from 1", "--from cannot be applied without --units"),
        ("queue --from 1 --to 2", "--from, --to cannot be applied without --units"),
        ("index --topic OrdersA --entries", "--topic cannot be applied without --key"),
    ],
)
def test_an_option_that_cannot_be_applied_is_refused(
    mqadmin: Run, store: Path, words: str, problem: str
) -> None:
    verb, *options = words.split()
    done = mqadmin("store", verb, str(store), *options)
    assert (done.status, done.out) == (2, "")
    assert f"store {verb}: {problem}" in done.err
