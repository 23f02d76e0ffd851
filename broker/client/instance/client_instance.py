"""MQClientInstance: the producers and consumers of one client id, and their periodic work.

=====================  =================================================================
task                   interval; the first run is one interval after the start
=====================  =================================================================
routes of all topics   ``poll_name_server_interval_ms``
heartbeat              ``heartbeat_broker_interval_ms``; at once to brokers that are new
commit of offsets      ``persist_consumer_offset_interval_ms``
name servers by HTTP   ``namesrv_url_interval_ms``, if they are discovered; also at start
rebalance              20 s, 1 s while a group is not balanced; at once when a consumer
                       starts or a broker notifies that the members changed
=====================  =================================================================

A task that fails is logged and repeated: one broker or name server that is down must not stop the
work for the others. Producers and consumers send their own first heartbeat.

**Source:** RocketMQ ``MQClientInstance``, ``ClientRemotingProcessor``, ``RebalanceService``.
"""

import asyncio
import logging
import os
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any, Protocol

from broker.client.config import DEFAULT_INSTANCE, ClientConfig
from broker.client.instance.api import MQClientAPI
from broker.client.instance.name_servers import NameServers
from broker.client.instance.topic_routes import TopicRoutes
from broker.client.instance.transport import (
    BrokerRequestHandler,
    RemotingTransport,
    TransportFactory,
)
from broker.common.clock import Clock, SystemClock
from broker.common.subscription import SubscriptionData, is_tag_type
from broker.errors import BrokerError, ClientError, RocketMQError
from broker.message.message import PROPERTY_PRODUCER_GROUP
from broker.message.properties import peek_property
from broker.message.record import peek_properties
from broker.remoting.protocol.body.consumer.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
    ProducerData,
)
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.rpc.uniq_key import own_ip

log = logging.getLogger("broker.client")

REBALANCE_INTERVAL_S = 20.0
REBALANCE_MIN_INTERVAL_S = 1.0

BROKER_REQUESTS = (
    RequestCode.CHECK_TRANSACTION_STATE,
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
)
"""Requests that a broker may send to a client."""


class ProducerInner(Protocol):
    """The part of a producer that its instance uses."""

    group: str

    def publish_topics(self) -> Iterable[str]:
        """Return the topics whose routes are needed."""
        ...


class ConsumerInner(Protocol):
    """The part of a consumer that its instance uses."""

    group: str

    def subscribed_topics(self) -> Iterable[str]:
        """Return the topics whose routes are needed."""
        ...

    def heartbeat(self) -> ConsumerData:
        """Return this group's part of a heartbeat."""
        ...

    async def rebalance(self) -> bool:
        """Rebalance all topics once; return whether the group is balanced."""
        ...

    async def persist_offsets(self) -> None:
        """Commit the offsets of all queues."""
        ...


class MQClientInstance:
    """One client id: its connections, routes, producers and consumers.

    ``transport`` builds the transport from configuration and handlers.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        client_id: str = "",
        clock: Clock | None = None,
        transport: TransportFactory = RemotingTransport,
    ) -> None:
        self.config = config
        self.clock = clock or SystemClock()
        self.ip = config.client_ip or own_ip()
        self.client_id = client_id or make_client_id(config, self.ip)
        self._group_handlers: dict[tuple[int, str], BrokerRequestHandler] = {}
        self._handlers: dict[int, BrokerRequestHandler] = {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._members_changed
        }
        self.transport = transport(config, dict.fromkeys(BROKER_REQUESTS, self._handle))
        self.name_servers = NameServers(config, self.transport, self.clock)
        self.api = MQClientAPI(
            self.transport, self.name_servers, timeout_ms=config.mq_client_api_timeout_ms
        )
        self.routes = TopicRoutes(self.api)
        self.routes.on_change.append(self._send_first_heartbeats)
        self.producers: dict[str, ProducerInner] = {}
        self.consumers: dict[str, ConsumerInner] = {}
        self.users = 0  # clients that share this instance; the last one stops it
        self._tasks: set[asyncio.Task[None]] = set()
        self._rebalance_now = asyncio.Event()
        self._heartbeat_lock = asyncio.Lock()
        self._started: asyncio.Task[None] | None = None
        self._first_heartbeats: set[asyncio.Task[int]] = set()
        self._heartbeat_sent: set[str] = set()  # addresses that got at least one

    # ---- life cycle

    async def start(self) -> None:
        """Start the periodic work; further calls wait for the first one."""
        if self._started is None:
            self._started = asyncio.get_running_loop().create_task(self._start())
        await asyncio.shield(self._started)

    async def _start(self) -> None:
        config = self.config
        if self.name_servers.discovers:
            await self.name_servers.discover()
            self.every(config.namesrv_url_interval_ms, self.name_servers.discover)
        self.every(config.poll_name_server_interval_ms, self.refresh_routes)
        self.every(config.heartbeat_broker_interval_ms, self.heartbeat)
        self.every(config.persist_consumer_offset_interval_ms, self.persist_offsets)
        self._spawn(self._rebalance_service())

    def every(self, period_ms: float, work: Callable[[], Awaitable[object]]) -> asyncio.Task[None]:
        """Run ``work`` every ``period_ms`` until the instance stops; errors are logged.

        A client that leaves the instance before cancels the returned task.
        """
        return self._spawn(self._repeat(period_ms, work))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _repeat(self, period_ms: float, work: Callable[[], Awaitable[object]]) -> None:
        while True:
            await asyncio.sleep(period_ms / 1000)
            try:
                await work()
            except RocketMQError as error:
                log.warning("%s: %s", self.client_id, error.message)
            except Exception:  # a defect in one task must not end the work of the others
                log.exception("%s: periodic work failed", self.client_id)

    async def shutdown(self) -> None:
        """Stop the periodic work and close all connections."""
        tasks = [*self._tasks, *self._first_heartbeats]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        await self.transport.close()

    # ---- registration

    def register_producer(self, producer: ProducerInner) -> None:
        """Add a producer; ClientError if its group has one in this instance already."""
        if producer.group in self.producers:
            raise ClientError(
                f"producer group {producer.group} exists already in client {self.client_id}",
                "give the second one another group or another instance name",
            )
        self.producers[producer.group] = producer

    def remove_producer(self, producer: ProducerInner) -> None:
        """Remove a producer here; another one of the same group stays."""
        if self.producers.get(producer.group) is producer:
            del self.producers[producer.group]
            self._group_handlers.pop((RequestCode.CHECK_TRANSACTION_STATE, producer.group), None)

    def register_consumer(self, consumer: ConsumerInner) -> None:
        """Add a consumer; ClientError if its group has one in this instance already."""
        if consumer.group in self.consumers:
            raise ClientError(
                f"consumer group {consumer.group} exists already in client {self.client_id}",
                "give the second one another instance name",
            )
        self.consumers[consumer.group] = consumer

    async def unregister(self, *, producer_group: str = "", consumer_group: str = "") -> None:
        """Remove a group here and on all brokers; others remove it by time-out.

        A heartbeat in flight is waited for, as long as for the response to the request itself:
        executed later, it would add the group again.
        """
        if producer_group:
            self.producers.pop(producer_group, None)
            self._group_handlers.pop((RequestCode.CHECK_TRANSACTION_STATE, producer_group), None)
        if consumer_group:
            self.consumers.pop(consumer_group, None)
            for key in [one for one in self._group_handlers if one[1] == consumer_group]:
                del self._group_handlers[key]
        with suppress(TimeoutError):
            async with asyncio.timeout(self.api.unregister_timeout_ms / 1000), self._heartbeat_lock:
                pass  # later heartbeats do not contain the group
        calls = [
            self.api.unregister(
                address,
                self.client_id,
                producer_group=producer_group,
                consumer_group=consumer_group,
            )
            for address in self.routes.all_addresses()
        ]
        for result in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(result, RocketMQError):
                log.info("%s: unregister: %s", self.client_id, result.message)

    def add_handler(self, code: int, handler: BrokerRequestHandler) -> None:
        """Register the handler of a request code that brokers send."""
        self._handlers[code] = handler

    def add_group_handler(self, code: int, group: str, handler: BrokerRequestHandler) -> None:
        """Register the handler of a request code for one group; it precedes that of the code."""
        self._group_handlers[code, group] = handler

    async def _handle(self, address: str, command: RemotingCommand) -> RemotingCommand | None:
        """Call the handler of a broker's request, or answer that there is none."""
        group = _group_of(command)
        handler = self._group_handlers.get((command.code, group)) or self._handlers.get(
            command.code
        )
        if handler is not None:
            return await handler(address, command)
        if group and any(code == command.code for code, _ in self._group_handlers):
            remark = f"the consumer group {group} is not in this client"
            return response(command, ResponseCode.SYSTEM_ERROR, remark)
        remark = f"this client does not handle request code {command.code}"
        return response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)

    # ---- periodic work

    async def refresh_routes(self) -> None:
        """Refresh the routes of all topics in use and drop those of other topics."""
        await self.routes.refresh_all(self._topics_in_use())
        self.routes.retain(self._topics_in_use())  # some may be new since the refresh began

    def _topics_in_use(self) -> set[str]:
        topics: set[str] = set()
        for producer in self.producers.values():
            topics.update(producer.publish_topics())
        for consumer in self.consumers.values():
            topics.update(consumer.subscribed_topics())
        return topics

    def heartbeat_data(self) -> HeartbeatData:
        """Return the heartbeat of this client."""
        return HeartbeatData(
            client_id=self.client_id,
            producer_data_set=[ProducerData(group_name=group) for group in sorted(self.producers)],
            consumer_data_set=[
                self.consumers[group].heartbeat() for group in sorted(self.consumers)
            ],
        )

    async def heartbeat(
        self, addresses: Iterable[str] | None = None, *, timeout_ms: float | None = None
    ) -> int:
        """Send a heartbeat to brokers, by default all known; return how many answered.

        Slaves get it only from clients with consumers.
        """
        if not self.producers and not self.consumers:
            return 0
        async with self._heartbeat_lock:
            data = self.heartbeat_data()
            known = self.routes.all_addresses()
            wanted = set(known if addresses is None else addresses)
            if not self.consumers:
                # known: address → whether it is a master
                wanted = {address for address in wanted if known.get(address, True)}
            self._heartbeat_sent |= wanted
            body = data.to_bytes()
            results = await asyncio.gather(
                *(
                    self.api.call(address, RequestCode.HEART_BEAT, body, timeout_ms=timeout_ms)
                    for address in sorted(wanted)
                ),
                return_exceptions=True,
            )
        for result in results:
            if isinstance(result, RocketMQError):
                log.info("%s: heartbeat: %s", self.client_id, result.message)
            elif isinstance(result, Exception):
                raise result
        return sum(not isinstance(result, BaseException) for result in results)

    def _send_first_heartbeats(self, topic: str) -> None:
        """Send a heartbeat, in the background, to brokers that are new in the routes.

        In Java they get it at the next interval: a consumer of a topic that was just created would
        not be a member of its group for up to 30 s.
        """
        fresh = set(self.routes.all_addresses()) - self._heartbeat_sent
        if fresh and (self.producers or self.consumers):
            task = asyncio.get_running_loop().create_task(self.heartbeat(fresh))
            self._first_heartbeats.add(task)
            task.add_done_callback(self._first_heartbeats.discard)

    async def persist_offsets(self) -> None:
        """Commit the offsets of every consumer."""
        await asyncio.gather(*(one.persist_offsets() for one in self.consumers.values()))

    # ---- rebalance

    def rebalance_now(self) -> None:
        """Wake the rebalance service."""
        self._rebalance_now.set()

    async def _rebalance_service(self) -> None:
        interval_s = REBALANCE_INTERVAL_S
        while True:
            try:
                async with asyncio.timeout(interval_s):
                    await self._rebalance_now.wait()
            except TimeoutError:
                pass
            self._rebalance_now.clear()
            began_s = asyncio.get_running_loop().time()
            balanced = await self.rebalance_all()
            if balanced:
                interval_s = REBALANCE_INTERVAL_S
            else:
                took_s = asyncio.get_running_loop().time() - began_s
                interval_s = max(0.01, REBALANCE_MIN_INTERVAL_S - took_s)

    async def rebalance_all(self) -> bool:
        """Rebalance every consumer once; return whether all groups are balanced."""
        balanced = True
        for consumer in list(self.consumers.values()):
            try:
                balanced = await consumer.rebalance() and balanced
            except RocketMQError as error:
                log.warning("rebalance of %s: %s", consumer.group, error.message)
                balanced = False
            except Exception:  # a defect with one group must not stop the other groups
                log.exception("rebalance of %s failed", consumer.group)
                balanced = False
        return balanced

    async def _members_changed(
        self, address: str, command: RemotingCommand
    ) -> RemotingCommand | None:
        log.info("%s: members of %s changed", address, command.ext_fields.get("consumerGroup"))
        self.rebalance_now()
        return None

    async def check_client_in_broker(self, group: str, subscription: SubscriptionData) -> None:
        """Let one broker compile an SQL92 expression: an invalid one would just deliver nothing.

        ClientError if the broker refuses it. Tag expressions and topics without a known route are
        not checked.

        **Source:** RocketMQ ``MQClientInstance#checkClientInBroker``.
        """
        route = self.routes.known(subscription.topic)
        if is_tag_type(subscription.expression_type) or route is None:
            return
        body = CheckClientRequestBody(
            client_id=self.client_id,
            group=group,
            subscription_data=subscription,
            namespace=self.config.namespace,
        )
        addresses = [one for name in route.broker_names() if (one := route.master(name))]
        for address in addresses[:1]:
            try:
                await self.api.call(address, RequestCode.CHECK_CLIENT_CONFIG, body.to_bytes())
            except BrokerError as error:
                raise ClientError(
                    f"subscription of {subscription.topic} by SQL92: {error.remark}",
                    "check the expression, and enablePropertyFilter=true in broker.conf",
                ) from error

    async def consumer_ids(self, topic: str, group: str) -> list[str] | None:
        """Return the members of a group, from a random broker of the topic; None if not known."""
        address = self.random_broker(topic)
        if address is None:
            return None
        try:
            return await self.api.consumer_ids(address, group)
        except BrokerError as error:
            if error.code != ResponseCode.SYSTEM_ERROR:  # sent for a group without members
                log.warning("members of %s: %s", group, error.message)
            return None
        except RocketMQError as error:
            log.warning("members of %s: %s", group, error.message)
            return None

    def random_broker(self, topic: str) -> str | None:
        """Return the address of a random broker of a topic; None if none is known."""
        route = self.routes.known(topic)
        names = route.broker_names() if route is not None else []
        addresses = [one for name in names if (one := self._any_address(name)) is not None]
        return random.choice(addresses) if addresses else None

    def _any_address(self, broker_name: str) -> str | None:
        """Return the address of the master, else of a slave."""
        found = self.routes.reader(broker_name, 0)
        return None if found is None else found[0]


def _group_of(command: RemotingCommand) -> str:
    """Return the group that a request of a broker is about: a field, or in the half message."""
    fields = command.ext_fields
    if command.code == RequestCode.CHECK_TRANSACTION_STATE:
        group = peek_property(
            peek_properties(command.body_bytes()), PROPERTY_PRODUCER_GROUP.encode()
        )
        return "" if group is None else group.decode("utf-8", "replace")
    return fields.get("consumerGroup") or fields.get("group", "")


def make_client_id(config: ClientConfig, ip: str) -> str:
    """Return ``ip@instance[@unit]``; the default instance name becomes unique per client.

    **Source:** RocketMQ ``ClientConfig#buildMQClientId``, ``#changeInstanceNameToPID``.
    """
    name = config.instance_name
    if name == DEFAULT_INSTANCE:
        name = f"{os.getpid()}#{time.monotonic_ns()}"
    unit = f"@{config.unit_name}" if config.unit_name else ""
    return f"{ip}@{name}{unit}"
