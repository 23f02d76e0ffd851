"""RouteCache: cached topic routes and the message queues derived from them.

**Source:** RocketMQ ``MQClientInstance#topicRouteData2TopicPublishInfo`` and
``#topicRouteData2TopicSubscribeInfo``.
"""

from typing import Any

import msgspec

from broker.common.clock import Clock, SystemClock
from broker.common.java import parse_number
from broker.common.message_queue import MessageQueue
from broker.common.topic import is_readable, is_writable
from broker.errors import BrokerError, ClientError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.rpc.caller import Caller

#: A cached route expires after this time. **Source:** ClientConfig#pollNameServerInterval.
ROUTE_TTL_MS = 30_000

#: Largest number of cached routes; the oldest is dropped. Far above the need of one command.
ROUTE_LIMIT = 4_096

MASTER_ID = 0

MAX_ORDER_QUEUES = 65_536
"""Queues of one broker in an order configuration; a larger number is invalid."""


class Route:
    """One topic's route: the queues and broker addresses that a client needs."""

    def __init__(self, topic: str, data: Any) -> None:
        """``data`` is a ``TopicRouteData``."""
        self.topic = topic
        self.data = data
        self._addresses: dict[str, dict[int, str]] = {
            broker.broker_name: {int(key): text for key, text in broker.broker_addrs.items()}
            for broker in data.broker_datas
        }

    def broker_names(self) -> list[str]:
        """Return the broker names of the route, sorted."""
        return sorted(self._addresses)

    def addresses(self, broker_name: str) -> dict[int, str]:
        """Return broker id to address of one broker name; empty if the route has none."""
        return self._addresses.get(broker_name, {})

    def master(self, broker_name: str) -> str | None:
        """Return the address with id 0, None if the broker currently has no master."""
        return self._addresses.get(broker_name, {}).get(MASTER_ID)

    def reader(self, broker_name: str) -> str | None:
        """Return the address to read from: the master, else the slave with the lowest id."""
        found = self.suggested_reader(broker_name, MASTER_ID)
        return None if found is None else found[0]

    def suggested_reader(self, broker_name: str, broker_id: int) -> tuple[str, bool] | None:
        """Return (address, whether it is a slave) of the broker id that a broker has suggested.

        A missing slave is replaced by the next id, else by the lowest one; None without any.

        **Source:** RocketMQ ``MQClientInstance#findBrokerAddressInSubscribe``.
        """
        addresses = self._addresses.get(broker_name)
        if not addresses:
            return None
        found = broker_id
        if found not in addresses and found != MASTER_ID:
            found += 1
        if found not in addresses:
            found = min(addresses)
        return addresses[found], found != MASTER_ID

    def publish_queues(self) -> list[MessageQueue]:
        """Return the queues to send to: writable, on brokers with a master, in order.

        An order configuration (``order_topic_conf``) takes precedence.
        """
        order = self.data.order_topic_conf
        if order:
            return _order_queues(self.topic, order)
        return [
            MessageQueue(self.topic, queue.broker_name, queue_id)
            for queue in sorted(self.data.queue_datas, key=lambda item: item.broker_name)
            if is_writable(queue.perm) and self.master(queue.broker_name) is not None
            for queue_id in range(queue.write_queue_nums)
        ]

    def subscribe_queues(self) -> list[MessageQueue]:
        """Return the readable queues, in order."""
        return [
            MessageQueue(self.topic, queue.broker_name, queue_id)
            for queue in sorted(self.data.queue_datas, key=lambda item: item.broker_name)
            if is_readable(queue.perm)
            for queue_id in range(queue.read_queue_nums)
        ]


def template_of(topic: str, template: Route, queues: int) -> Route:
    """Return the route that a topic will have once the template's brokers have created it.

    **Source:** RocketMQ ``MQClientInstance#updateTopicRouteInfoFromNameServer``.
    """
    data = template.data
    datas = [
        msgspec.structs.replace(
            one,
            read_queue_nums=min(queues, one.read_queue_nums),
            write_queue_nums=min(queues, one.read_queue_nums),
        )
        for one in data.queue_datas
    ]
    return Route(topic, msgspec.structs.replace(data, queue_datas=datas))


class RouteCache:
    """Routes by topic, each cached for ``ROUTE_TTL_MS``.

    ``hint`` is the next step in the error about a topic without a route.
    """

    def __init__(self, caller: Caller, clock: Clock | None = None, *, hint: str = "") -> None:
        self._caller = caller
        self._hint = hint
        self._clock = clock or SystemClock()
        self._routes: dict[str, tuple[float, Route]] = {}

    def find(self, topic: str) -> Route | None:
        """Return the route, None if no name server has it; RemotingError without a response."""
        now = self._clock.monotonic_ms()
        kept = self._routes.get(topic)
        if kept is not None and now - kept[0] < ROUTE_TTL_MS:
            return kept[1]
        try:
            reply = self._caller.ask_namesrv(
                RequestCode.GET_ROUTEINFO_BY_TOPIC, topic=topic, accept_standard_json_only=True
            )
        except BrokerError as error:
            if error.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            self._routes.pop(topic, None)
            return None
        route = Route(topic, reply.value)
        if len(self._routes) >= ROUTE_LIMIT:
            del self._routes[next(iter(self._routes))]
        self._routes[topic] = (now, route)
        return route

    def get(self, topic: str) -> Route:
        """Return the route; ClientError if no name server has it."""
        route = self.find(topic)
        if route is None:
            raise ClientError(
                f"topic {topic} has no route at {', '.join(self._caller.namesrv_addresses)}",
                self._hint,
            )
        return route

    def forget(self, topic: str) -> None:
        """Drop the cached route."""
        self._routes.pop(topic, None)


def _order_queues(topic: str, order: str) -> list[MessageQueue]:
    """Return the message queues of ``broker-a:4;broker-b:4``; invalid pairs are skipped."""
    queues: list[MessageQueue] = []
    for pair in order.split(";"):
        broker_name, _, text = pair.strip().partition(":")
        count = parse_number(text, 0, MAX_ORDER_QUEUES)
        if broker_name and count is not None:
            queues += [MessageQueue(topic, broker_name, number) for number in range(count)]
    return queues
