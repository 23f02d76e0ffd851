"""Lite pull: which offsets a commit stores, and when."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.client.config import ConsumerConfig, MessageModel
from broker.client.consumer.lite_pull import AsyncLitePullConsumer
from broker.client.instance.client_instance import MQClientInstance
from broker.client.offset.start_offset import ConsumeFromWhere
from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from tests.support.fake_cluster import FakeCluster
from tests.support.group_member import Member, wait_until
from tests.support.virtual_time import run_virtual

QUEUE = MessageQueue("T", "broker-a", 0)
KEY = ("g", QUEUE)


def cluster_of(messages: int = 20, *, queues: int = 1) -> FakeCluster:
    cluster = FakeCluster()
    cluster.create("T", queues=queues)
    for number in range(messages):
        queue = MessageQueue("T", "broker-a", number % queues)
        cluster.brokers["broker-a"].store(queue, b"%02d" % number)
    return cluster


def consumer_of(
    cluster: FakeCluster, tags: str = "*", *, config: ConsumerConfig | None = None, **options: Any
) -> AsyncLitePullConsumer:
    client = cluster.config(instance_name="m")
    instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
    first = ConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, pull_batch_size=4
    )
    consumer = AsyncLitePullConsumer(
        "g", client, config or first, clock=cluster.clock, instance=instance, **options
    )
    consumer.subscribe("T", tags)
    return consumer


def run(
    cluster: FakeCluster,
    work: Callable[[AsyncLitePullConsumer], Awaitable[None]],
    tags: str = "*",
    **options: Any,
) -> None:
    async def main() -> None:
        async with consumer_of(cluster, tags, **options) as consumer:
            await work(consumer)

    run_virtual(main(), cluster.clock)


async def drain(consumer: AsyncLitePullConsumer) -> list[bytes]:
    bodies: list[bytes] = []
    while batch := await consumer.poll(2_000):
        bodies += [one.body for one in batch]
    return bodies


def test_polled_messages_do_not_count_for_flow_control_without_commits() -> None:
    cluster = cluster_of(messages=3_000)

    async def work(consumer: AsyncLitePullConsumer) -> None:
        assert len(await drain(consumer)) == 3_000
        assert cluster.brokers["broker-a"].offsets == {}
        await consumer.commit()
        assert cluster.brokers["broker-a"].offsets[KEY] == 3_000

    run(cluster, work, auto_commit=False)


def test_a_seek_is_committed_by_commit_only() -> None:
    cluster = cluster_of()
    offsets = cluster.brokers["broker-a"].offsets

    async def work(consumer: AsyncLitePullConsumer) -> None:
        assert await consumer.poll()
        await consumer.commit()
        await consumer.seek_to_end(QUEUE)
        await asyncio.sleep(40)  # pulls and periodic commits
        assert offsets[KEY] == 4
        await consumer.commit()
        assert offsets[KEY] == 20
        await consumer.seek(QUEUE, 7)
        assert offsets[KEY] == 20
        assert [one.body for one in await consumer.poll()] == [b"07", b"08", b"09", b"10"]
        await consumer.commit()
        assert offsets[KEY] == 11
        await consumer.seek_to_begin(QUEUE)
        await asyncio.sleep(40)

    run(cluster, work, auto_commit=False)
    assert offsets[KEY] == 11  # the shutdown commits nothing


def test_a_seek_discards_messages_polled_before_it() -> None:
    cluster = cluster_of()
    offsets = cluster.brokers["broker-a"].offsets

    async def work(consumer: AsyncLitePullConsumer) -> None:
        assert len(await drain(consumer)) == 20
        await consumer.seek(QUEUE, 5)
        await consumer.commit()
        assert offsets[KEY] == 5

    run(cluster, work, auto_commit=False)


def test_with_auto_commit_a_seek_is_committed_by_the_next_poll() -> None:
    cluster = cluster_of()
    offsets = cluster.brokers["broker-a"].offsets

    async def work(consumer: AsyncLitePullConsumer) -> None:
        assert len(await drain(consumer)) == 20
        await asyncio.sleep(6)
        assert offsets[KEY] == 20
        await consumer.seek(QUEUE, 5)
        await consumer.poll()
        await asyncio.sleep(6)
        assert offsets[KEY] == 5  # the polled batch counts with a later poll
        await consumer.seek(QUEUE, 13)

    run(cluster, work)
    assert offsets[KEY] == 13


def test_with_auto_commit_a_batch_is_committed_by_a_later_poll_only() -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]

    async def work(consumer: AsyncLitePullConsumer) -> None:
        assert len(await consumer.poll()) == 4
        await asyncio.sleep(40)
        assert broker.offsets.get(KEY, 0) == 0
        assert len(await consumer.poll()) == 4
        await asyncio.sleep(6)
        assert broker.offsets[KEY] == 4

    run(cluster, work)
    assert broker.offsets[KEY] == 8  # the shutdown counts the last batch


def test_a_batch_of_a_queue_that_is_taken_away_is_not_committed() -> None:
    cluster = cluster_of(queues=2)
    broker = cluster.brokers["broker-a"]
    taken = MessageQueue("T", "broker-a", 1)

    async def main() -> None:
        first = consumer_of(cluster)
        async with first:
            assert len(await drain(first)) == 20
            await first.commit()
            broker.store(taken, b"x")
            assert [one.body for one in await first.poll()] == [b"x"]
            left = asyncio.Event()
            first.on_queues_changed.append(lambda *_: left.set())
            client = cluster.config(instance_name="z")
            second = AsyncLitePullConsumer(
                "g",
                client,
                clock=cluster.clock,
                auto_commit=False,
                instance=MQClientInstance(client, clock=cluster.clock, transport=cluster.transport),
            )
            second.subscribe("T")
            async with second:
                await left.wait()
                assert first.assignment() == [QUEUE]
                await first.commit()
                assert broker.offsets["g", taken] == 10
                assert [one.body for one in await second.poll()] == [b"x"]

    run_virtual(main(), cluster.clock)


def test_a_finished_batch_of_a_queue_that_is_taken_away_is_committed() -> None:
    cluster = cluster_of(queues=2)
    broker = cluster.brokers["broker-a"]
    taken = MessageQueue("T", "broker-a", 1)

    async def main() -> None:
        first = consumer_of(cluster, auto_commit=False)
        async with first:
            assert len(await drain(first)) == 20
            first.finish_polled()
            await asyncio.sleep(40)
            assert broker.offsets == {}  # by commit only, or when the queue is taken away
            second = Member(cluster, "z")
            async with second.consumer:
                await wait_until(cluster, lambda: ("g", taken) in broker.offsets)
                assert broker.offsets["g", taken] == 10
        assert broker.offsets == {("g", QUEUE): 10, ("g", taken): 10}

    run_virtual(main(), cluster.clock)


def test_without_auto_commit_filtered_messages_are_committed_by_commit_only() -> None:
    cluster = cluster_of()
    offsets = cluster.brokers["broker-a"].offsets

    async def work(consumer: AsyncLitePullConsumer) -> None:
        assert await consumer.poll(60_000) == []
        assert offsets == {}
        await consumer.commit()
        assert offsets[KEY] == 20

    run(cluster, work, "other", auto_commit=False)


def test_filtered_messages_after_a_polled_batch_do_not_commit_it() -> None:
    cluster = cluster_of(messages=0)
    broker = cluster.brokers["broker-a"]
    broker.store(QUEUE, b"match", b"TAGS\x01A\x02")
    for _ in range(50):
        broker.store(QUEUE, b"other", b"TAGS\x01B\x02")

    async def work(consumer: AsyncLitePullConsumer) -> None:
        assert [one.body for one in await consumer.poll()] == [b"match"]
        await asyncio.sleep(60)
        assert broker.offsets.get(KEY, 0) == 0
        assert await consumer.poll(10_000) == []
        assert broker.offsets[KEY] == 51

    run(cluster, work, "A")


def test_the_answer_to_a_pull_from_before_a_seek_is_dropped() -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]

    async def work(consumer: AsyncLitePullConsumer) -> None:
        assert len(await drain(consumer)) == 20
        broker.latency_s = 0.5
        await consumer.seek_to_begin(QUEUE)
        await asyncio.sleep(0.1)  # the pull at offset 0 is in flight
        await consumer.seek(QUEUE, 18)
        assert await drain(consumer) == [b"18", b"19"]
        await consumer.commit()
        assert broker.offsets[KEY] == 20

    run(cluster, work, auto_commit=False)


@pytest.mark.parametrize("auto_commit", [True, False])
def test_an_offset_that_does_not_exist_is_replaced_without_a_commit_of_its_own(
    auto_commit: bool,
) -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]
    broker.offsets[KEY] = 1
    del broker.records[QUEUE][:5]
    broker.first[QUEUE] = 5

    async def work(consumer: AsyncLitePullConsumer) -> None:
        await asyncio.sleep(40)
        assert broker.offsets[KEY] == 1
        assert len(await drain(consumer)) == 15
        await consumer.commit()
        assert broker.offsets[KEY] == 20

    run(cluster, work, auto_commit=auto_commit)


def test_a_seek_needs_no_member_list() -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]

    def refuse(command: RemotingCommand) -> RemotingCommand:
        return response(command, ResponseCode.SYSTEM_ERROR, "busy")

    async def work(consumer: AsyncLitePullConsumer) -> None:
        assert len(await drain(consumer)) == 20
        changes: list[int] = []
        consumer.on_queues_changed.append(lambda topic, queues, own: changes.append(len(own)))
        broker.scripts[RequestCode.GET_CONSUMER_LIST_BY_GROUP] = refuse
        await consumer.seek(QUEUE, 19)
        assert consumer.assignment() == [QUEUE]
        assert await drain(consumer) == [b"19"]
        assert changes == []

    run(cluster, work)


def test_a_resumed_queue_keeps_the_order_of_its_messages() -> None:
    cluster = cluster_of(40, queues=2)
    cluster.brokers["broker-a"].latency_s = 0.1  # batches of both queues arrive in turn

    async def work(consumer: AsyncLitePullConsumer) -> None:
        await asyncio.sleep(10)  # everything is cached
        consumer.pause([QUEUE])
        assert {int(one.body) % 2 for one in await consumer.poll()} == {1}
        consumer.resume([QUEUE])
        bodies = [body for body in await drain(consumer) if int(body) % 2 == 0]
        assert bodies == [b"%02d" % number for number in range(0, 40, 2)]

    run(cluster, work)


def test_a_broadcasting_seek_reaches_the_file_by_commit_only(tmp_path: Path) -> None:
    cluster = cluster_of()
    config = ConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
        message_model=MessageModel.BROADCASTING,
        offset_dir=str(tmp_path),
    )

    async def main() -> None:
        async with consumer_of(cluster, config=config, auto_commit=False) as member:
            assert len(await drain(member)) == 20
            await member.commit()
            await member.seek(QUEUE, 2)
        async with consumer_of(cluster, config=config, auto_commit=False) as member:
            assert await drain(member) == []
            await member.seek(QUEUE, 3)
            await member.commit()
        async with consumer_of(cluster, config=config, auto_commit=False) as member:
            assert len(await drain(member)) == 17

    run_virtual(main(), cluster.clock)
