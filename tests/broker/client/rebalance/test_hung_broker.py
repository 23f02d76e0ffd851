"""Rebalances with a broker that does not respond: its queues wait for one time-out together."""

import asyncio

import pytest

from broker.client.config import ConsumerConfig
from broker.client.consumer.lite_pull import AsyncLitePullConsumer
from broker.client.consumer.push_consumer import AsyncPushConsumer
from broker.client.instance.client_instance import MQClientInstance
from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from tests.support.fake_cluster import FakeCluster
from tests.support.group_member import FIRST, Member, wait_until
from tests.support.virtual_time import run_virtual

TOPICS = ("T", "U")
QUEUES = [MessageQueue(topic, "broker-a", number) for topic in TOPICS for number in range(8)]
LIMIT_S = 2.9
"""Less than the time-out of one request."""


async def never(_: RemotingCommand) -> RemotingCommand:
    await asyncio.Event().wait()
    raise AssertionError("the event is never set")


def cluster_of() -> FakeCluster:
    cluster = FakeCluster()
    for topic in TOPICS:
        cluster.create(topic, queues=8)
    for queue in QUEUES:
        cluster.brokers["broker-a"].store(queue, b"x")
    return cluster


def lite_pull(cluster: FakeCluster) -> AsyncLitePullConsumer:
    client = cluster.config(instance_name="a")
    instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
    consumer = AsyncLitePullConsumer(
        *("g", client, ConsumerConfig(consume_from_where=FIRST)),
        clock=cluster.clock,
        instance=instance,
    )
    for topic in TOPICS:
        consumer.subscribe(topic)
    return consumer


def member(cluster: FakeCluster, kind: str) -> AsyncLitePullConsumer | AsyncPushConsumer:
    if kind == "lite pull":
        return lite_pull(cluster)
    found = Member(cluster, "a", orderly=kind == "orderly")
    found.consumer.subscribe("U")
    return found.consumer


def asked(cluster: FakeCluster, code: int) -> int:
    return cluster.brokers["broker-a"].codes().count(code)


@pytest.mark.parametrize("kind", ["lite pull", "concurrently", "orderly"])
def test_the_queues_that_a_rebalance_releases_are_committed_together(kind: str) -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        consumer = member(cluster, kind)
        await consumer.start()
        await wait_until(cluster, lambda: len(consumer.assignment()) == len(QUEUES))
        if isinstance(consumer, AsyncLitePullConsumer):
            polled = [message for _ in QUEUES for message in await consumer.poll()]
            assert len(polled) == len(QUEUES)
            await consumer.commit()
            for queue in QUEUES:  # to be committed when they are released
                await consumer.seek(queue, 0)
            assert await consumer.poll()
        else:
            await asyncio.sleep(1)  # all are consumed and not committed yet
        broker.scripts[RequestCode.UPDATE_CONSUMER_OFFSET] = never
        before = asked(cluster, RequestCode.UPDATE_CONSUMER_OFFSET)
        second = Member(cluster, "b")
        second.consumer.subscribe("U")
        await second.consumer.start()
        await wait_until(
            cluster,
            lambda: asked(cluster, RequestCode.UPDATE_CONSUMER_OFFSET) - before == len(QUEUES) // 2,
            LIMIT_S,
        )
        broker.scripts.clear()
        await consumer.shutdown()
        await second.consumer.shutdown()

    run_virtual(main(), cluster.clock)


def test_the_start_offsets_of_a_topic_are_queried_together() -> None:
    cluster = cluster_of()
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        consumer = lite_pull(cluster)
        broker.scripts[RequestCode.QUERY_CONSUMER_OFFSET] = never
        await consumer.start()
        await wait_until(
            cluster, lambda: asked(cluster, RequestCode.QUERY_CONSUMER_OFFSET) == 8, LIMIT_S
        )
        broker.scripts.clear()
        await wait_until(cluster, lambda: len(consumer.assignment()) == len(QUEUES))
        await consumer.shutdown()

    run_virtual(main(), cluster.clock)


def test_the_locks_of_all_brokers_are_requested_together() -> None:
    cluster = FakeCluster(brokers=3)
    cluster.create("T", queues=2)

    async def main() -> None:
        for broker in cluster.brokers.values():
            broker.scripts[RequestCode.LOCK_BATCH_MQ] = never
        found = Member(cluster, "a", orderly=True)
        await found.consumer.start()
        await wait_until(
            cluster,
            lambda: all(
                RequestCode.LOCK_BATCH_MQ in broker.codes() for broker in cluster.brokers.values()
            ),
            LIMIT_S,
        )
        for broker in cluster.brokers.values():
            broker.scripts.clear()
        await wait_until(cluster, lambda: len(found.owned()) == 6)
        await found.consumer.shutdown()

    run_virtual(main(), cluster.clock)
