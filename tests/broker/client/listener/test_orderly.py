"""Orderly consumption on virtual time."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest

from broker.client.listener.listeners import ConsumeOrderlyContext
from broker.client.results import ConsumeOrderlyStatus
from broker.common.message_queue import MessageQueue
from broker.message.message import MessageExt
from broker.remoting.protocol.codes import RequestCode
from tests.support.fake_cluster import FakeCluster
from tests.support.group_member import Member, wait_until
from tests.support.virtual_time import run_virtual


def cluster_of(queues: int = 2, messages: int = 40) -> FakeCluster:
    cluster = FakeCluster()
    cluster.create("T", queues=queues)
    for number in range(messages):
        queue = MessageQueue("T", "broker-a", number % queues)
        cluster.brokers["broker-a"].store(queue, b"%03d" % number)
    return cluster


def in_order(got: list[MessageExt]) -> bool:
    offsets: dict[int, list[int]] = {}
    for message in got:
        offsets.setdefault(message.queue_id, []).append(message.queue_offset)
    return all(one < two for each in offsets.values() for one, two in pairwise(each))


def test_each_queue_is_consumed_in_order_with_retries_in_place() -> None:
    cluster = cluster_of()

    async def main() -> None:
        member = Member(cluster, "m", orderly=True)
        member.fails = {b"004": 2, b"011": 1}
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.got) == 40)
            assert in_order(member.got)
            assert not cluster.brokers["broker-a"].bodies("%RETRY%g")
        offsets = cluster.brokers["broker-a"].offsets
        assert [offsets["g", MessageQueue("T", "broker-a", number)] for number in range(2)] == [
            20,
            20,
        ]

    run_virtual(main(), cluster.clock)


def test_a_failing_queue_waits_and_the_others_go_ahead() -> None:
    cluster = cluster_of()

    async def main() -> None:
        member = Member(cluster, "m", orderly=True)
        member.fails = {b"000": 5}
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.got) == 20, 3)
            assert {message.queue_id for message in member.got} == {1}
            await wait_until(cluster, lambda: len(member.got) == 40, 6)
            first = next(one for one in member.got if one.queue_id == 0)
            assert first.reconsume_times == 5

    run_virtual(main(), cluster.clock)


def test_after_the_maximum_a_message_goes_to_the_retry_topic_and_the_queue_continues() -> None:
    cluster = cluster_of()

    async def main() -> None:
        member = Member(cluster, "m", orderly=True, max_reconsume_times=2)
        member.fails = {b"000": 3}
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.got) >= 40, 20)
            assert cluster.brokers["broker-a"].bodies("%RETRY%g") == [b"000"]

    run_virtual(main(), cluster.clock)


def test_a_queue_without_its_lock_is_not_consumed() -> None:
    cluster = cluster_of()
    queue = MessageQueue("T", "broker-a", 0)
    broker = cluster.brokers["broker-a"]
    broker.locks["g", queue] = "another"

    async def main() -> None:
        member = Member(cluster, "m", orderly=True)
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.got) == 20, 5)
            await asyncio.sleep(30)
            assert {message.queue_id for message in member.got} == {1}
            del broker.locks["g", queue]
            await wait_until(cluster, lambda: len(member.got) == 40, 5)
            assert in_order(member.got)

    run_virtual(main(), cluster.clock)


def test_locks_are_renewed_every_twenty_seconds_and_released_at_the_end() -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        member = Member(cluster, "m", orderly=True)
        async with member.consumer:
            await wait_until(cluster, lambda: len(member.got) == 40)
            before = broker.codes().count(RequestCode.LOCK_BATCH_MQ)
            await asyncio.sleep(100)
            assert broker.codes().count(RequestCode.LOCK_BATCH_MQ) - before == 5
        assert broker.locks == {}

    run_virtual(main(), cluster.clock)


def test_a_stop_unlocks_queues_at_once_whose_unlock_was_delayed() -> None:
    cluster = cluster_of(queues=2, messages=200)
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        first, second = Member(cluster, "a", orderly=True), Member(cluster, "b", orderly=True)
        first.delay_s = 0.2
        await first.consumer.start()
        await wait_until(cluster, lambda: len(first.got) > 5)
        async with second.consumer:
            await wait_until(cluster, lambda: len(first.owned()) == 1)
            given_up = {MessageQueue("T", "broker-a", one) for one in (0, 1)} - set(first.owned())
            client_id = first.consumer.running_parts().instance.client_id
            assert all(broker.locks["g", queue] == client_id for queue in given_up)
            await first.consumer.shutdown()
            assert client_id not in broker.locks.values()
            await wait_until(cluster, lambda: len(second.owned()) == 2, 3)

    run_virtual(main(), cluster.clock)


def test_two_members_never_run_on_one_queue_while_it_moves() -> None:
    cluster = cluster_of(queues=2, messages=200)

    async def main() -> None:
        first = Member(cluster, "a", orderly=True)
        first.delay_s = 0.2
        await first.consumer.start()
        await wait_until(cluster, lambda: len(first.got) > 10)
        second = Member(cluster, "b", orderly=True)
        second.delay_s = 0.2
        await second.consumer.start()
        await wait_until(cluster, lambda: len({*first.bodies, *second.bodies}) == 200, 200)
        merged = sorted((*first.got, *second.got), key=lambda one: one.queue_offset)
        assert in_order(first.got)
        assert in_order(second.got)
        assert len(merged) - 200 <= 2  # at most the message in progress when a queue moved
        assert len(first.owned()) == len(second.owned()) == 1
        await first.consumer.shutdown()
        await second.consumer.shutdown()

    run_virtual(main(), cluster.clock)


SUCCESS = ConsumeOrderlyStatus.SUCCESS
SUSPEND = ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
COMMIT = ConsumeOrderlyStatus.COMMIT
ROLLBACK = ConsumeOrderlyStatus.ROLLBACK


def deliveries(
    script: Sequence[ConsumeOrderlyStatus | None], *, auto_commit: bool, messages: int = 3
) -> tuple[list[bytes], int | None, int]:
    """Bodies of the calls that ``script`` answers, the offset then committed, open messages."""
    cluster = cluster_of(queues=1, messages=messages)
    calls: list[bytes] = []

    async def listener(
        batch: Sequence[MessageExt], context: ConsumeOrderlyContext
    ) -> ConsumeOrderlyStatus:
        context.auto_commit = auto_commit
        if len(calls) == len(script):
            await asyncio.Event().wait()
        calls.append(batch[0].body)
        return script[len(calls) - 1]  # type: ignore[return-value]  # None: a wrong listener

    async def main() -> tuple[int | None, int]:
        member = Member(cluster, "m", orderly=True, await_termination_ms=0)
        member.consumer.listen_orderly(listener)
        async with member.consumer as consumer:
            await wait_until(cluster, lambda: len(calls) == len(script))
            await asyncio.sleep(1)
            (process,) = [
                one for queue, one in consumer.process_queues.items() if queue.topic == "T"
            ]
            return consumer.offsets.table.get(MessageQueue("T", "broker-a", 0)), process.count

    offset, count = run_virtual(main(), cluster.clock)
    return calls, offset, count


@pytest.mark.parametrize("auto_commit", [True, False])
@pytest.mark.parametrize(
    ("script", "auto", "manual"),
    [
        # the numbers of the messages delivered, the committed offset, the unfinished messages
        ([SUCCESS, SUCCESS], ([0, 1], 2, 1), ([0, 1], 0, 3)),
        ([SUCCESS, COMMIT], ([0, 1], 2, 1), ([0, 1], 2, 1)),
        ([SUCCESS, SUCCESS, ROLLBACK, COMMIT], ([0, 1, 2], 3, 0), ([0, 1, 2, 0], 1, 2)),
        ([SUCCESS, SUSPEND, COMMIT], ([0, 1, 1], 2, 1), ([0, 1, 1], 2, 1)),
        ([None, COMMIT, SUCCESS], ([0, 0, 1], 2, 1), ([0, 0, 1], 1, 2)),
    ],
)
def test_a_listener_commits_by_itself_or_each_call_does(
    script: list[ConsumeOrderlyStatus | None],
    auto: tuple[list[int], int, int],
    manual: tuple[list[int], int, int],
    auto_commit: bool,
) -> None:
    if auto_commit and ROLLBACK in script:
        script = [SUCCESS, SUCCESS, ROLLBACK]  # counts as SUCCESS: nothing is left afterwards
    calls, offset, count = deliveries(script, auto_commit=auto_commit)
    assert ([int(body) for body in calls], offset or 0, count) == (auto if auto_commit else manual)


def test_manual_commit_sends_a_failing_message_to_the_retry_topic_and_commits_it_later() -> None:
    cluster = cluster_of(queues=1, messages=2)
    seen: list[bytes] = []

    async def listener(
        batch: Sequence[MessageExt], context: ConsumeOrderlyContext
    ) -> ConsumeOrderlyStatus:
        context.auto_commit = False
        seen.append(batch[0].body)
        return SUSPEND if len(seen) <= 2 else COMMIT

    async def main() -> None:
        member = Member(cluster, "m", orderly=True, max_reconsume_times=1)
        member.consumer.listen_orderly(listener)
        async with member.consumer:
            await wait_until(cluster, lambda: b"001" in seen)
            assert cluster.brokers["broker-a"].bodies("%RETRY%g") == [b"000"]
        assert seen[:3] == [b"000", b"000", b"001"]
        assert cluster.brokers["broker-a"].offsets["g", MessageQueue("T", "broker-a", 0)] == 2

    run_virtual(main(), cluster.clock)
