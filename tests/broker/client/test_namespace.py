"""Namespaces around names."""

import pytest

from broker.client.config import ConsumerConfig
from broker.client.consumer.lite_pull import AsyncLitePullConsumer
from broker.client.consumer.push_consumer import AsyncPushConsumer
from broker.client.instance.client_instance import MQClientInstance
from broker.client.namespace import without_namespace, wrap_namespace
from broker.client.offset.start_offset import ConsumeFromWhere
from broker.client.publish.async_producer import AsyncProducer
from broker.client.publish.transaction import AsyncTransactionProducer
from broker.client.results import ConsumeConcurrentlyStatus, LocalTransactionState
from broker.common.message_queue import MessageQueue
from broker.message.message import Message, MessageExt
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import response
from tests.support.fake_cluster import FakeCluster
from tests.support.group_member import wait_until
from tests.support.virtual_time import run_virtual

QUEUES = [MessageQueue("T", "broker-a", number) for number in range(2)]
STORED = [MessageQueue("ns%T", "broker-a", number) for number in range(2)]


def cluster_with_namespace() -> tuple[FakeCluster, MQClientInstance]:
    cluster = FakeCluster()
    cluster.create("ns%T", queues=2)
    client = cluster.config(namespace="ns")
    return cluster, MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("orders", "ns%orders"),
        ("%RETRY%g", "%RETRY%ns%g"),
        ("%DLQ%g", "%DLQ%ns%g"),
    ],
)
def test_wrapping_and_unwrapping_are_inverse(name: str, wrapped: str) -> None:
    assert wrap_namespace("ns", name) == wrapped
    assert wrap_namespace("ns", wrapped) == wrapped
    assert without_namespace("ns", wrapped) == name
    assert without_namespace("ns", name) == name


def test_system_topics_and_clients_without_namespace_keep_their_names() -> None:
    assert wrap_namespace("ns", "RMQ_SYS_TRACE_TOPIC") == "RMQ_SYS_TRACE_TOPIC"
    assert wrap_namespace("", "orders") == "orders"
    assert without_namespace("", "ns%orders") == "ns%orders"
    assert wrap_namespace("ns", "") == ""


def test_queues_of_a_producer_have_no_namespace() -> None:
    cluster, instance = cluster_with_namespace()
    offered: list[MessageQueue] = []

    def last(queues: list[MessageQueue]) -> MessageQueue:
        offered[:] = queues
        return queues[-1]

    async def main() -> None:
        async with AsyncProducer(
            "pg", instance.config, clock=cluster.clock, instance=instance
        ) as producer:
            assert list(await producer.fetch_publish_queues("T")) == QUEUES
            for queue in (*QUEUES, *STORED):
                result = await producer.send(Message("T", b"x"), queue=queue)
                assert result.message_queue == QUEUES[queue.queue_id]
            result = await producer.send(Message("T", b"x"), selector=last)
            assert (offered, result.message_queue) == (QUEUES, QUEUES[1])
        broker = cluster.brokers["broker-a"]
        assert [len(broker.records[queue]) for queue in STORED] == [2, 3]

    run_virtual(main(), cluster.clock)


class Commits:
    """A transaction listener that commits."""

    async def execute_local_transaction(
        self, message: Message, argument: object
    ) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE

    async def check_local_transaction(self, message: MessageExt) -> LocalTransactionState:
        return LocalTransactionState.COMMIT_MESSAGE


def test_the_end_of_a_transaction_has_the_topic_of_the_broker() -> None:
    cluster, instance = cluster_with_namespace()
    broker = cluster.brokers["broker-a"]
    broker.scripts[RequestCode.END_TRANSACTION] = response

    async def main() -> None:
        async with AsyncTransactionProducer(
            "pg", instance.config, Commits(), clock=cluster.clock, instance=instance
        ) as producer:
            result = await producer.send_in_transaction(Message("T", b"x"))
            assert result.send_result.message_queue in QUEUES
        (end,) = [one for one in broker.calls if one.code == RequestCode.END_TRANSACTION]
        assert end.ext_fields["topic"] == "ns%T"

    run_virtual(main(), cluster.clock)


@pytest.mark.parametrize("given", [QUEUES, STORED], ids=["without", "with"])
def test_a_lite_pull_consumer_accepts_and_returns_queues_without_namespace(
    given: list[MessageQueue],
) -> None:
    cluster, instance = cluster_with_namespace()
    broker = cluster.brokers["broker-a"]
    for number in range(4):
        broker.store(STORED[number % 2], b"%d" % number)

    async def main() -> None:
        consumer = AsyncLitePullConsumer(
            "g",
            instance.config,
            ConsumerConfig(consume_from_where=ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET),
            clock=cluster.clock,
            instance=instance,
        )
        await consumer.assign(given)
        async with consumer:
            assert consumer.assignment() == QUEUES
            assert await consumer.fetch_message_queues("T") == QUEUES
            consumer.pause(given[:1])
            assert [one.body for one in await consumer.poll()] == [b"1", b"3"]
            assert await consumer.poll(1_000) == []
            consumer.resume(given[:1])
            await consumer.seek(given[0], 1)
            assert [one.body for one in await consumer.poll()] == [b"2"]
            await consumer.seek_to_end(given[0])
            await consumer.seek_to_begin(given[1])
            assert [one.body for one in await consumer.poll()] == [b"1", b"3"]
            assert await consumer.poll(1_000) == []
            await consumer.commit()
            assert [await consumer.committed(queue) for queue in given] == [2, 2]
            assert await consumer.offset_for_timestamp(given[0], 0) == 0

    run_virtual(main(), cluster.clock)


def test_the_assignment_of_a_push_consumer_has_no_namespace() -> None:
    cluster, instance = cluster_with_namespace()

    async def main() -> None:
        consumer = AsyncPushConsumer("g", instance.config, clock=cluster.clock, instance=instance)
        consumer.subscribe("T")
        consumer.listen(lambda messages, context: ConsumeConcurrentlyStatus.CONSUME_SUCCESS)
        async with consumer:
            await wait_until(cluster, lambda: consumer.assignment() == QUEUES)

    run_virtual(main(), cluster.clock)
