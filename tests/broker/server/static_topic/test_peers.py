"""Requests to other brokers: found by the route, asked again after a failure."""

import asyncio

import msgspec
import pytest

from broker.errors import BrokerError, RequestTimeoutError
from broker.remoting.protocol.body.namesrv.route import BrokerData, TopicRouteData
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.server.static_topic.peers import BrokerPeers

ROUTE = TopicRouteData(
    broker_datas=[BrokerData(broker_name="broker-b", broker_addrs={0: "b:1", 1: "b:2"})]
).to_bytes()


class FakeClient:
    """Answers route requests; ``fails`` is raised by the broker."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.fails: Exception | None = None
        self.route_code = 0

    async def call(
        self, address: str, command: RemotingCommand, timeout_ms: float = 3000
    ) -> RemotingCommand:
        self.calls.append((address, command.code))
        if command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            return RemotingCommand(code=self.route_code, body=ROUTE)
        if self.fails is not None:
            raise self.fails
        return RemotingCommand(code=0)


@pytest.fixture
def client() -> FakeClient:
    return FakeClient()


@pytest.fixture
def peers(desk, client: FakeClient) -> BrokerPeers:
    config = msgspec.structs.replace(desk.context.config, namesrv_addr="n:1")
    desk.context.config = config
    return BrokerPeers(client, desk.context)


def ask(peers: BrokerPeers, name: str = "broker-b") -> RemotingCommand:
    return asyncio.run(peers.ask(name, "Fixed", request(RequestCode.GET_MAX_OFFSET, {})))


ROUTE_CALL = ("n:1", RequestCode.GET_ROUTEINFO_BY_TOPIC)
CALL = ("b:1", RequestCode.GET_MAX_OFFSET)


def test_the_master_is_looked_up_once(peers: BrokerPeers, client: FakeClient) -> None:
    assert ask(peers).code == 0
    assert ask(peers).code == 0
    assert client.calls == [ROUTE_CALL, CALL, CALL]


def test_after_a_failure_it_is_looked_up_again(peers: BrokerPeers, client: FakeClient) -> None:
    client.fails = RequestTimeoutError("late")
    with pytest.raises(RequestTimeoutError):
        ask(peers)
    client.fails = None
    ask(peers)
    assert client.calls == [ROUTE_CALL, CALL, ROUTE_CALL, CALL]


def test_the_route_is_that_of_the_name_server(peers: BrokerPeers, client: FakeClient) -> None:
    route = asyncio.run(peers.route("Fixed"))
    assert [data.broker_name for data in route.broker_datas] == ["broker-b"]
    assert client.calls == [ROUTE_CALL]


def test_no_name_server_with_the_route_is_an_error(peers: BrokerPeers, client: FakeClient) -> None:
    client.route_code = ResponseCode.TOPIC_NOT_EXIST
    with pytest.raises(BrokerError, match="no name server has the route of Fixed"):
        asyncio.run(peers.route("Fixed"))


def test_a_broker_without_master_is_an_error(peers: BrokerPeers) -> None:
    with pytest.raises(BrokerError, match="broker-c"):
        ask(peers, "broker-c")
