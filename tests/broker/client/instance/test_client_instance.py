"""The periodic work of a client instance, on virtual time."""

import asyncio
from collections.abc import Iterable

import pytest

from broker.client.config import ClientConfig
from broker.client.instance.api import UNREGISTER_TIMEOUT_MS
from broker.client.instance.client_instance import MQClientInstance, make_client_id
from broker.common.address import encode_ip
from broker.errors import ClientError, RemotingError
from broker.remoting.protocol.body.consumer.heartbeat import ConsumerData, HeartbeatData
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request, response
from broker.remoting.rpc.uniq_key import own_ip
from tests.support.fake_cluster import FakeCluster, FakeTransport
from tests.support.virtual_time import run_virtual


class Producer:
    group = "pg"

    def publish_topics(self) -> Iterable[str]:
        return ["T"]


class Consumer:
    group = "cg"

    def __init__(self, results: list[bool] | None = None) -> None:
        self.rebalanced: list[float] = []
        self.persisted = 0
        self.results = results or []
        self.clock_s = lambda: 0.0

    def subscribed_topics(self) -> Iterable[str]:
        return ["T"]

    def heartbeat(self) -> ConsumerData:
        return ConsumerData(group_name="cg", message_model="BROADCASTING")

    async def rebalance(self) -> bool:
        self.rebalanced.append(round(asyncio.get_running_loop().time()))
        if len(self.rebalanced) == 2:
            raise RemotingError("once")
        return self.results.pop(0) if self.results else True

    async def persist_offsets(self) -> None:
        self.persisted += 1


def instance_of(cluster: FakeCluster, **settings: object) -> MQClientInstance:
    return MQClientInstance(
        cluster.config(**settings), clock=cluster.clock, transport=cluster.transport
    )


def test_heartbeats_routes_and_commits_have_their_periods() -> None:
    cluster = FakeCluster()
    cluster.create("T")
    broker = cluster.brokers["broker-a"]

    async def main() -> None:
        instance = instance_of(cluster)
        consumer = Consumer()
        instance.register_producer(Producer())
        instance.register_consumer(consumer)
        await instance.routes.get("T")
        await instance.start()
        await instance.start()
        await asyncio.sleep(301)
        assert broker.codes().count(RequestCode.HEART_BEAT) == 1 + 10  # at once, then every 30 s
        assert len(cluster.asked) == 1 + 10
        assert consumer.persisted == 60
        await instance.shutdown()

    run_virtual(main(), cluster.clock)


def test_the_poll_of_routes_drops_those_of_topics_not_in_use() -> None:
    cluster = FakeCluster()
    cluster.create("T")
    cluster.create("Unused")

    async def main() -> None:
        instance = instance_of(cluster)
        instance.register_producer(Producer())
        await instance.routes.get("Unused")
        await instance.refresh_routes()
        assert instance.routes.known("T") is not None
        assert instance.routes.known("Unused") is None
        await instance.shutdown()

    run_virtual(main(), cluster.clock)


def test_rebalance_repeats_after_one_second_until_balanced_then_every_twenty() -> None:
    cluster = FakeCluster()

    async def main() -> list[float]:
        instance = instance_of(cluster)
        consumer = Consumer([False, False])  # the second call raises
        instance.register_consumer(consumer)
        await instance.start()
        instance.rebalance_now()
        await asyncio.sleep(50)
        await instance.shutdown()
        return consumer.rebalanced

    assert run_virtual(main(), cluster.clock) == [0, 1, 2, 3, 23, 43]


def test_a_notice_of_changed_members_rebalances_at_once() -> None:
    cluster = FakeCluster()

    async def main() -> list[float]:
        instance = instance_of(cluster)
        consumer = Consumer()
        instance.register_consumer(consumer)
        await instance.start()
        await asyncio.sleep(5)
        transport = instance.transport
        assert isinstance(transport, FakeTransport)
        await transport.ask("b:1", request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED))
        await asyncio.sleep(0.1)
        await instance.shutdown()
        return consumer.rebalanced

    assert run_virtual(main(), cluster.clock) == [5]


def test_a_heartbeat_names_all_groups_and_a_dead_broker_does_not_stop_it() -> None:
    cluster = FakeCluster(brokers=2)
    cluster.create("T")
    cluster.brokers["broker-a"].kill()
    living = cluster.brokers["broker-b"]

    async def main() -> None:
        instance = instance_of(cluster)
        await instance.routes.get("T")
        assert await instance.heartbeat() == 0  # no groups, nothing to announce
        instance.register_producer(Producer())
        instance.register_consumer(Consumer())
        assert await instance.heartbeat() == 1
        data = HeartbeatData.from_bytes(living.calls[-1].body_bytes())
        assert [one.group_name for one in data.producer_data_set] == ["pg"]
        assert [one.group_name for one in data.consumer_data_set] == ["cg"]
        assert data.client_id == instance.client_id
        await instance.unregister(producer_group="pg")
        assert living.unregistered == [(instance.client_id, "pg")]
        await instance.shutdown()

    run_virtual(main(), cluster.clock)


def test_a_group_exists_once_per_instance() -> None:
    cluster = FakeCluster()

    async def main() -> None:
        instance = instance_of(cluster)
        instance.register_producer(Producer())
        instance.register_consumer(Consumer())
        with pytest.raises(ClientError, match="pg exists already"):
            instance.register_producer(Producer())
        with pytest.raises(ClientError, match="cg exists already"):
            instance.register_consumer(Consumer())

    run_virtual(main(), cluster.clock)


def test_unhandled_requests_of_brokers_are_refused() -> None:
    cluster = FakeCluster()

    async def main() -> None:
        instance = instance_of(cluster)
        transport = instance.transport
        assert isinstance(transport, FakeTransport)
        answer = await transport.ask("b:1", request(RequestCode.CHECK_TRANSACTION_STATE))
        assert answer is not None
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED

        async def handler(address: str, command: object) -> None:
            return None

        instance.add_group_handler(RequestCode.GET_CONSUMER_RUNNING_INFO, "cg", handler)
        ask = request(RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "other"})
        answer = await transport.ask("b:1", ask)
        assert answer is not None
        assert (answer.code, "other" in (answer.remark or "")) == (1, True)

    run_virtual(main(), cluster.clock)


def test_members_come_from_a_broker_and_are_unknown_without_an_answer() -> None:
    cluster = FakeCluster()
    cluster.create("T")

    async def main() -> None:
        instance = instance_of(cluster)
        assert await instance.consumer_ids("T", "cg") is None
        await instance.routes.get("T")
        assert await instance.consumer_ids("T", "cg") is None  # the broker knows no member
        instance.register_consumer(Consumer())
        await instance.heartbeat()
        assert await instance.consumer_ids("T", "cg") == [instance.client_id]
        cluster.brokers["broker-a"].kill()
        assert await instance.consumer_ids("T", "cg") is None

    run_virtual(main(), cluster.clock)


def test_client_ids() -> None:
    named = ClientConfig(instance_name="i", unit_name="u")
    assert make_client_id(named, "10.0.0.1") == "10.0.0.1@i@u"
    default = ClientConfig()
    assert make_client_id(default, "10.0.0.1") != make_client_id(default, "10.0.0.1")
    assert len(encode_ip(own_ip())) == 4


def test_a_group_leaves_after_the_response_to_a_heartbeat_in_flight() -> None:
    """A broker that executes the heartbeat later would keep the group's member for 120 s."""
    cluster = FakeCluster()
    cluster.create("T")
    broker = cluster.brokers["broker-a"]
    unanswered: list[RemotingCommand] = []

    async def slow(command: RemotingCommand) -> RemotingCommand:
        await asyncio.sleep(1)
        return response(command)

    def leave(command: RemotingCommand) -> RemotingCommand:
        unanswered.extend(
            call
            for call in broker.calls
            if call.code == RequestCode.HEART_BEAT and call.opaque not in broker.answered
        )
        return response(command)

    async def main() -> None:
        instance = instance_of(cluster)
        instance.register_consumer(Consumer())
        await instance.routes.refresh("T")
        broker.scripts[RequestCode.HEART_BEAT] = slow
        broker.scripts[RequestCode.UNREGISTER_CLIENT] = leave
        heartbeat = asyncio.ensure_future(instance.heartbeat())
        await asyncio.sleep(0.1)
        await instance.unregister(consumer_group="cg")
        assert await heartbeat == 1
        assert unanswered == []
        assert broker.codes().count(RequestCode.UNREGISTER_CLIENT) == 1
        await instance.shutdown()

    run_virtual(main(), cluster.clock)


def test_a_group_does_not_wait_long_for_a_heartbeat_that_gets_no_response() -> None:
    cluster = FakeCluster()
    cluster.create("T")
    broker = cluster.brokers["broker-a"]

    async def hang(command: RemotingCommand) -> RemotingCommand:
        await asyncio.sleep(1_000)
        return response(command)

    async def main() -> None:
        instance = instance_of(cluster)
        instance.api.timeout_ms = 100_000
        instance.register_consumer(Consumer())
        await instance.routes.refresh("T")
        broker.scripts[RequestCode.HEART_BEAT] = hang
        heartbeat = asyncio.ensure_future(instance.heartbeat())
        await asyncio.sleep(0.1)
        before_ms = cluster.clock.monotonic_ms()
        await instance.unregister(consumer_group="cg")
        assert cluster.clock.monotonic_ms() - before_ms < 2 * UNREGISTER_TIMEOUT_MS
        assert broker.codes().count(RequestCode.UNREGISTER_CLIENT) == 1
        heartbeat.cancel()
        await instance.shutdown()

    run_virtual(main(), cluster.clock)
