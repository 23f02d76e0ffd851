"""``mqadmin consumer mode``: its output, and the options that belong together."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.admin.pop.modes import AssignmentRecord, ModeRecord
from mqadmin.admin.result import Change, ChangeResult, Listing, Outcome, Plan, Request

Run = Callable[..., Any]


def test_stored_modes_are_shown(mqadmin: Run, admin: Any) -> None:
    row = ModeRecord(
        group="g", topic="t", broker_name="broker-a", mode="POP", pop_share_queue_num=0
    )
    admin.answers["mode.modes"] = Listing(items=[row])
    done = mqadmin("consumer", "mode", "g", "-o", "json")
    assert (done.status, json.loads(done.out)["items"][0]["mode"]) == (0, "POP")


def test_a_group_without_a_mode_is_reported(mqadmin: Run, admin: Any) -> None:
    admin.answers["mode.modes"] = Listing(items=[])
    done = mqadmin("consumer", "mode", "g")
    assert done.status == 1
    assert "PULL" in done.err


def test_assigned_queues_are_shown(mqadmin: Run, admin: Any) -> None:
    row = AssignmentRecord(client_id="c", topic="t", broker_name="b", queue_id=-1, mode="POP")
    admin.answers["mode.assignments"] = Listing(items=[row])
    done = mqadmin("consumer", "mode", "g", "--topic", "t", "--assignments", "-o", "json")
    assert json.loads(done.out)["items"][0]["queueId"] == -1


@pytest.mark.parametrize(
    "words",
    [
        ("--set", "pop"),
        ("--share", "2"),
        ("--dry-run",),
        ("--assignments",),
        ("--set", "pull", "--topic", "t", "--share", "2", "--yes"),
        ("--set", "pop", "--topic", "t", "--assignments", "--yes"),
        ("--assignments", "--topic", "t", "--broker", "b"),
        ("--set", "push", "--topic", "t"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    mqadmin: Run, admin: Any, words: tuple[str, ...]
) -> None:
    assert mqadmin("consumer", "mode", "g", *words).status == 2
    assert admin.calls == []


def test_a_change_is_planned_applied_and_read_back(mqadmin: Run, admin: Any) -> None:
    after = {"mode": "POP", "popShareQueueNum": 0}
    change = Change(
        target="broker-a",
        address="a:1",
        action="set",
        after=after,
        request=Request(address="a:1", code=401),
    )
    admin.answers["mode.plan"] = Plan(kind="consumer.mode", subject="t@g", changes=[change])
    result = ChangeResult(
        target="broker-a", address="a:1", action="set", status="done", after=after, read_back=after
    )
    admin.answers["apply"] = Outcome(kind="consumer.mode", subject="t@g", items=[result])
    done = mqadmin("consumer", "mode", "g", "--topic", "t", "--set", "pop", "--yes")
    assert done.status == 0
    assert "mode=POP" in done.out
