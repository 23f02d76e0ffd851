"""Typed calls."""

from typing import Any

import pytest

from broker.client.instance.api import MQClientAPI
from broker.client.instance.name_servers import NameServers
from broker.common.message_queue import MessageQueue
from broker.errors import BrokerError, RequestTimeoutError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from tests.support.fake_cluster import FakeCluster
from tests.support.virtual_time import run_virtual

QUEUE = MessageQueue("T", "broker-a", 0)


def run(cluster: FakeCluster, work: Any) -> Any:
    config = cluster.config()
    transport = cluster.transport(config, {})
    names = NameServers(config, transport, cluster.clock)
    return run_virtual(work(MQClientAPI(transport, names, timeout_ms=3_000)), cluster.clock)


def test_offsets_of_a_queue() -> None:
    cluster = FakeCluster()
    broker = cluster.brokers["broker-a"]
    for _ in range(3):
        broker.store(QUEUE, b"x")

    async def main(api: MQClientAPI) -> None:
        address = broker.address
        assert await api.max_offset(address, QUEUE) == 3
        assert await api.min_offset(address, QUEUE) == 0
        broker.first[MessageQueue("T", "broker-a", 1)] = -1  # an empty inner-batch queue
        assert await api.min_offset(address, MessageQueue("T", "broker-a", 1)) == 0
        assert await api.search_offset(address, QUEUE, 0) == 0
        assert await api.consumer_offset(address, "g", QUEUE) is None
        await api.update_consumer_offset(address, "g", QUEUE, 2)
        assert await api.consumer_offset(address, "g", QUEUE) == 2

    run(cluster, main)


def test_a_queue_is_locked_by_one_client() -> None:
    cluster = FakeCluster()
    address = cluster.brokers["broker-a"].address

    async def main(api: MQClientAPI) -> None:
        assert await api.lock_queues(address, "g", "c1", [QUEUE]) == {QUEUE}
        assert await api.lock_queues(address, "g", "c2", [QUEUE]) == set()
        await api.unlock_queues(address, "g", "c1", [QUEUE])
        assert await api.lock_queues(address, "g", "c2", [QUEUE]) == {QUEUE}

    run(cluster, main)


def test_an_unknown_topic_has_no_route_and_other_codes_raise() -> None:
    cluster = FakeCluster()

    async def main(api: MQClientAPI) -> None:
        assert await api.topic_route("T") is None
        cluster.create("T")
        route = await api.topic_route("T")
        assert route is not None
        assert [one.broker_name for one in route.queue_datas] == ["broker-a"]
        with pytest.raises(BrokerError) as caught:
            await api.consumer_ids(cluster.brokers["broker-a"].address, "unknown")
        assert caught.value.code == ResponseCode.SYSTEM_ERROR
        assert caught.value.request_code == RequestCode.GET_CONSUMER_LIST_BY_GROUP

    run(cluster, main)


def test_a_name_server_that_refuses_is_not_an_unknown_topic() -> None:
    cluster = FakeCluster()

    def refuse(command: RemotingCommand) -> RemotingCommand:
        return response(command, ResponseCode.SYSTEM_ERROR, "warming up")

    cluster.route_answer = refuse  # type: ignore[method-assign]

    async def main(api: MQClientAPI) -> None:
        with pytest.raises(BrokerError, match="warming up"):
            await api.topic_route("T")

    run(cluster, main)


def test_leaving_a_group_waits_briefly_for_a_broker_that_hangs() -> None:
    """The timeout of the other calls may be minutes, and a client that closes waits for this."""
    cluster = FakeCluster()
    broker = cluster.brokers["broker-a"]

    async def main(api: MQClientAPI) -> None:
        api.timeout_ms = 100_000
        began_ms = cluster.clock.monotonic_ms()
        broker.state = "hung"
        with pytest.raises(RequestTimeoutError):
            await api.unregister(broker.address, "c1", producer_group="g")
        assert cluster.clock.monotonic_ms() - began_ms <= 3_010

    run(cluster, main)


def test_leaving_a_group_waits_no_longer_than_other_calls() -> None:
    cluster = FakeCluster()
    broker = cluster.brokers["broker-a"]

    async def main(api: MQClientAPI) -> None:
        api.timeout_ms = 500
        began_ms = cluster.clock.monotonic_ms()
        broker.state = "hung"
        with pytest.raises(RequestTimeoutError):
            await api.unregister(broker.address, "c1", consumer_group="g")
        assert cluster.clock.monotonic_ms() - began_ms <= 510

    run(cluster, main)
