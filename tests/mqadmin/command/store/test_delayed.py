"""``mqadmin store inspect`` of timer files, check points and transactions."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("name", "kind", "count"),
    [
        ("delay-533", "timerwheel", 10),
        ("delay-533", "timerlog", 16),
        ("delay-533", "ext", 0),
        ("pop-533", "pop", 10),
        ("transaction-533", "transaction", 1),
    ],
)
def test_each_kind_lists_its_rows(
    mqadmin: Run, golden_store: Callable[..., Path], name: str, kind: str, count: int
) -> None:
    store = str(golden_store(name) / "store")
    done = mqadmin("store", "inspect", store, "--kind", kind, "-o", "json")
    assert done.status == 0, done.err
    items = json.loads(done.out)["items"]
    assert len(items) >= count
    assert bool(items) == bool(count)


def test_timer_files_are_recognised(mqadmin: Run, golden_store: Callable[..., Path]) -> None:
    store = golden_store("delay-533") / "store"
    for path, schema in (("timerwheel", "timerwheel"), ("timerlog", "timerlog")):
        done = mqadmin("store", "inspect", str(store / path), "-o", "json")
        assert json.loads(done.out)["schema"] == f"mqadmin.store.inspect.{schema}/1"
    file = next((store / "timerlog").iterdir())
    done = mqadmin("store", "inspect", str(file), "-o", "json")
    assert len(json.loads(done.out)["items"]) == 16


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("timerwheel", ("--topic", "t")),
        ("timerlog", ("--key", "k")),
        ("pop", ("--from", "3")),
        ("transaction", ("--queue", "0")),
        ("ext", ("--body", "text")),
    ],
)
def test_a_condition_that_a_kind_cannot_apply_is_refused(
    mqadmin: Run, golden_store: Callable[..., Path], kind: str, words: tuple[str, ...]
) -> None:
    store = str(golden_store("delay-533") / "store")
    assert mqadmin("store", "inspect", store, "--kind", kind, *words).status == 2
