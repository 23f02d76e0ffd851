"""TopicRoutes: routes of the topics in use, and the queues that clients derive from them.

**Source:** RocketMQ ``MQClientInstance#updateTopicRouteInfoFromNameServer``,
``#findBrokerAddressInSubscribe``.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from broker.client.instance.api import MQClientAPI
from broker.client.publish.publish_info import TopicPublishInfo
from broker.errors import BrokerError, ClientError, RemotingError, RocketMQError
from broker.remoting.rpc.route_cache import MASTER_ID, Route, template_of

log = logging.getLogger("broker.client")


class TopicRoutes:
    """The routes of one client instance, refreshed by its poll and on demand."""

    def __init__(self, api: MQClientAPI) -> None:
        self._api = api
        self._routes: dict[str, Route] = {}
        # broker name → the route learned last that names it; Java: brokerAddrTable. An address in
        # the route of another topic may be old: topics that were deleted are not refreshed.
        self._brokers: dict[str, Route] = {}
        self._publish: dict[str, TopicPublishInfo] = {}
        self._loading: dict[str, asyncio.Task[Route | None]] = {}
        self.on_change: list[Callable[[str], None]] = []

    def known(self, topic: str) -> Route | None:
        """Return the route without asking; None if it has not been loaded."""
        return self._routes.get(topic)

    async def get(self, topic: str) -> Route | None:
        """Return the route, loaded at the first use; None if the topic does not exist."""
        return self._routes.get(topic) or await self.refresh(topic)

    async def refresh(self, topic: str) -> Route | None:
        """Ask the name server; concurrent callers share one request.

        Raises RemotingError without an answer; the route known before is kept then.
        """
        task = self._loading.get(topic)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._load(topic))
            self._loading[topic] = task
            task.add_done_callback(lambda _: self._loading.pop(topic, None))
        return await asyncio.shield(task)

    async def _load(self, topic: str) -> Route | None:
        data = await self._api.topic_route(topic)
        if data is None:
            return None
        before = self._routes.get(topic)
        route = Route(topic, data)
        self._brokers.update(dict.fromkeys(route.broker_names(), route))
        if before is None or before.data != data:
            self._routes[topic] = route
            info = self._publish.pop(topic, None)
            if info is not None and route.publish_queues():
                self._derive(topic, route, before=info)
            for notify in self.on_change:
                notify(topic)
        return self._routes[topic]

    async def refresh_all(self, topics: Iterable[str]) -> None:
        """Refresh the given topics; an unreachable name server is logged once, routes are kept."""
        failures: list[RocketMQError] = []
        for topic in sorted(set(topics)):
            try:
                await self.refresh(topic)
            except (RemotingError, BrokerError, ClientError) as error:
                failures.append(error)
        if failures:
            log.warning("%d routes could not be refreshed: %s", len(failures), failures[0].message)

    def forget(self, topic: str) -> None:
        """Drop a topic, so that the next use loads it."""
        self._routes.pop(topic, None)
        self._publish.pop(topic, None)

    def retain(self, topics: Iterable[str]) -> None:
        """Drop the routes of all other topics, then the brokers that no route names any more.

        **Source:** RocketMQ ``MQClientInstance#cleanOfflineBroker``, which keeps every topic.
        """
        for topic in self._routes.keys() - set(topics):
            self.forget(topic)
        named = {name for route in self._routes.values() for name in route.broker_names()}
        for broker_name in self._brokers.keys() - named:
            del self._brokers[broker_name]

    # ---- publishing

    async def publish_info(
        self, topic: str, *, create_key: str = "", create_queues: int = 0
    ) -> TopicPublishInfo:
        """Return the queues to send to; an unknown topic is to be created by ``create_key``.

        Raises ClientError if the topic does not exist and cannot be created.
        """
        info = self._publish.get(topic)
        if info is not None:
            return info
        route = await self.get(topic)
        if route is not None:
            return self._derive(topic, route)
        template = await self.refresh(create_key) if create_key else None
        if template is None:
            raise ClientError(
                f"topic {topic} does not exist", "create it: mqadmin topic create TOPIC"
            )
        return self._derive(topic, template_of(topic, template, create_queues))

    def _derive(
        self, topic: str, route: Route, *, before: TopicPublishInfo | None = None
    ) -> TopicPublishInfo:
        queues = route.publish_queues()
        info = TopicPublishInfo(topic, queues)
        if before is not None:
            info.continue_from(before)
        self._publish[topic] = info
        self._templates_of(topic, route)
        return info

    def _templates_of(self, topic: str, route: Route) -> None:
        """Keep the route of a topic to be created until the name server knows the topic."""
        if topic not in self._routes:
            self._routes[topic] = route

    # ---- addresses

    def master(self, broker_name: str) -> str | None:
        """Return the address of a broker's master by the latest route that names the broker.

        None if that route has no master for it, or if no route names it.
        """
        route = self._brokers.get(broker_name)
        return None if route is None else route.master(broker_name)

    def reader(self, broker_name: str, broker_id: int) -> tuple[str, bool] | None:
        """Return (address, whether it is a slave) to read from; see ``Route.suggested_reader``."""
        route = self._brokers.get(broker_name)
        return None if route is None else route.suggested_reader(broker_name, broker_id)

    def all_addresses(self) -> dict[str, bool]:
        """Return every broker address of the known routes: address to whether it is a master."""
        found: dict[str, bool] = {}
        for broker_name, route in self._brokers.items():
            for broker_id, address in route.addresses(broker_name).items():
                found[address] = found.get(address, False) or broker_id == MASTER_ID
        return found
