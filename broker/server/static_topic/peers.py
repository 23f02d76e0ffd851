"""Requests to other brokers by name, at the master address that the route of the topic names."""

from typing import Final, Protocol

from broker.errors import BrokerError, RocketMQError
from broker.remoting.protocol.body.namesrv.route import MASTER_ID, TopicRouteData
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.server.configuration.config import BrokerConfig, name_servers

CALL_MS: Final = 3_000
MAX_ADDRESSES: Final = 1_000


class Caller(Protocol):
    """The outgoing client."""

    async def call(
        self, address: str, command: RemotingCommand, timeout_ms: float = 3000
    ) -> RemotingCommand:
        """Return the response."""
        ...


class Configured(Protocol):
    """The part of BrokerContext that is needed; the configuration may be replaced."""

    config: BrokerConfig


class BrokerPeers:
    """Other brokers by name, found by the name servers of the broker's configuration."""

    def __init__(self, client: Caller, context: Configured) -> None:
        self._client = client
        self._context = context
        self._addresses: dict[str, str] = {}

    async def ask(self, broker_name: str, topic: str, command: RemotingCommand) -> RemotingCommand:
        """Return the response of a broker's master; RocketMQError if it cannot be reached."""
        address = self._addresses.get(broker_name) or await self._find(broker_name, topic)
        try:
            return await self._client.call(address, command, CALL_MS)
        except RocketMQError:
            self._addresses.pop(broker_name, None)  # it may have moved
            raise

    async def route(self, topic: str) -> TopicRouteData:
        """Return the route of a topic; RocketMQError if no name server has one."""
        for server in name_servers(self._context.config):
            route = await self._route_at(server, topic)
            if route is not None:
                return route
        remark = f"no name server has the route of {topic}"
        raise BrokerError(ResponseCode.TOPIC_NOT_EXIST, remark)

    async def _route_at(self, server: str, topic: str) -> TopicRouteData | None:
        command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        try:
            answer = await self._client.call(server, command, CALL_MS)
            return TopicRouteData.from_bytes(answer.body_bytes()) if answer.code == 0 else None
        except RocketMQError:
            return None

    async def _find(self, broker_name: str, topic: str) -> str:
        for server in name_servers(self._context.config):
            route = await self._route_at(server, topic)
            for data in route.broker_datas if route is not None else ():
                if data.broker_name == broker_name and MASTER_ID in data.broker_addrs:
                    if len(self._addresses) >= MAX_ADDRESSES:
                        self._addresses.clear()
                    return self._addresses.setdefault(broker_name, data.broker_addrs[MASTER_ID])
        remark = f"the route of {topic} has no master of broker {broker_name}"
        raise BrokerError(ResponseCode.SYSTEM_ERROR, remark, broker_name)
