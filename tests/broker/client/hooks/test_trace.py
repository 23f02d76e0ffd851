"""Trace messages on virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from broker.client.config import ProducerConfig
from broker.client.hooks.trace import (
    BATCH,
    MAX_BODY_BYTES,
    MAX_KEYS_BYTES,
    QUEUE_LIMIT,
    MessageTrace,
)
from broker.client.instance.client_instance import MQClientInstance
from broker.client.publish.async_producer import AsyncProducer
from broker.message.message import Message
from tests.support.fake_cluster import FakeCluster
from tests.support.group_member import Member, wait_until
from tests.support.trace_events import ENDED
from tests.support.virtual_time import run_virtual

TOPIC = "RMQ_SYS_TRACE_TOPIC"


def run(work: Callable[[FakeCluster, AsyncProducer, MessageTrace], Awaitable[None]]) -> Any:
    cluster = FakeCluster()
    cluster.create("T", queues=1)
    cluster.create(TOPIC, queues=1)

    async def main() -> None:
        client = cluster.config()
        instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
        options: dict[str, Any] = {"clock": cluster.clock, "instance": instance}
        config = ProducerConfig(create_topic_key="")
        hidden = AsyncProducer("trace", client, config, **options)
        trace = MessageTrace(client, producer=hidden)
        async with AsyncProducer("pg", client, **options) as producer:
            producer.send_hooks.append(trace.sent)
            hidden.send_hooks.append(trace.sent)
            await trace.start()
            await work(cluster, producer, trace)
            await trace.shutdown()

    run_virtual(main(), cluster.clock)
    return cluster


def test_sends_are_traced_within_five_seconds_in_batches_of_ten() -> None:
    async def work(cluster: FakeCluster, producer: AsyncProducer, trace: MessageTrace) -> None:
        for number in range(3):
            await producer.send(Message("T", b"x", keys=f"k{number}"))
        await asyncio.sleep(1)
        assert cluster.messages(TOPIC) == []
        await asyncio.sleep(5)
        (message,) = [one for one in cluster.brokers["broker-a"].log if one.topic == TOPIC]
        assert message.body.count(b"\x02") == 3
        assert {"k0", "k1", "k2"} < set(message.keys)
        assert message.uniq_key not in message.keys
        for _ in range(25):
            await producer.send(Message("T", b"x"))
        await asyncio.sleep(0.1)
        assert max(body.count(b"\x02") for body in cluster.messages(TOPIC)) == BATCH

    cluster = run(work)
    assert sum(body.count(b"\x02") for body in cluster.messages(TOPIC)) == 28


def test_listener_calls_are_traced_twice() -> None:
    async def work(cluster: FakeCluster, producer: AsyncProducer, trace: MessageTrace) -> None:
        member = Member(cluster, "m")
        member.consumer.consume_hooks.append(trace.consumed)
        async with member.consumer:
            result = await producer.send(Message("T", b"x"))
            await wait_until(cluster, lambda: len(member.got) == 1)
        await trace.flush()
        records = b"".join(cluster.messages(TOPIC)).decode().split("\x02")
        kinds = [one.split("\x01")[0] for one in records if result.msg_id in one]
        assert sorted(kinds) == ["Pub", "SubAfter", "SubBefore"]

    run(work)


def test_the_decision_about_a_half_message_is_traced() -> None:
    async def work(cluster: FakeCluster, producer: AsyncProducer, trace: MessageTrace) -> None:
        trace.ended(ENDED)
        await trace.flush()
        (message,) = [one for one in cluster.brokers["broker-a"].log if one.topic == TOPIC]
        assert message.body.startswith(b"EndTransaction\x01")
        assert set(message.keys) == {"KEY", "k1", "k2"}

    run(work)


def test_records_that_are_not_kept_or_sent_are_counted_and_fails_nothing_else() -> None:
    async def work(cluster: FakeCluster, producer: AsyncProducer, trace: MessageTrace) -> None:
        event_of: list[Any] = []
        producer.send_hooks.append(event_of.append)
        await producer.send(Message("T", b"x"))
        await trace.flush()
        for _ in range(QUEUE_LIMIT + 7):
            trace.sent(event_of[0])
        assert trace.dropped == 7
        cluster.brokers["broker-a"].kill()
        await trace.flush()
        assert trace.dropped == 7 + QUEUE_LIMIT
        cluster.brokers["broker-a"].start()

    run(work)


def test_a_shutdown_sends_the_records_that_a_running_flush_has_taken_out() -> None:
    async def work(cluster: FakeCluster, producer: AsyncProducer, trace: MessageTrace) -> None:
        for _ in range(BATCH + 3):
            await producer.send(Message("T", b"x"))
        cluster.brokers["broker-a"].latency_s = 1.0
        await asyncio.sleep(0.5)  # the flush of the full batch waits for its answer
        await trace.shutdown()
        assert trace.dropped == 0

    cluster = run(work)
    assert sum(body.count(b"\x02") for body in cluster.messages(TOPIC)) == BATCH + 3


def test_a_shutdown_is_bounded_and_counts_the_records_it_did_not_send() -> None:
    async def work(cluster: FakeCluster, producer: AsyncProducer, trace: MessageTrace) -> None:
        events: list[Any] = []
        producer.send_hooks.append(events.append)
        await producer.send(Message("T", b"x"))
        await trace.flush()
        for _ in range(3 * BATCH):
            trace.sent(events[0])
        cluster.brokers["broker-a"].state = "hung"
        began_s = asyncio.get_running_loop().time()
        await trace.shutdown()
        assert asyncio.get_running_loop().time() - began_s < 10
        assert trace.dropped == 3 * BATCH
        cluster.brokers["broker-a"].state = "up"

    run(work)


def test_a_message_has_at_most_the_bytes_that_java_reads() -> None:
    async def work(cluster: FakeCluster, producer: AsyncProducer, trace: MessageTrace) -> None:
        for _ in range(6):
            await producer.send(Message("T", b"x", keys="k" * 30_000))
        await trace.flush()
        bodies = [one.payload() for one in cluster.brokers["broker-a"].log if one.topic == TOPIC]
        assert len(bodies) > 1
        assert max(map(len, bodies)) <= MAX_BODY_BYTES
        keys = [len(" ".join(one.keys)) for one in cluster.brokers["broker-a"].log]
        assert max(keys[6:]) < MAX_KEYS_BYTES

    run(work)
