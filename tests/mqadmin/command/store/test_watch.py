"""``mqadmin store watch``."""

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


def test_watch_counts_and_measures_the_disk(mqadmin: Run, store: Path) -> None:
    done = mqadmin("store", "watch", str(store), "--window", "90000h", "-o", "json")
    assert done.status == 0
    found = json.loads(done.out)
    assert found["schema"] == "mqadmin.store.watch/1"
    assert found["messages"] == 280
    assert {"hoursTo75", "hoursTo85", "hoursTo90"} <= set(found)
    assert 0 < found["diskUsedRatio"] < 1
    shown = mqadmin("store", "watch", str(store), "--window", "90000h")
    assert "BigA" in shown.out
    assert "disk" in shown.err
