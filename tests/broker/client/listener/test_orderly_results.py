"""Orderly listeners: every result with automatic and with manual commit, pauses, the end."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import pytest

from broker.client.listener.listeners import ConsumeOrderlyContext
from broker.client.results import ConsumeOrderlyStatus as Status
from broker.common.message_queue import MessageQueue
from broker.message.message import MessageExt
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import response
from tests.support.fake_cluster import FakeCluster
from tests.support.group_member import Member, wait_until
from tests.support.virtual_time import run_virtual

QUEUE = MessageQueue("T", "broker-a", 0)


def cluster_of(messages: int) -> FakeCluster:
    cluster = FakeCluster()
    cluster.create("T", queues=1)
    for number in range(messages):
        cluster.brokers["broker-a"].store(QUEUE, b"%d" % number)
    return cluster


class Script:
    """A listener that returns the given results in turn, then SUCCESS."""

    def __init__(self, *results: object, auto_commit: bool = True, pause_ms: int = -1) -> None:
        self.results = list(results)
        self.auto_commit = auto_commit
        self.pause_ms = pause_ms
        self.calls: list[tuple[float, list[bytes]]] = []
        self.cluster: FakeCluster | None = None

    async def __call__(self, messages: Sequence[MessageExt], context: ConsumeOrderlyContext) -> Any:
        assert self.cluster is not None
        self.calls.append((self.cluster.now_s(), [one.body for one in messages]))
        context.auto_commit = self.auto_commit
        context.suspend_current_queue_ms = self.pause_ms
        result = self.results.pop(0) if self.results else Status.SUCCESS
        if isinstance(result, BaseException):
            raise result
        return result

    @property
    def bodies(self) -> list[list[bytes]]:
        return [bodies for _, bodies in self.calls]


def consume(
    script: Script, messages: int, calls: int, *, after_s: float = 6, **options: Any
) -> FakeCluster:
    """Consume until the listener was called so often; the cluster afterwards."""
    cluster = cluster_of(messages)
    script.cluster = cluster

    async def main() -> None:
        member = Member(cluster, "m", orderly=True, **options)
        member.consumer.listen_orderly(script)
        async with member.consumer:
            await wait_until(cluster, lambda: len(script.calls) >= calls, 120)
            await asyncio.sleep(after_s)

    run_virtual(main(), cluster.clock)
    return cluster


def committed(cluster: FakeCluster) -> int | None:
    return cluster.brokers["broker-a"].offsets.get(("g", QUEUE))


@pytest.mark.parametrize(
    "result",
    [
        Status.SUSPEND_CURRENT_QUEUE_A_MOMENT,
        None,
        "a text",
        ValueError("a defect of the application"),
    ],
    ids=["suspend", "none", "text", "error"],
)
def test_everything_but_success_delivers_the_same_message_again(result: object) -> None:
    script = Script(result, result)
    cluster = consume(script, messages=2, calls=4)
    assert script.bodies == [[b"0"], [b"0"], [b"0"], [b"1"]]
    assert committed(cluster) == 2


@pytest.mark.parametrize("result", [Status.COMMIT, Status.ROLLBACK])
def test_statuses_of_manual_commit_count_as_success_with_automatic_commit(
    result: Status, caplog: pytest.LogCaptureFixture
) -> None:
    script = Script(result)
    with caplog.at_level(logging.WARNING):
        cluster = consume(script, messages=2, calls=2)
    assert script.bodies == [[b"0"], [b"1"]]
    assert committed(cluster) == 2
    assert "counts as SUCCESS with automatic commit" in caplog.text


def test_with_manual_commit_success_takes_and_commit_commits_all_taken() -> None:
    script = Script(
        Status.SUCCESS, Status.SUCCESS, Status.COMMIT, Status.SUCCESS, auto_commit=False
    )
    cluster = consume(script, messages=4, calls=4)
    assert script.bodies == [[b"0"], [b"1"], [b"2"], [b"3"]]
    assert committed(cluster) == 3  # the fourth is taken, not committed


def test_with_manual_commit_a_rollback_delivers_all_taken_messages_again() -> None:
    script = Script(
        Status.SUCCESS,
        Status.SUCCESS,
        Status.ROLLBACK,
        Status.SUCCESS,
        Status.SUCCESS,
        Status.COMMIT,
        auto_commit=False,
    )
    cluster = consume(script, messages=3, calls=6)
    assert script.bodies == [[b"0"], [b"1"], [b"2"]] * 2
    assert committed(cluster) == 3


@pytest.mark.parametrize(
    ("given_ms", "configured_ms", "pause_s"),
    [
        (-1, 1_000, 1.0),
        (-1, 3_000, 3.0),
        (0, 1_000, 0.01),
        (1, 1_000, 0.01),
        (500, 1_000, 0.5),
        (30_000, 1_000, 30.0),
        (600_000, 1_000, 30.0),
        (-1, 600_000, 30.0),
    ],
)
def test_the_pause_of_a_failed_queue_is_the_contexts_else_the_setting_within_10_ms_and_30_s(
    given_ms: int, configured_ms: int, pause_s: float
) -> None:
    script = Script(Status.SUSPEND_CURRENT_QUEUE_A_MOMENT, pause_ms=given_ms)
    consume(script, messages=1, calls=2, suspend_current_queue_ms=configured_ms)
    (first_s, _), (second_s, _) = script.calls
    assert pause_s <= second_s - first_s < pause_s + 0.2


def test_a_batch_fails_and_succeeds_as_a_whole_in_order() -> None:
    script = Script(Status.SUSPEND_CURRENT_QUEUE_A_MOMENT)
    cluster = consume(script, messages=6, calls=3, consume_message_batch_max_size=4)
    assert script.bodies[0] == script.bodies[1]
    assert [body for bodies in script.bodies[1:] for body in bodies] == [
        b"%d" % number for number in range(6)
    ]
    assert committed(cluster) == 6


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_message_is_delivered_once_more_than_its_maximum_and_then_leaves_the_queue(
    limit: int,
) -> None:
    script = Script(*[Status.SUSPEND_CURRENT_QUEUE_A_MOMENT] * (limit + 1))
    cluster = consume(script, messages=2, calls=limit + 2, max_reconsume_times=limit)
    assert script.bodies[: limit + 2] == [[b"0"]] * (limit + 1) + [[b"1"]]
    assert cluster.brokers["broker-a"].bodies("%RETRY%g") == [b"0"]
    assert committed(cluster) == 2


def test_a_message_whose_retry_topic_refuses_it_stays_at_the_head_of_its_queue() -> None:
    """It must not be lost: the send to the retry topic is its only other copy."""
    cluster = cluster_of(2)
    script = Script(*[Status.SUSPEND_CURRENT_QUEUE_A_MOMENT] * 3)
    script.cluster = cluster
    broker = cluster.brokers["broker-a"]
    refused = {RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_MESSAGE}
    for code in refused:
        broker.scripts[code] = lambda command: response(
            command, ResponseCode.MESSAGE_ILLEGAL, "scripted"
        )

    async def main() -> None:
        member = Member(cluster, "m", orderly=True, max_reconsume_times=0)
        member.consumer.listen_orderly(script)
        async with member.consumer:
            await wait_until(cluster, lambda: len(script.calls) == 5, 120)
            assert script.bodies == [[b"0"]] * 4 + [[b"1"]]

    run_virtual(main(), cluster.clock)
    assert broker.bodies("%RETRY%g") == []


def test_a_queue_whose_lock_is_refused_is_tried_every_three_seconds() -> None:
    cluster = cluster_of(1)
    broker = cluster.brokers["broker-a"]
    script = Script()
    script.cluster = cluster

    async def main() -> None:
        member = Member(cluster, "m", orderly=True)
        member.consumer.listen_orderly(script)
        async with member.consumer:
            await wait_until(cluster, lambda: len(script.calls) == 1)
            process = member.consumer.process_queues[QUEUE]
            broker.locks["g", QUEUE] = "another"
            process.locked = False
            broker.store(QUEUE, b"later")
            member.consumer.service.dispatch((), process, QUEUE)
            await asyncio.sleep(10)
            assert len(script.calls) == 1
            del broker.locks["g", QUEUE]
            await wait_until(cluster, lambda: len(script.calls) == 2, 40)

    run_virtual(main(), cluster.clock)


def test_a_shutdown_during_a_listener_call_commits_its_message() -> None:
    cluster = cluster_of(3)
    started = asyncio.Event()

    async def slow(messages: Sequence[MessageExt], context: ConsumeOrderlyContext) -> Status:
        started.set()
        await asyncio.sleep(2)
        return Status.SUCCESS

    async def main() -> None:
        member = Member(cluster, "m", orderly=True, await_termination_ms=10_000)
        member.consumer.listen_orderly(slow)
        async with member.consumer:
            await started.wait()

    run_virtual(main(), cluster.clock)
    assert committed(cluster) == 1
    assert cluster.brokers["broker-a"].locks == {}


def test_a_listener_that_outlives_the_shutdown_commits_nothing() -> None:
    cluster = cluster_of(1)
    started = asyncio.Event()

    async def endless(messages: Sequence[MessageExt], context: ConsumeOrderlyContext) -> Status:
        started.set()
        await asyncio.sleep(1_000_000)
        return Status.SUCCESS

    async def main() -> None:
        member = Member(cluster, "m", orderly=True, await_termination_ms=100)
        member.consumer.listen_orderly(endless)
        async with member.consumer:
            await started.wait()

    run_virtual(main(), cluster.clock)
    assert committed(cluster) in (None, 0)
