"""Running information of clients, and the verdicts derived from it."""

import msgspec
import pytest

from broker.common.clock import ManualClock
from broker.errors import ClientError
from mqadmin.admin.clients.running import (
    BLOCKED_MS,
    SETTLED_MS,
    RunningQueue,
    RunningRecord,
    blocked_queues,
    parse_stacks,
    same_subscription,
)
from mqadmin.admin.connections import Subscription
from mqadmin.admin.facade import MQAdmin
from tests.support.online_clients import Online

JAVA_STACK = (
    "ConsumeMessageThread_g_1                TID: 32 STATE: WAITING\n"
    "ConsumeMessageThread_g_1                java.base/jdk.internal.misc.Unsafe.wait(Native)\n"
    "ConsumeMessageThread_g_1                java.base/java.lang.Thread.run(Thread.java:840)\n"
    "\n"
    "main                                    TID: 1 STATE: RUNNABLE\n"
    "\n"
)

QUEUE = RunningQueue(
    topic="t",
    broker_name="b",
    queue_id=0,
    cached_msg_count=3,
    last_consume_timestamp=1,
    locked=True,
)


def record(clock: ManualClock, **changes: object) -> RunningRecord:
    made = RunningRecord(
        group="g",
        client_id="c",
        client_addr="a:1",
        language="JAVA",
        version="V5_3_3",
        consume_type="CONSUME_PASSIVELY",
        orderly=False,
        start_timestamp=clock.now_ms() - SETTLED_MS - 1,
        queue_count=1,
        cached_messages=3,
        properties={},
        subscriptions=[
            Subscription(topic="t", sub_string="*", expression_type="TAG", sub_version=1)
        ],
        queues=[QUEUE],
        topics=[],
        user_consumer_info={},
    )
    return msgspec.structs.replace(made, **changes)


def test_each_client_reports_queues_and_subscriptions(online: Online, library: MQAdmin) -> None:
    (found,) = library.running.running("billing").items
    assert found.client_id == online.client_id
    assert found.consume_type == "CONSUME_PASSIVELY"
    assert "orders" in [one.topic for one in found.subscriptions]
    assert {(one.topic, one.queue_id) for one in found.queues} >= {("orders", 0), ("orders", 1)}
    assert found.queue_count == len(found.queues)
    assert found.jstack is None


def test_a_client_that_is_not_connected_is_an_error(library: MQAdmin) -> None:
    with pytest.raises(ClientError, match="no client other of group billing"):
        library.running.running("billing", client_id="other")


def test_a_group_without_clients_has_no_running_information(library: MQAdmin) -> None:
    assert library.running.running("none").items == []


def test_the_stacks_of_a_client_have_its_threads(online: Online, library: MQAdmin) -> None:
    threads = library.running.stacks("billing", client_id=online.client_id).items
    assert any("MainThread" in one.thread for one in threads)
    assert all(one.client_id == online.client_id for one in threads)


def test_the_stacks_of_java_are_split_by_thread() -> None:
    first, second = parse_stacks("c", JAVA_STACK)
    assert (first.thread, first.state) == ("ConsumeMessageThread_g_1", "WAITING")
    assert first.frame == "java.base/jdk.internal.misc.Unsafe.wait(Native)"
    assert len(first.frames) == 2
    assert (second.thread, second.state, second.frame) == ("main", "RUNNABLE", None)


def test_an_empty_stack_has_no_threads() -> None:
    assert parse_stacks("c", "") == []


def test_clients_with_other_subscriptions_differ() -> None:
    clock = ManualClock()
    one = record(clock)
    other = record(
        clock,
        subscriptions=[
            Subscription(topic="t", sub_string="A", expression_type="TAG", sub_version=1)
        ],
    )
    assert same_subscription([one, one], clock)
    assert not same_subscription([one, other], clock)
    young = record(clock, start_timestamp=clock.now_ms())
    assert same_subscription([young, other], clock)
    assert same_subscription([], clock)


def test_a_queue_with_cached_messages_that_are_not_consumed_is_blocked() -> None:
    clock = ManualClock()
    assert "3 cached messages" in blocked_queues(record(clock), clock)[0]
    fresh = msgspec.structs.replace(QUEUE, last_consume_timestamp=clock.now_ms() - BLOCKED_MS + 1)
    assert blocked_queues(record(clock, queues=[fresh]), clock) == []


def test_an_orderly_queue_that_is_not_locked_is_blocked() -> None:
    clock = ManualClock()
    unlocked = msgspec.structs.replace(QUEUE, locked=False)
    assert blocked_queues(record(clock, orderly=True), clock) == []
    assert "not locked" in blocked_queues(record(clock, orderly=True, queues=[unlocked]), clock)[0]
    pull = record(clock, orderly=True, queues=[unlocked], consume_type="CONSUME_ACTIVELY")
    assert blocked_queues(pull, clock) == []
