import json
from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.admin.group import GroupRecord
from mqadmin.admin.result import Change, ChangeResult, Listing, Outcome, Plan, Request

Run = Callable[..., Any]

RECORD = GroupRecord(
    group="billing",
    cluster_name="DefaultCluster",
    broker_name="broker-a",
    consume_enable=True,
    consume_from_min_enable=True,
    consume_broadcast_enable=False,
    consume_message_orderly=None,
    retry_queue_nums=1,
    retry_max_times=16,
    broker_id=0,
    which_broker_when_consume_slowly=1,
    notify_consumer_ids_changed_enable=True,
    group_sys_flag=None,
    consume_timeout_minute=15,
    group_retry_policy={"type": "CUSTOMIZED"},
    attributes=None,
)

PLAN = Plan(
    kind="group.create",
    subject="billing",
    changes=(
        Change(
            target="broker-a",
            address="10.0.0.1:10911",
            action="create",
            after={"retryMaxTimes": 3, "consumeEnable": True},
            request=Request(address="10.0.0.1:10911", code=200),
        ),
    ),
)
DONE = Outcome(
    kind="group.create",
    subject="billing",
    items=(
        ChangeResult(
            target="broker-a",
            address="10.0.0.1:10911",
            action="create",
            status="done",
            after={"retryMaxTimes": 3, "consumeEnable": True},
        ),
    ),
)


def test_list(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers["group.list"] = Listing(items=[RECORD])
    done = mqadmin("group", "list", "--user")
    assert admin.calls == [("group.list", (), {"cluster": None, "include_system": False})]
    screen("group-list.txt", done.out)


def test_show_has_every_field_in_json(mqadmin: Run, admin: Any) -> None:
    admin.answers["group.show"] = Listing(items=[RECORD])
    (item,) = json.loads(mqadmin("group", "show", "billing", "-o", "json").out)["items"]
    assert item["groupRetryPolicy"] == {"type": "CUSTOMIZED"}
    assert item["consumeMessageOrderly"] is None


def test_an_unknown_group_is_a_no(mqadmin: Run, admin: Any) -> None:
    admin.answers["group.show"] = Listing(items=[])
    assert mqadmin("group", "show", "nosuch").status == 1


@pytest.mark.parametrize(
    ("words", "settings"),
    [
        ("--retry-max 3", {"retryMaxTimes": 3}),
        ("--retry-max 0", {"retryMaxTimes": 0}),
        ("--no-consume", {"consumeEnable": False}),
        ("--broadcast --no-from-min",
         {"consumeBroadcastEnable": True, "consumeFromMinEnable": False}),
        ("--orderly --retry-queues 2", {"consumeMessageOrderly": True, "retryQueueNums": 2}),
        ("--consume-timeout 5 --no-notify-changes",
         {"consumeTimeoutMinute": 5, "notifyConsumerIdsChangedEnable": False}),
        ("", {}),
    ],
)  # fmt: skip
def test_only_given_values_are_set(
    mqadmin: Run, admin: Any, words: str, settings: dict[str, Any]
) -> None:
    admin.answers.update({"group.plan_update": PLAN, "apply": DONE})
    assert mqadmin("group", "update", "billing", "-y", *words.split()).status == 0
    name, args, kwargs = admin.calls[0]
    assert (name, args) == ("group.plan_update", ("billing",))
    assert kwargs == {"settings": settings, "cluster": None, "broker": None}


def test_create_shows_the_created_object(mqadmin: Run, admin: Any, screen: Any) -> None:
    admin.answers.update({"group.plan_create": PLAN, "apply": DONE})
    done = mqadmin("group", "create", "billing", "--retry-max", "3", "--broker", "broker-a", "-y")
    assert done.status == 0
    assert admin.calls[0][2]["broker"] == "broker-a"
    screen("group-create.txt", done.out)


def test_delete_removes_offsets_only_if_requested(mqadmin: Run, admin: Any) -> None:
    admin.answers.update({"group.plan_delete": PLAN, "apply": DONE})
    mqadmin("group", "delete", "billing", "-y")
    mqadmin("group", "delete", "billing", "-y", "--remove-offset")
    plans = [kwargs for name, _, kwargs in admin.calls if name == "group.plan_delete"]
    assert [plan["remove_offset"] for plan in plans] == [False, True]


@pytest.mark.parametrize("words", ["--retry-max -1", "--retry-max x", "--consume-timeout 0"])
def test_numbers_that_cannot_be_are_usage_errors(mqadmin: Run, admin: Any, words: str) -> None:
    assert mqadmin("group", "update", "billing", "-y", *words.split()).status == 2
    assert admin.calls == []
