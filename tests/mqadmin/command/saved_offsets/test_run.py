"""The sequence of a change of offsets of several topics: plan, question, result, undo line."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mqadmin.admin.offset.reset import ResetItem, ResetPlan

Run = Callable[..., Any]


def item(topic: str, **fields: Any) -> ResetItem:
    values: dict[str, Any] = {
        "group": "g",
        "topic": topic,
        "broker_name": "broker-a",
        "address": "127.0.0.1:10911",
        "queue_id": 0,
        "min_offset": 0,
        "max_offset": 10,
        "current_offset": 7,
        "new_offset": None,
        "skipped": 0,
        "repeated": 0,
        **fields,
    }
    return ResetItem(**values)


PLAN = ResetPlan(group="g", topic="a,b", to="file", online=0, items=(item("a"), item("b")))
UNDO = ("offset", "undo", "undo.json")


@pytest.fixture
def planned(admin: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(
        "mqadmin.admin.offset.transfer.OffsetTransfer.plan_undo", lambda *_, **__: PLAN
    )
    monkeypatch.setattr("mqadmin.admin.offset.transfer.OffsetAdmin", lambda session: None)
    return admin


def test_each_queue_is_shown_with_its_topic_before_the_question(
    mqadmin: Run, planned: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqadmin.command.execution.session.stdin_is_terminal", lambda: True)
    done = mqadmin(*UNDO, stdin="n\n")
    assert done.status == 1
    assert "a broker-a queue 0: 7 -> -, 0 skipped" in done.err
    assert "restore 2 queues of a,b for group g? [y/N]" in done.err


def test_the_undo_of_an_undo_is_named(mqadmin: Run, planned: Any) -> None:
    items = tuple(msgspec.structs.replace(one, status="done") for one in PLAN.items)
    planned.answers["offset.apply_reset"] = msgspec.structs.replace(
        PLAN, items=items, undo_path="second.json"
    )
    done = mqadmin(*UNDO, "--yes")
    assert done.status == 0
    assert done.err.endswith("undo: mqadmin offset undo second.json\n")


@pytest.mark.parametrize(
    ("statuses", "status"), [(("done", "moved"), 8), (("done", "failed"), 5), (("differs",), 8)]
)
def test_the_status_follows_the_worst_queue(
    mqadmin: Run, planned: Any, statuses: tuple[str, ...], status: int
) -> None:
    items = tuple(item("a", status=word) for word in statuses)
    planned.answers["offset.apply_reset"] = msgspec.structs.replace(PLAN, items=items)
    assert mqadmin(*UNDO, "--yes").status == status
