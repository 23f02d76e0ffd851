"""The decisions of an offset reset: target, loss and repetition, method, status, read-back."""

from typing import Any

import msgspec
import pytest

from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.offset.reset import (
    CLIENTS,
    DIRECT,
    REMOVED,
    SERVER,
    ResetItem,
    ResetPlan,
    choose_ways,
    clients_request,
    differs_error,
    has_arrived,
    looks_like_epoch,
    moved_error,
    nothing_was_changed,
    planned_status,
    reset_item,
    reset_request,
)
from mqadmin.admin.result import TargetError

ADDRESS = "127.0.0.1:10911"
QUEUE = MessageQueue("Orders", "broker-a", 3)


def item(
    wanted: int | None, current: int | None = 50, low: int = 10, high: int = 100, **fields: Any
) -> ResetItem:
    """The item of a queue with offsets 10 to 100 whose group has committed 50."""
    made = reset_item("Group", QUEUE, (ADDRESS, low, high, current), wanted)
    return msgspec.structs.replace(made, **fields)


@pytest.mark.parametrize(
    ("wanted", "current", "new", "skipped", "repeated", "clamped"),
    [
        (70, 50, 70, 20, 0, False),
        (30, 50, 30, 0, 20, False),
        (50, 50, 50, 0, 0, False),
        (5, 50, 10, 0, 40, True),
        (999, 50, 100, 50, 0, True),
        # messages below the minimum have expired: they are neither skipped nor repeated
        (30, 2, 30, 20, 0, False),
        (10, 2, 10, 0, 0, False),
        # a committed offset past the end: nothing after the end can be repeated
        (90, 500, 90, 0, 10, False),
        # without a committed offset consumeFromWhere decides
        (30, None, 30, 0, 0, False),
        (None, 50, None, 0, 0, False),
    ],
)
def test_the_new_offset_is_within_the_queue_and_loss_and_repetition_are_counted(
    wanted: int | None,
    current: int | None,
    new: int | None,
    skipped: int,
    repeated: int,
    clamped: bool,
) -> None:
    found = item(wanted, current)
    assert (found.new_offset, found.skipped, found.repeated, found.clamped) == (
        new, skipped, repeated, clamped
    )  # fmt: skip
    assert found.status == ("unchanged" if new == current else "planned")


def test_a_queue_whose_broker_did_not_respond_gets_no_method() -> None:
    assert choose_ways([item(70)], {"127.0.0.1:1": SERVER}, 0) == ([], [])


@pytest.mark.parametrize(
    ("wanted", "current", "online", "via"),
    [
        (70, 50, 0, SERVER),
        (70, 50, 2, SERVER),
        (70, None, 0, DIRECT),  # the first offset: it can be removed again
        (70, None, 2, SERVER),  # connected clients would overwrite a commit
        (None, 50, 0, DIRECT),
    ],
)
def test_the_method_depends_on_the_offset_and_the_clients(
    wanted: int | None, current: int | None, online: int, via: str
) -> None:
    (chosen,), errors = choose_ways([item(wanted, current)], {ADDRESS: SERVER}, online)
    assert (chosen.via, errors) == (via, [])


def test_an_offset_cannot_be_removed_while_clients_are_connected() -> None:
    chosen, (error,) = choose_ways([item(None, 50)], {ADDRESS: SERVER}, 2)
    assert chosen == []
    assert (error.address, error.target) == (ADDRESS, "Orders broker-a/3")
    assert "2 clients are connected" in error.message
    # without a committed offset there is nothing to remove
    (kept,), errors = choose_ways([item(None, None)], {ADDRESS: SERVER}, 2)
    assert (kept.status, errors) == ("unchanged", [])


@pytest.mark.parametrize(
    ("wanted", "current", "online", "status"),
    [
        (50, 50, 0, "unchanged"),
        (50, 50, 1, "planned"),  # clients may have consumed past their commit
        (100, 100, 1, "unchanged"),  # nothing to consume again
        (None, None, 1, "unchanged"),
        (70, 50, 1, "planned"),
    ],
)
def test_a_queue_with_clients_is_reset_even_to_its_committed_offset(
    wanted: int | None, current: int | None, online: int, status: str
) -> None:
    assert planned_status(item(wanted, current), online) == status


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1700000000000", True),
        (" 1700000000 ", True),
        ("170000000", False),
        ("17000000000000", False),
        ("-170000000", False),
        ("latest", False),
        ("١٧٠٠٠٠٠٠٠٠", False),
        ("", False),
    ],
)
def test_only_numbers_of_the_length_of_a_time_look_like_one(text: str, expected: bool) -> None:
    assert looks_like_epoch(text) is expected


def failed(kind: str) -> ResetItem:
    return item(70, status="failed", error=TargetError(kind=kind, message="-"))


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([failed("refused"), failed("notPermitted")], True),
        ([failed("refused"), item(70, status="skipped")], True),
        ([failed("refused"), item(50)], True),
        ([failed("refused"), failed("timeout")], False),  # it may have been applied
        ([failed("refused"), item(70, status="done")], False),
        ([item(70, status="failed")], False),
    ],
)
def test_nothing_was_changed_only_if_every_broker_refused(
    items: list[ResetItem], expected: bool
) -> None:
    assert nothing_was_changed(items) is expected


def test_a_server_side_reset_is_forced_and_names_the_queue() -> None:
    request = reset_request(item(70))
    assert request.code == RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    assert request.ext_fields == {
        "topic": "Orders", "group": "Group", "timestamp": "0", "isForce": "true",
        "queueId": "3", "offset": "70",
    }  # fmt: skip


@pytest.mark.parametrize(("wanted", "sent"), [(70, 70), (None, REMOVED)])
def test_a_direct_reset_is_a_commit_and_minus_1_removes_the_offset(
    wanted: int | None, sent: int
) -> None:
    request = reset_request(item(wanted, via=DIRECT))
    assert request.code == RequestCode.UPDATE_CONSUMER_OFFSET
    assert request.ext_fields == {
        "consumerGroup": "Group", "topic": "Orders", "queueId": "3", "commitOffset": str(sent),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("to", "time_ms", "sent"),
    [("earliest", None, "0"), (" LATEST ", None, "-1"), ("2h", 1_700_000_000_000, "1700000000000")],
)
def test_clients_are_notified_of_a_time(to: str, time_ms: int | None, sent: str) -> None:
    plan = ResetPlan(
        group="Group", topic="Orders", to=to, online=1, items=[item(70, via=CLIENTS)],
        to_timestamp=time_ms,
    )  # fmt: skip
    request = clients_request(plan)
    assert request.ext_fields["timestamp"] == sent
    assert request.ext_fields["isForce"] == "true"
    assert request.ext_fields["queueId"] == "-1"  # every queue


@pytest.mark.parametrize(
    ("read", "online", "expected"),
    [
        (70, 0, True),
        (50, 0, False),
        (75, 0, False),  # without clients there is no other commit
        (75, 1, True),  # a client has consumed since
        (50, 1, False),  # still the offset before the reset
        (60, 1, False),
        (None, 1, False),
    ],
)
def test_an_offset_has_arrived_if_it_is_the_planned_one_or_clients_are_past_it(
    read: int | None, online: int, expected: bool
) -> None:
    assert has_arrived(item(70), read, online) is expected


def test_a_removed_offset_has_arrived_only_if_there_is_none() -> None:
    assert has_arrived(item(None), None, 1)
    assert not has_arrived(item(None), 50, 1)


def test_errors_name_the_queue_and_both_offsets() -> None:
    moved = moved_error(item(70, None), 55)
    assert "Orders broker-a/3: the committed offset was none in the plan and is 55" in moved.message
    differs = differs_error(item(None), 55)
    assert "is 55 instead of none" in differs.message
    assert (moved.kind, differs.kind) == ("moved", "differs")


def plan(*items: ResetItem, **fields: Any) -> ResetPlan:
    return ResetPlan(group="Group", topic="Orders", to="latest", online=0, items=items, **fields)


def test_a_plan_is_empty_if_no_queue_changes_and_ok_if_all_arrived() -> None:
    error = TargetError(kind="refused", message="-")
    assert plan(item(50)).empty
    assert not plan(item(50), item(70)).empty
    assert plan(item(50), item(70, status="done")).ok
    assert not plan(item(70, status="pending")).ok
    assert not plan(item(50), errors=[error]).ok
