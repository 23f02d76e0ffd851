"""AsyncSimpleConsumer: receive, acknowledge, extend; the broker keeps track (POP, 5.x brokers).

There is no rebalance on the client: any member may receive from any queue. A message that is not
acknowledged before its invisible time ends is delivered again, at most ``retryMaxTimes`` of its
group times; the next receive moves it to the dead-letter queue. In Java the proxy does this.

**Source:** RocketMQ 5.x ``SimpleConsumer``; ``MQClientAPIImpl#popMessageAsync``,
``#ackMessageAsync``, ``#changeInvisibleTimeAsync``; ``PopMessageResultFilterImpl`` of the proxy.
"""

import logging
from collections.abc import Iterable, Sequence

from broker.client.config import ClientConfig
from broker.client.consumer.membership import check_consumer_start, join_instance
from broker.client.consumer.subscription_table import SubscriptionTable
from broker.client.instance.client_instance import MQClientInstance
from broker.client.instance.registry import release_instance
from broker.client.lifecycle import AsyncStartable
from broker.client.namespace import without_namespace, wrap_namespace
from broker.client.pop.handle_table import HandleTable
from broker.client.pop.pop_api import PopAPI, PopRequest
from broker.client.pop.receipt_handle import handle_of
from broker.client.results import PopStatus
from broker.client.state import ServiceState
from broker.common.clock import Clock, SystemClock
from broker.common.group import CONSUME_POP
from broker.common.message_queue import MessageQueue
from broker.errors import BrokerError, ClientError, RocketMQError
from broker.message.message import MessageExt
from broker.remoting.protocol.body.consumer.heartbeat import ConsumerData
from broker.remoting.protocol.codes import RequestCode, ResponseCode

log = logging.getLogger("broker.client")

ANY_QUEUE = -1
MAX_RECEIVE = 32
DEFAULT_INVISIBLE_MS = 60_000
DEFAULT_WAIT_MS = 15_000
SLICE_MS = 2_000
"""With several brokers each is waited for in turn for at most this long."""


class AsyncSimpleConsumer(AsyncStartable):
    """Receives on request; needs a 5.x broker."""

    def __init__(
        self,
        group: str,
        client: ClientConfig | str,
        *,
        clock: Clock | None = None,
        instance: MQClientInstance | None = None,
    ) -> None:
        self.client = ClientConfig(namesrv=client) if isinstance(client, str) else client
        self.group = wrap_namespace(self.client.namespace, group)
        self.clock = clock or SystemClock()
        self.state = ServiceState.CREATE_JUST
        self._table = SubscriptionTable(self.client, self.clock)
        self._handles = HandleTable(self.clock)
        self._given = instance
        self._instance: MQClientInstance | None = None
        self._turn = 0

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Subscribe to a topic by tags or by an SQL92 expression."""
        self._table.subscribe(topic, tags, sql)

    def unsubscribe(self, topic: str) -> None:
        """Remove a topic."""
        self._table.unsubscribe(topic)

    # ---- life cycle

    async def start(self) -> None:
        """Register the group at the brokers."""
        check_consumer_start(self.group, self.state)
        self.state = ServiceState.START_FAILED
        await join_instance(self, self._begin, self.client, self.clock, given=self._given)
        self.state = ServiceState.RUNNING

    async def _begin(self, instance: MQClientInstance) -> None:
        instance.register_consumer(self)
        await instance.start()
        await instance.routes.refresh_all(self._table.by_topic)
        await instance.heartbeat()
        self._instance = instance

    async def shutdown(self) -> None:
        """Unregister; messages not acknowledged are delivered again after their time."""
        if self.state is not ServiceState.RUNNING:
            return
        self.state = ServiceState.SHUTDOWN_ALREADY
        await self.instance.unregister(consumer_group=self.group)
        await release_instance(self.instance)

    @property
    def instance(self) -> MQClientInstance:
        """The client instance; ClientError before the start."""
        if self._instance is None:
            raise ClientError(f"consumer {self.group} has not been started")
        return self._instance

    # ---- for the instance (ConsumerInner)

    def subscribed_topics(self) -> Iterable[str]:
        """Return the subscribed topics (names on the wire)."""
        return list(self._table.by_topic)

    def heartbeat(self) -> ConsumerData:
        """Return this group's part of a heartbeat."""
        return self._table.consumer_data(self.group, CONSUME_POP)

    async def rebalance(self) -> bool:
        """Do nothing: the broker assigns message by message."""
        return True

    async def persist_offsets(self) -> None:
        """Do nothing: the broker keeps the offsets."""

    # ---- receiving

    async def receive(
        self,
        max_messages: int = 1,
        invisible_ms: int = DEFAULT_INVISIBLE_MS,
        *,
        topic: str | None = None,
        wait_ms: int = DEFAULT_WAIT_MS,
    ) -> list[MessageExt]:
        """Receive up to ``max_messages`` (at most 32) of one topic, by default in turn.

        Waits at most ``wait_ms`` for the first one; an empty list means that none came. BrokerError
        POLLING_FULL if the broker has too many waiting requests.
        """
        if not 1 <= max_messages <= MAX_RECEIVE:
            raise ClientError(f"max_messages is {max_messages}: it must be between 1 and 32")
        deadline_ms = self.clock.monotonic_ms() + wait_ms
        targets = await self._targets(topic)
        first_round = len(targets) > 1  # look at every broker before waiting at one
        while True:
            for _ in range(len(targets)):
                self._turn += 1
                wire_topic, broker_name = targets[self._turn % len(targets)]
                left_ms = max(0, int(deadline_ms - self.clock.monotonic_ms()))
                poll_ms = left_ms if len(targets) == 1 else min(left_ms, SLICE_MS)
                found = await self._pop(
                    wire_topic,
                    broker_name,
                    max_messages,
                    invisible_ms,
                    poll_ms=0 if first_round else poll_ms,
                )
                if found:
                    return found
            first_round = False
            if self.clock.monotonic_ms() >= deadline_ms:
                return []

    async def _targets(self, topic: str | None) -> Sequence[tuple[str, str]]:
        """Return the (topic, broker name) pairs to receive from."""
        routes = self.instance.routes
        wire = None if topic is None else wrap_namespace(self.client.namespace, topic)
        if wire is not None and wire not in self._table.by_topic:
            raise ClientError(f"topic {topic} is not subscribed", "call subscribe() first")
        found = []
        for one in sorted(self._table.by_topic) if wire is None else [wire]:
            route = await routes.get(one)
            if route is None:
                raise ClientError(f"topic {one} does not exist")
            names = {queue.broker_name for queue in route.subscribe_queues()}
            found += [(one, name) for name in sorted(names) if routes.master(name) is not None]
        if not found:
            raise ClientError("no subscribed topic has a queue to receive from")
        return found

    async def _pop(
        self, topic: str, broker_name: str, count: int, invisible_ms: int, *, poll_ms: int
    ) -> list[MessageExt]:
        result = await self._api.pop(
            PopRequest(
                queue=MessageQueue(topic, broker_name, ANY_QUEUE),
                subscription=self._table.by_topic[topic],
                max_messages=count,
                invisible_ms=invisible_ms,
                poll_ms=poll_ms,
            )
        )
        if result.status is PopStatus.POLLING_FULL:
            raise BrokerError(
                ResponseCode.POLLING_FULL,
                result.remark or "too many requests wait",
                result.address,
                request_code=RequestCode.POP_MESSAGE,
                hint="receive less often",
            )
        for message in result.messages[:1]:
            self._handles.arrived(handle_of(message))
        for message in result.unwanted:
            await self._api.ack(message, topic)  # another tag with the same hash
        kept = await self._without_exhausted(result.messages, topic, result.address)
        for message in kept:
            message.topic = without_namespace(self.client.namespace, topic)
        return kept

    async def _without_exhausted(
        self, messages: list[MessageExt], topic: str, address: str
    ) -> list[MessageExt]:
        """Move messages with more than ``retryMaxTimes`` retries to the DLQ; return the others.

        A message that cannot be moved stays unacknowledged: the next receive tries again.
        """
        if not any(message.reconsume_times for message in messages):
            return messages
        try:
            limit = await self._api.retry_max_times(address)
        except RocketMQError as error:
            log.warning("%s: retryMaxTimes: %s", self.group, error.message)
            return messages
        kept = []
        for message in messages:
            if message.reconsume_times <= max(0, limit):
                kept.append(message)
                continue
            try:
                await self._api.move_to_dlq(message, topic)
            except RocketMQError as error:
                log.warning("%s: %s to the dead letters: %s", self.group, message, error.message)
        return kept

    @property
    def _api(self) -> PopAPI:
        return PopAPI(self.instance, self.group)

    # ---- after receiving

    async def ack(self, message: MessageExt) -> bool:
        """Acknowledge a message; False if it is not in flight any more.

        Either its invisible time is over, and it comes again, or it was acknowledged before.
        """
        handle = handle_of(message)
        if not self._handles.is_usable(handle):
            return False
        topic = wrap_namespace(self.client.namespace, message.topic)
        accepted = await self._api.ack(message, topic)
        if accepted:
            self._handles.use_up(handle)
        return accepted

    async def change_invisible_duration(self, message: MessageExt, invisible_ms: int) -> bool:
        """Let a message stay invisible for ``invisible_ms`` from now; 0 delivers it again soon.

        The message gets a new handle; the one before is void. False if the message is not in
        flight any more (see ``ack``).
        """
        handle = handle_of(message)
        if not self._handles.is_usable(handle):
            return False
        topic = wrap_namespace(self.client.namespace, message.topic)
        accepted = await self._api.change_invisible_time(message, topic, invisible_ms)
        if accepted:
            self._handles.use_up(handle)
        return accepted
