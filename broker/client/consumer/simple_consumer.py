"""AsyncSimpleConsumer: receive, acknowledge, extend; the broker keeps track (POP, 5.x brokers).

There is no rebalance on the client: any member may receive from any queue. A message that is not
acknowledged before its invisible time ends is delivered again.

**Source:** RocketMQ 5.x ``SimpleConsumer``; ``MQClientAPIImpl#popMessageAsync``,
``#ackMessageAsync``, ``#changeInvisibleTimeAsync``.
"""

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from broker.client.config import ClientConfig, MessageModel
from broker.client.consumer.messages import read_messages, select_messages
from broker.client.consumer.receipt_handle import ReceiptHandle, attach_handles, handle_of
from broker.client.instance.client_instance import MQClientInstance
from broker.client.instance.registry import acquire_instance, release_instance
from broker.client.namespace import without_namespace, wrap_namespace
from broker.client.state import ServiceState
from broker.common.clock import Clock, SystemClock
from broker.common.group import CONSUME_POP, check_group_name
from broker.common.subscription import (
    EXPRESSION_SQL92,
    EXPRESSION_TAG,
    SubscriptionData,
    build_subscription,
)
from broker.errors import BrokerError, ClientError, RemoteProtocolError
from broker.message.message import PROPERTY_POP_CK, MessageExt
from broker.remoting.protocol.body.consumer.heartbeat import ConsumerData
from broker.remoting.protocol.codes import RequestCode, ResponseCode

POP_CODES = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.POLLING_TIMEOUT,
    ResponseCode.POLLING_FULL,
)
MAX_RECEIVE = 32
DEFAULT_INVISIBLE_MS = 60_000
DEFAULT_WAIT_MS = 15_000
SLICE_MS = 2_000
"""With several brokers each is waited for in turn for at most this long."""
RPC_MARGIN_MS = 10_000


class AsyncSimpleConsumer:
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
        self._subscriptions: dict[str, SubscriptionData] = {}
        self._given = instance
        self._instance: MQClientInstance | None = None
        self._turn = 0

    def subscribe(self, topic: str, tags: str = "*", *, sql: str | None = None) -> None:
        """Subscribe to a topic by tags or by an SQL92 expression."""
        wire_topic = wrap_namespace(self.client.namespace, topic)
        try:
            self._subscriptions[wire_topic] = build_subscription(
                wire_topic,
                tags if sql is None else sql,
                EXPRESSION_TAG if sql is None else EXPRESSION_SQL92,
                self.clock.now_ms(),
            )
        except RemoteProtocolError as error:
            raise ClientError(f"subscription of {topic}: {error.message}", error.hint) from error

    def unsubscribe(self, topic: str) -> None:
        """Remove a topic."""
        self._subscriptions.pop(wrap_namespace(self.client.namespace, topic), None)

    # ---- life cycle

    async def start(self) -> None:
        """Register the group at the brokers."""
        if self.state is not ServiceState.CREATE_JUST:
            raise ClientError(f"consumer {self.group} is {self.state.value}: it starts once")
        reason = check_group_name(self.group)
        if reason is not None:
            raise ClientError(f"consumer group {self.group!r:.200}: {reason}")
        self.state = ServiceState.START_FAILED
        instance = self._given or acquire_instance(self.client, self.clock)
        if self._given is not None:
            instance.users += 1
        try:
            instance.register_consumer(self)
            await instance.start()
            await instance.routes.refresh_all(self._subscriptions)
            await instance.heartbeat()
        except BaseException:
            if instance.consumers.get(self.group) is self:
                del instance.consumers[self.group]
            await release_instance(instance)
            raise
        self._instance = instance
        self.state = ServiceState.RUNNING

    async def shutdown(self) -> None:
        """Unregister; messages not acknowledged are delivered again after their time."""
        if self.state is not ServiceState.RUNNING:
            return
        self.state = ServiceState.SHUTDOWN_ALREADY
        await self.instance.unregister(consumer_group=self.group)
        await release_instance(self.instance)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.shutdown()

    @property
    def instance(self) -> MQClientInstance:
        """The client instance; ClientError before the start."""
        if self._instance is None:
            raise ClientError(f"consumer {self.group} has not been started")
        return self._instance

    # ---- for the instance (ConsumerInner)

    def subscribed_topics(self) -> Iterable[str]:
        """Return the subscribed topics (names on the wire)."""
        return list(self._subscriptions)

    def heartbeat(self) -> ConsumerData:
        """Return this group's part of a heartbeat."""
        return ConsumerData(
            group_name=self.group,
            consume_type=CONSUME_POP,
            message_model=MessageModel.CLUSTERING.value,
            consume_from_where="CONSUME_FROM_LAST_OFFSET",
            subscription_data_set=[self._subscriptions[one] for one in sorted(self._subscriptions)],
            unit_mode=self.client.unit_mode,
        )

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
        if wire is not None and wire not in self._subscriptions:
            raise ClientError(f"topic {topic} is not subscribed", "call subscribe() first")
        found = []
        for one in sorted(self._subscriptions) if wire is None else [wire]:
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
        address = self._master(broker_name)
        subscription = self._subscriptions[topic]
        reply = await self.instance.api.call(
            address,
            RequestCode.POP_MESSAGE,
            accept=POP_CODES,
            timeout_ms=poll_ms + RPC_MARGIN_MS,
            consumer_group=self.group,
            topic=topic,
            queue_id=-1,
            max_msg_nums=count,
            invisible_time=invisible_ms,
            poll_time=poll_ms,
            born_time=self.clock.now_ms(),
            init_mode=1,
            exp_type=subscription.expression_type,
            exp=subscription.sub_string,
            bname=broker_name,
        )
        if reply.code == ResponseCode.POLLING_FULL:
            raise BrokerError(
                reply.code,
                reply.command.remark or "too many requests wait",
                address,
                request_code=RequestCode.POP_MESSAGE,
                hint="receive less often",
            )
        if reply.code != ResponseCode.SUCCESS:
            return []
        messages = read_messages(reply.body)
        attach_handles(
            messages, reply.header, topic=topic, group=self.group, broker_name=broker_name
        )
        wanted = select_messages(messages, subscription)
        for message in messages:
            if message not in wanted:
                await self._ack(handle_of(message), topic)  # another tag with the same hash
            message.topic = without_namespace(self.client.namespace, topic)
        return wanted

    def _master(self, broker_name: str) -> str:
        address = self.instance.routes.master(broker_name)
        if address is None:
            raise ClientError(f"broker {broker_name} has no master now")
        return address

    # ---- after receiving

    async def ack(self, message: MessageExt) -> bool:
        """Acknowledge a message; False if it was not in flight any more (it comes again)."""
        topic = wrap_namespace(self.client.namespace, message.topic)
        return await self._ack(handle_of(message), topic)

    async def _ack(self, handle: ReceiptHandle, topic: str) -> bool:
        reply = await self.instance.api.call(
            self._master(handle.broker_name),
            RequestCode.ACK_MESSAGE,
            accept=(ResponseCode.SUCCESS, ResponseCode.NO_MESSAGE),
            consumer_group=self.group,
            topic=handle.topic(topic, self.group),
            queue_id=handle.queue_id,
            extra_info=handle.text,
            offset=handle.queue_offset,
            bname=handle.broker_name,
        )
        return reply.code == ResponseCode.SUCCESS

    async def change_invisible_duration(self, message: MessageExt, invisible_ms: int) -> bool:
        """Let a message stay invisible for ``invisible_ms`` from now; 0 delivers it again soon.

        The message gets a new handle; the one before is void. False if it was not in flight.
        """
        handle = handle_of(message)
        topic = wrap_namespace(self.client.namespace, message.topic)
        reply = await self.instance.api.call(
            self._master(handle.broker_name),
            RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
            accept=(ResponseCode.SUCCESS, ResponseCode.NO_MESSAGE),
            consumer_group=self.group,
            topic=handle.topic(topic, self.group),
            queue_id=handle.queue_id,
            extra_info=handle.text,
            offset=handle.queue_offset,
            invisible_time=invisible_ms,
            bname=handle.broker_name,
        )
        if reply.code != ResponseCode.SUCCESS:
            return False
        header = reply.header
        message.properties[PROPERTY_POP_CK] = ReceiptHandle(
            start_offset=handle.queue_offset,
            pop_time_ms=header.pop_time,
            invisible_ms=header.invisible_time,
            revive_qid=header.revive_qid,
            retry_flag=handle.retry_flag,
            broker_name=handle.broker_name,
            queue_id=handle.queue_id,
            queue_offset=handle.queue_offset,
        ).text
        return True
