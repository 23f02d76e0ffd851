"""The requests of POP consumption."""

import pytest

from broker.client.instance.client_instance import MQClientInstance
from broker.client.pop.pop_api import PopAPI, PopRequest, PopResult
from broker.client.pop.receipt_handle import handle_of
from broker.client.results import PopStatus
from broker.common.message_queue import MessageQueue
from broker.common.subscription import build_subscription
from broker.errors import ClientError
from tests.support.fake_cluster import FakeCluster
from tests.support.fake_pop import FakePop
from tests.support.virtual_time import run_virtual


def test_a_message_keeps_its_latest_handle_until_it_is_acknowledged() -> None:
    cluster = FakeCluster()
    cluster.create("T", queues=1)
    pop = FakePop(cluster, cluster.brokers["broker-a"])
    pop.fill(b"a")

    async def main() -> None:
        instance = MQClientInstance(
            cluster.config(), clock=cluster.clock, transport=cluster.transport
        )
        api = PopAPI(instance, "g")

        async def popped(broker_name: str = "broker-a") -> PopResult:
            return await api.pop(
                PopRequest(
                    queue=MessageQueue("T", broker_name, -1),
                    subscription=build_subscription("T", "*", sub_version=0),
                    max_messages=1,
                    invisible_ms=10_000,
                    poll_ms=0,
                )
            )

        (message,) = (await popped()).messages
        first = handle_of(message)
        assert await api.change_invisible_time(message, "T", 30_000)
        assert handle_of(message).invisible_ms == 30_000
        assert handle_of(message).expires_ms > first.expires_ms
        assert (await popped()).status is PopStatus.POLLING_NOT_FOUND
        assert await api.ack(message, "T")
        assert pop.acked == [b"a"]
        message.properties["POP_CK"] = first.text
        assert not await api.ack(message, "T")  # a void handle
        assert not await api.change_invisible_time(message, "T", 1_000)
        with pytest.raises(ClientError, match="no master"):
            await popped("broker-z")

    run_virtual(main(), cluster.clock)
