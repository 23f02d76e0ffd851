"""``mqadmin store inspect`` of timer files, check points, transactions and static topics."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.made_store import MadeStore, mapping_file, segment

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
        ("static", ("--key", "k")),
    ],
)
def test_a_condition_that_a_kind_cannot_apply_is_refused(
    mqadmin: Run, golden_store: Callable[..., Path], kind: str, words: tuple[str, ...]
) -> None:
    store = str(golden_store("delay-533") / "store")
    assert mqadmin("store", "inspect", store, "--kind", kind, *words).status == 2


def test_static_topics_are_listed_by_segment(mqadmin: Run, tmp_path: Path) -> None:
    made = MadeStore(tmp_path / "store")
    made.put("TopicS", 0)
    made.write_all()
    items = [segment(0, "other", end=8), segment(1, "this", logic=-1)]
    (made.root / "config" / "topicQueueMapping.json").write_text(mapping_file(TopicS={0: items}))
    words = ("store", "inspect", str(made.root), "--kind", "static", "--topic", "TopicS")
    found = json.loads(mqadmin(*words, "-o", "json").out)["items"]
    assert found == [
        {
            "topic": "TopicS", "queueId": 0, "gen": gen, "brokerName": name, "brokerQueueId": 0,
            "logicOffset": logic, "startOffset": 0, "endOffset": end, "sends": sends,
            "epoch": 1000, "totalQueues": 1,
        }
        for gen, name, logic, end, sends in (
            (0, "other", 0, 8, False), (1, "this", None, None, True)
        )
    ]  # fmt: skip
    assert mqadmin(*words, "--queue", "7").status == 1
