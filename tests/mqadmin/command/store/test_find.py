"""``mqadmin store find``."""

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


def test_find_shows_the_message_and_its_places(mqadmin: Run, store: Path) -> None:
    done = mqadmin("store", "find", str(store), "--key", "o-1")
    assert done.status == 0
    head, _, below = done.out.partition("\n\n")
    assert "OrdersA" in head
    assert [line.split()[1] for line in below.splitlines()[1:]] == [
        "log",
        "queue",
        "index",
        "index",
    ]
    (row,) = items(mqadmin("store", "find", str(store), "--key", "o-1", "-o", "json"))
    assert [place["place"] for place in row["places"]] == ["log", "queue", "index", "index"]
    assert row["places"][0]["storeTime"] == row["storeTime"]


def test_find_takes_every_way_in(mqadmin: Run, store: Path) -> None:
    (row,) = items(
        mqadmin("store", "find", str(store), "--key", "o-1", "--body", "text", "-o", "json")
    )
    for words in (
        ("--id", row["uniqKey"]),
        ("--id", row["offsetMsgId"]),
        ("--offset", str(row["physicalOffset"])),
        ("--text", row["body"][10:80]),
        ("--time", f"{row['storeTimestamp']}..{row['storeTimestamp'] + 1}"),
    ):
        found = items(mqadmin("store", "find", str(store), *words, "-o", "json"))
        assert [item["physicalOffset"] for item in found] == [row["physicalOffset"]], words
    assert mqadmin("store", "find", str(store)).status == 2
    assert mqadmin("store", "find", str(store), "--key", "a", "--offset", "1").status == 2
    assert mqadmin("store", "find", str(store), "--text", "no such words").status == 1


def test_find_reports_that_more_matches_exist(mqadmin: Run, store: Path) -> None:
    done = mqadmin(
        *("store", "find", str(store), "--time", "..2099-01-01", "--limit", "2", "-o", "json"),
    )
    assert done.status == 0
    assert json.loads(done.out)["truncated"] is True
    assert len(json.loads(done.out)["items"]) == 2
