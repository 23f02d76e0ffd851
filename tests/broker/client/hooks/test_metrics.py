"""Metrics of a producer and a consumer."""

from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from broker.client.hooks.metrics import ClientMetrics
from broker.client.instance.client_instance import MQClientInstance
from broker.client.publish.async_producer import AsyncProducer
from broker.errors import BrokerError
from broker.message.message import Message
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import response
from tests.support.fake_cluster import FakeCluster
from tests.support.group_member import Member, wait_until
from tests.support.virtual_time import run_virtual


def test_sends_listener_calls_and_states_are_measured() -> None:
    cluster = FakeCluster()
    cluster.create("T", queues=1)
    broker = cluster.brokers["broker-a"]
    registry = CollectorRegistry()
    metrics = ClientMetrics(registry)

    def value(name: str, **labels: str) -> Any:
        return registry.get_sample_value(f"rocketmq_client_{name}", labels)

    async def main() -> None:
        client = cluster.config()
        instance = MQClientInstance(client, clock=cluster.clock, transport=cluster.transport)
        producer = AsyncProducer("pg", client, clock=cluster.clock, instance=instance)
        producer.send_hooks.append(metrics.sent)
        metrics.watch_producer(
            "pg", lambda: producer.in_flight()[0], lambda: producer.in_flight()[1]
        )
        member = Member(cluster, "m")
        member.fails = {b"0": 1}
        member.consumer.consume_hooks.append(metrics.consumed)
        async with producer:
            for number in range(4):
                await producer.send(Message("T", b"%d" % number))
            broker.scripts[RequestCode.SEND_MESSAGE_V2] = lambda command: response(
                command, ResponseCode.MESSAGE_ILLEGAL, "no"
            )
            with pytest.raises(BrokerError):
                await producer.send(Message("T", b"x"))
            del broker.scripts[RequestCode.SEND_MESSAGE_V2]
            broker.latency_s = 1
            await producer.send_async(Message("T", b"y"))
            assert value("in_flight", group="pg") == 1
            assert value("in_flight_bytes", group="pg") > 0
        broker.latency_s = 0
        async with member.consumer:
            consumer = member.consumer
            metrics.watch_consumer("g", consumer.cached_messages, consumer.lag)
            await wait_until(cluster, lambda: len(member.got) == 5)
            assert value("cached_messages", group="g") == 0
            assert value("lag", group="g") == 0
        labels = {"group": "g", "topic": "T"}
        assert value("consumed_messages_total", **labels, outcome="success") == 4
        assert value("consumed_messages_total", **labels, outcome="failure") == 1
        assert value("consume_seconds_count", **labels) == 5

    run_virtual(main(), cluster.clock)
    assert value("sends_total", topic="T", outcome="SEND_OK") == 5
    assert value("sends_total", topic="T", outcome="BrokerError") == 1
    assert value("send_seconds_count", topic="T") == 6
    assert value("in_flight", group="pg") == 0
