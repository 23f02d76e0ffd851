"""Lite pull: uses that are refused, positions without owner, brokers without master."""

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest

from broker.client.config import ConsumerConfig
from broker.client.consumer.lite_pull import AsyncLitePullConsumer
from broker.client.instance.client_instance import MQClientInstance
from broker.client.offset.start_offset import ConsumeFromWhere
from broker.common.message_queue import MessageQueue
from broker.errors import ClientError
from broker.remoting.protocol.codes import RequestCode
from tests.support.fake_cluster import FakeCluster
from tests.support.group_member import wait_until
from tests.support.virtual_time import run_virtual

QUEUES = [MessageQueue("T", "broker-a", number) for number in range(2)]


def cluster_of(messages: int = 20) -> FakeCluster:
    cluster = FakeCluster()
    cluster.create("T", queues=2)
    for number in range(messages):
        cluster.brokers["broker-a"].store(QUEUES[number % 2], b"%02d" % number)
    return cluster


def consumer_of(cluster: FakeCluster, **options: Any) -> AsyncLitePullConsumer:
    client = cluster.config(instance_name="m")
    instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
    config = ConsumerConfig(
        consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET, pull_batch_size=4
    )
    return AsyncLitePullConsumer(
        "g", client, config, clock=cluster.clock, instance=instance, **options
    )


async def drain(consumer: AsyncLitePullConsumer) -> list[bytes]:
    bodies: list[bytes] = []
    while batch := await consumer.poll(2_000):
        bodies += [one.body for one in batch]
    return bodies


def test_subscriptions_and_assignments_exclude_each_other_in_both_orders() -> None:
    cluster = cluster_of()

    async def main() -> None:
        one = consumer_of(cluster)
        one.subscribe("T")
        with pytest.raises(ClientError, match="exclude each other"):
            await one.assign(QUEUES)
        other = consumer_of(cluster)
        await other.assign(QUEUES)
        with pytest.raises(ClientError, match="exclude each other"):
            other.subscribe("T")
        await other.assign(QUEUES[:1])  # an assignment replaces the one before

    run_virtual(main(), cluster.clock)


def test_before_the_start_and_after_the_end_a_use_is_refused() -> None:
    cluster = cluster_of()

    async def main() -> None:
        consumer = consumer_of(cluster)
        consumer.subscribe("T")
        with pytest.raises(ClientError, match="not started"):
            await consumer.poll()
        for use in (
            consumer.commit(),
            consumer.committed(QUEUES[0]),
            consumer.seek(QUEUES[0], 0),
            consumer.seek_to_begin(QUEUES[0]),
            consumer.seek_to_end(QUEUES[0]),
            consumer.offset_for_timestamp(QUEUES[0], 0),
            consumer.fetch_message_queues("T"),
        ):
            with pytest.raises(ClientError, match="has not been started"):
                await use
        with pytest.raises(ClientError, match="has not been started"):
            consumer.assignment()
        await consumer.shutdown()  # nothing to do
        async with consumer:
            assert len(await drain(consumer)) == 20
        with pytest.raises(ClientError, match="shut down"):
            await consumer.poll()
        assert await consumer.rebalance()  # nothing is left to balance

    run_virtual(main(), cluster.clock)


def test_a_seek_outside_of_the_queue_names_its_bounds() -> None:
    cluster = cluster_of()

    async def main() -> None:
        consumer = consumer_of(cluster)
        await consumer.assign(QUEUES)
        async with consumer:
            await drain(consumer)
            for offset in (-1, 11, 1 << 40):
                with pytest.raises(ClientError, match="between 0 and 10"):
                    await consumer.seek(QUEUES[0], offset)
            for offset in (0, 10):
                await consumer.seek(QUEUES[0], offset)

    run_virtual(main(), cluster.clock)


@pytest.mark.parametrize("name", ["seek_to_begin", "seek_to_end"])
def test_a_queue_of_another_owner_cannot_be_positioned(name: str) -> None:
    cluster = cluster_of()

    async def main() -> None:
        consumer = consumer_of(cluster)
        await consumer.assign(QUEUES[:1])
        async with consumer:
            await drain(consumer)
            with pytest.raises(ClientError, match="not assigned"):
                await consumer.seek(QUEUES[1], 0)
            with pytest.raises(ClientError, match="not assigned"):
                await getattr(consumer, name)(QUEUES[1])

    run_virtual(main(), cluster.clock)


def test_seeking_to_an_end_delivers_the_later_or_all_messages() -> None:
    cluster = cluster_of()

    async def main() -> None:
        consumer = consumer_of(cluster)
        await consumer.assign(QUEUES[:1])
        async with consumer:
            assert len(await drain(consumer)) == 10
            await consumer.seek_to_begin(QUEUES[0])
            assert len(await drain(consumer)) == 10
            await consumer.seek_to_begin(QUEUES[0])
            await consumer.seek_to_end(QUEUES[0])
            assert await drain(consumer) == []
            cluster.brokers["broker-a"].store(QUEUES[0], b"new")
            assert await drain(consumer) == [b"new"]

    run_virtual(main(), cluster.clock)


def test_positions_of_a_broker_without_master_are_an_error() -> None:
    cluster = cluster_of()

    async def main() -> None:
        consumer = consumer_of(cluster)
        consumer.subscribe("T")
        async with consumer:
            foreign = MessageQueue("T", "broker-z", 0)
            with pytest.raises(ClientError, match="broker-z has no master"):
                await consumer.offset_for_timestamp(foreign, 0)
            with pytest.raises(ClientError, match="has no address"):
                await consumer.committed(foreign)
            with pytest.raises(ClientError, match="topic U does not exist"):
                await consumer.fetch_message_queues("U")
            assert await consumer.fetch_message_queues("T") == QUEUES

    run_virtual(main(), cluster.clock)


def test_a_smaller_assignment_gives_up_queues_and_commits_them() -> None:
    cluster = cluster_of()

    async def main() -> None:
        consumer = consumer_of(cluster)
        await consumer.assign(QUEUES)
        async with consumer:
            assert consumer.assignment() == QUEUES
            await drain(consumer)
            await consumer.assign(QUEUES[1:])
            assert consumer.assignment() == QUEUES[1:]
            assert cluster.brokers["broker-a"].offsets["g", QUEUES[0]] == 10
            cluster.brokers["broker-a"].store(QUEUES[0], b"not mine")
            assert await drain(consumer) == []

    run_virtual(main(), cluster.clock)


def test_a_topic_can_be_subscribed_while_running() -> None:
    cluster = cluster_of()
    cluster.create("U", queues=1)
    cluster.brokers["broker-a"].store(MessageQueue("U", "broker-a", 0), b"of U")

    async def main() -> None:
        consumer = consumer_of(cluster)
        consumer.subscribe("T")
        async with consumer:
            assert len(await drain(consumer)) == 20
            consumer.subscribe("U")
            assert await drain(consumer) == [b"of U"]

    run_virtual(main(), cluster.clock)


def test_messages_of_a_queue_that_was_given_up_are_not_returned() -> None:
    cluster = cluster_of()

    async def main() -> None:
        consumer = consumer_of(cluster)
        await consumer.assign(QUEUES)
        async with consumer:
            await asyncio.sleep(1)  # both queues are cached
            await consumer.assign(QUEUES[:1])
            got = await drain(consumer)
            assert all(int(body) % 2 == 0 for body in got)
            assert len(got) == 10

    run_virtual(main(), cluster.clock)


def test_a_poll_that_waits_ends_with_the_first_message() -> None:
    cluster = cluster_of(messages=0)

    async def main() -> None:
        consumer = consumer_of(cluster)
        consumer.subscribe("T")
        async with consumer:
            await asyncio.sleep(1)
            began_s = cluster.now_s()
            polling = asyncio.ensure_future(consumer.poll(60_000))
            await asyncio.sleep(7)
            cluster.brokers["broker-a"].store(QUEUES[0], b"x")
            (message,) = await polling
            assert message.body == b"x"
            assert cluster.now_s() - began_s < 7.5

    run_virtual(main(), cluster.clock)


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_poll_without_time_returns_the_cache_or_nothing(timeout_ms: int) -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        consumer = consumer_of(cluster)
        consumer.subscribe("T")
        async with consumer:
            # 4, 4 and 2 messages of each queue, and a pull that is suspended
            await wait_until(cluster, lambda: broker.codes().count(RequestCode.PULL_MESSAGE) == 8)
            got = []
            while batch := await consumer.poll(timeout_ms):
                got += batch
            assert len(got) == 20
            assert await consumer.poll(timeout_ms) == []

    run_virtual(main(), cluster.clock)


def test_without_auto_commit_nothing_is_committed_by_time_or_shutdown() -> None:
    cluster = cluster_of()

    async def main() -> None:
        consumer = consumer_of(cluster, auto_commit=False)
        await consumer.assign(QUEUES)
        async with consumer:
            await drain(consumer)
            await asyncio.sleep(20)
        assert all(offset == 0 for offset in cluster.brokers["broker-a"].offsets.values())

    run_virtual(main(), cluster.clock)


def test_a_shutdown_takes_no_longer_with_more_queues_on_a_hung_broker() -> None:
    cluster = FakeCluster()
    cluster.create("T", queues=16)
    for number in range(16):
        cluster.brokers["broker-a"].store(MessageQueue("T", "broker-a", number), b"x")

    async def main() -> None:
        consumer = consumer_of(cluster)
        consumer.subscribe("T")
        await consumer.start()
        assert len(await drain(consumer)) == 16
        cluster.brokers["broker-a"].state = "hung"
        began_s = cluster.now_s()
        await consumer.shutdown()
        assert cluster.now_s() - began_s < 10

    run_virtual(main(), cluster.clock)


def test_messages_that_a_seek_drops_leave_the_memory() -> None:
    cluster = FakeCluster()
    cluster.create("T", queues=1)
    broker = cluster.brokers["broker-a"]
    for _ in range(8):
        broker.store(QUEUES[0], bytes(50_000))

    async def cached(consumer: AsyncLitePullConsumer) -> int:
        before = broker.codes().count(RequestCode.PULL_MESSAGE)
        await consumer.seek(QUEUES[0], 0)
        # 4 and 4 messages, and a pull that is suspended
        await wait_until(
            cluster, lambda: broker.codes().count(RequestCode.PULL_MESSAGE) == before + 3
        )
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    async def main() -> None:
        consumer = consumer_of(cluster)
        consumer.subscribe("T")
        tracemalloc.start()
        try:
            async with consumer:
                await wait_until(cluster, consumer.assignment)
                first = await cached(consumer)
                for _ in range(20):
                    last = await cached(consumer)
                assert last - first < 8 * 50_000
                assert len(await consumer.poll()) == 4
        finally:
            tracemalloc.stop()

    run_virtual(main(), cluster.clock)
