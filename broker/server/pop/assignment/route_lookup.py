"""RouteLookup: the readable queues of a topic on all brokers, from the name servers.

A route is kept for :data:`ROUTE_LIFE_MS`; without a name server only this broker's queues are
known. Concurrent lookups of one topic share one request.

**Source:** RocketMQ AssignmentManager#getTopicSubscribeInfo, TopicRouteInfoManager.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from broker.common.clock import Clock
from broker.common.message_queue import MessageQueue
from broker.common.topic import TopicConfig, is_readable
from broker.errors import RocketMQError
from broker.remoting.protocol.body.namesrv.route import TopicRouteData
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, request

ROUTE_LIFE_MS: Final = 30_000
MAX_ROUTES: Final = 10_000
MAX_QUEUES: Final = 65_536
CALL_MS: Final = 3_000


class Caller(Protocol):
    """The outgoing client: one call to a name server."""

    async def call(
        self, address: str, command: RemotingCommand, timeout_ms: float = 3000
    ) -> RemotingCommand:
        """Return the response."""
        ...


class RouteLookup:
    """Queues by topic; ``addresses()`` returns the name servers, ``own(topic)`` the own queues."""

    def __init__(
        self,
        client: Caller,
        clock: Clock,
        addresses: Callable[[], Sequence[str]],
        own: Callable[[str], TopicConfig | None],
        broker_name: Callable[[], str],
    ) -> None:
        self._client = client
        self._clock = clock
        self._addresses = addresses
        self._own = own
        self._broker_name = broker_name
        self._known: OrderedDict[str, tuple[float, list[MessageQueue]]] = OrderedDict()
        self._running: dict[str, asyncio.Task[list[MessageQueue] | None]] = {}

    async def queues(self, topic: str) -> list[MessageQueue] | None:
        """Return the readable queues of a topic, None if they are unknown."""
        now_ms = self._clock.monotonic_ms()
        known = self._known.get(topic)
        if known is not None and now_ms - known[0] < ROUTE_LIFE_MS:
            return known[1]
        running = self._running.get(topic)
        if running is None:
            running = self._running[topic] = asyncio.create_task(self._ask(topic))
            running.add_done_callback(lambda _: self._running.pop(topic, None))
        found = await asyncio.shield(running)
        if found is None:
            return known[1] if known is not None else None
        self._known[topic] = (self._clock.monotonic_ms(), found)
        self._known.move_to_end(topic)
        while len(self._known) > MAX_ROUTES:
            self._known.popitem(last=False)
        return found

    async def _ask(self, topic: str) -> list[MessageQueue] | None:
        addresses = self._addresses()
        for address in addresses:
            command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
            try:
                answer = await self._client.call(address, command, CALL_MS)
                if answer.code == 0:
                    return _readable(topic, TopicRouteData.from_bytes(answer.body_bytes()))
            except RocketMQError:
                continue
        own = self._own(topic)
        if addresses or own is None or not is_readable(own.perm):
            return None
        name = self._broker_name()
        return [MessageQueue(topic, name, number) for number in range(own.read_queue_nums)]


def _readable(topic: str, route: TopicRouteData) -> list[MessageQueue]:
    queues: list[MessageQueue] = []
    for data in route.queue_datas:
        if is_readable(data.perm) and 0 < data.read_queue_nums <= MAX_QUEUES - len(queues):
            queues += [
                MessageQueue(topic, data.broker_name, number)
                for number in range(data.read_queue_nums)
            ]
    return queues
