"""AsyncProducer: sends messages with asyncio.

**Source:** RocketMQ ``DefaultMQProducer``, ``DefaultMQProducerImpl``.
"""

import asyncio
import base64
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from broker.client.config import ClientConfig, ProducerConfig
from broker.client.hooks.events import (
    DELAY_MSG,
    NORMAL_MSG,
    TRANS_MSG_HALF,
    SendEvent,
    SendHook,
    run_hooks,
)
from broker.client.instance.client_instance import MQClientInstance
from broker.client.instance.registry import acquire_instance, release_instance
from broker.client.latency.fault_strategy import MQFaultStrategy, Outcome, outcome_of
from broker.client.lifecycle import AsyncStartable
from broker.client.namespace import unwrap_queue, wrap_namespace, wrap_queue
from broker.client.publish.back_pressure import BackPressure
from broker.client.publish.publish_info import TopicPublishInfo
from broker.client.publish.request_reply import replies_of
from broker.client.publish.retry import RetryPolicy
from broker.client.results import SendResult
from broker.client.state import ServiceState
from broker.common.clock import Clock, SystemClock
from broker.common.group import check_group_name
from broker.common.message_queue import MessageQueue
from broker.errors import BrokerError, ClientError, RemotingError, RequestTimeoutError
from broker.message.message import (
    PROPERTY_DELAY_TIME_LEVEL,
    PROPERTY_KEYS,
    PROPERTY_TAGS,
    PROPERTY_TRANSACTION_PREPARED,
    Message,
    MessageExt,
)
from broker.message.properties import decode_properties
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.rpc.message_encoder import (
    EncodedMessage,
    check_message,
    encode_batch_message,
    encode_message,
    send_request,
)
from broker.remoting.rpc.send_response import SEND_STATUS, read_send
from broker.remoting.rpc.uniq_key import UniqKeyGenerator

log = logging.getLogger("broker.client")

QueueSelector = Callable[[Sequence[MessageQueue]], MessageQueue]
"""Chooses the queue of an ordered message from all queues of the topic."""

DETECT_INTERVAL_MS = 3_000
DETECT_TIMEOUT_MS = 200


class AsyncProducer(AsyncStartable):
    """Sends messages to any topic; start it, or use it as a context manager.

    >>> import asyncio
    >>> async def main(namesrv):
    ...     async with AsyncProducer("orders", namesrv) as producer:
    ...         result = await producer.send(Message("T", b"hello", tags="A", keys="k1"))
    ...         return result.send_status
    >>> asyncio.run(main(namesrv))
    <SendStatus.SEND_OK: 'SEND_OK'>
    """

    def __init__(
        self,
        group: str,
        client: ClientConfig | str,
        config: ProducerConfig | None = None,
        *,
        topics: Iterable[str] = (),
        clock: Clock | None = None,
        instance: MQClientInstance | None = None,
    ) -> None:
        """``topics``: those whose brokers know the group from the start on, as in Java 5.x."""
        self.client = ClientConfig(namesrv=client) if isinstance(client, str) else client
        self.config = config or ProducerConfig()
        self.group = wrap_namespace(self.client.namespace, group)
        self.clock = clock or SystemClock()
        self.state = ServiceState.CREATE_JUST
        self.faults = MQFaultStrategy(
            self.clock,
            enabled=self.config.send_latency_enable,
            rule=self.config.fault_rule,
            detector=self.config.start_detector_enable,
        )
        self.send_hooks: list[SendHook] = []
        self._given = instance
        self._instance: MQClientInstance | None = instance
        self._sync = RetryPolicy(self.config)
        self._async = RetryPolicy(self.config, asynchronous=True)
        self._pressure = BackPressure(
            self.config.back_pressure_count, self.config.back_pressure_bytes
        )
        self._sending: set[asyncio.Task[SendResult]] = set()
        self._topics = {self.wire_topic(topic) for topic in topics}
        self._keys: UniqKeyGenerator | None = None
        self._known_for_replies: frozenset[str] = frozenset()
        self._detecting: asyncio.Task[None] | None = None

    # ---- life cycle

    async def start(self) -> None:
        """Start the shared work and register the group; ClientError for a reserved group.

        The brokers of ``topics`` know the group from then on. Routes that cannot be loaded now are
        loaded by the poll.

        **Source:** RocketMQ ``DefaultMQProducerImpl#start``, ``#initTopicRoute``.
        """
        if self.state is not ServiceState.CREATE_JUST:
            raise ClientError(f"producer {self.group} is {self.state.value}: it starts once")
        reason = check_group_name(self.group)
        if reason is None and self.group == "DEFAULT_PRODUCER":
            reason = "DEFAULT_PRODUCER is reserved"
        if reason is not None:
            raise ClientError(f"producer group {self.group!r:.200}: {reason}")
        self.state = ServiceState.START_FAILED
        instance = self._given or acquire_instance(self.client, self.clock)
        if self._given is not None:
            instance.users += 1
        try:
            self._keys = UniqKeyGenerator(self.clock, instance.ip)
            await instance.start()
            # before the registration: a route that is new would cause a second heartbeat
            await instance.routes.refresh_all(self.publish_topics())
            self._register(instance)
            await instance.heartbeat()
            self.state = ServiceState.RUNNING
            if self.config.send_latency_enable and self.config.start_detector_enable:
                self._detecting = instance.every(DETECT_INTERVAL_MS, self._detect)
        except BaseException:
            instance.remove_producer(self)
            await release_instance(instance)
            raise

    def _register(self, instance: MQClientInstance) -> None:
        instance.register_producer(self)
        self._instance = instance

    async def shutdown(self) -> None:
        """Wait for sends in flight, unregister the group, release the instance."""
        if self.state is not ServiceState.RUNNING:
            return
        self.state = ServiceState.SHUTDOWN_ALREADY
        if self._sending:
            await asyncio.wait(set(self._sending))
        if self._detecting is not None:
            self._detecting.cancel()
        await self.instance.unregister(producer_group=self.group)
        await release_instance(self.instance)

    def in_flight(self) -> tuple[int, int]:
        """Return (number, bytes) of asynchronous sends in flight."""
        return self._pressure.count, self._pressure.bytes

    @property
    def instance(self) -> MQClientInstance:
        """The client instance; ClientError before the start."""
        if self._instance is None:
            raise ClientError(f"producer {self.group} has not been started")
        return self._instance

    def publish_topics(self) -> Iterable[str]:
        """Return the topics given or sent to so far (names on the wire)."""
        return self._topics

    # ---- sending

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send and wait for the result; failed attempts are repeated on other brokers.

        With ``queue`` or ``selector`` there is one attempt: another queue would break the order.
        Raises ClientError for an invalid message or topic, BrokerError or RemotingError of the last
        attempt.
        """
        encoded = self._encode(message)
        return await self._send(encoded, self._sync, queue, selector, timeout_ms=timeout_ms)

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send several messages of one topic in one request; all are stored or none."""
        self._check_running()
        topic = self.wire_topic(messages[0].topic) if messages else ""
        encoded = encode_batch_message(
            messages,
            self.config,
            topic=topic,
            new_keys=[self._new_key() for _ in messages],
            namespace=self.client.namespace,
        )
        return await self._send(encoded, self._sync, queue, timeout_ms=timeout_ms)

    async def send_async(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> "asyncio.Task[SendResult]":
        """Start a send and return its task; waits while too much is in flight.

        Only failures of the transport are repeated: a broker's error response goes to the caller.
        """
        encoded = self._encode(message)
        size = encoded.size
        await self._pressure.acquire(size)
        work = self._send(encoded, self._async, queue, selector, timeout_ms=timeout_ms)
        task = asyncio.get_running_loop().create_task(work)
        self._sending.add(task)
        task.add_done_callback(lambda done: self._sent(done, size))
        return task

    def _sent(self, task: "asyncio.Task[SendResult]", size: int) -> None:
        self._sending.discard(task)
        self._pressure.release(size)
        if not task.cancelled():
            task.exception()  # marks it as seen; a caller that awaits the task still gets it

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
    ) -> None:
        """Send without waiting for an answer: it is not known whether the message was stored."""
        encoded = self._encode(message)
        info = await self.publish_info(encoded.topic)
        chosen = self._choose(info, queue, selector) or self.faults.select(info, None)
        with self._recorded_attempt(chosen.broker_name):
            address = await self._address(chosen, info)
            command = self._request(encoded, chosen)
            timeout_ms = self.config.send_msg_timeout_ms
            await self.instance.transport.oneway(address, command, timeout_ms)

    async def request(self, message: Message, *, timeout_ms: int) -> MessageExt:
        """Send a request and wait for the reply of its consumer (:func:`reply_to`).

        Raises RequestTimeoutError if none comes in time, otherwise as ``send``.
        """
        self._check_running()
        check_message(message, self.config, self.wire_topic(message.topic))
        instance = self.instance
        deadline_ms = self.clock.monotonic_ms() + timeout_ms
        replies = replies_of(instance)
        info = await self.publish_info(self.wire_topic(message.topic))
        if not self._known_for_replies >= info.broker_names:
            await instance.heartbeat()  # a broker pushes replies only to clients that it knows
            self._known_for_replies |= info.broker_names
        correlation_id = replies.open(message, timeout_ms)
        try:
            left_ms = max(1, int(deadline_ms - self.clock.monotonic_ms()))
            await self.send(message, timeout_ms=left_ms)
            return await replies.wait(correlation_id, deadline_ms - self.clock.monotonic_ms())
        finally:
            replies.close(correlation_id)

    async def recall(self, topic: str, recall_handle: str) -> str:
        """Cancel a delayed message (5.3.2 brokers); returns its message id.

        ``recall_handle`` is that of the send's result. BrokerError ILLEGAL_OPERATION if it is due.
        """
        self._check_running()
        wire_topic = self.wire_topic(topic)
        info = await self.publish_info(wire_topic)
        broker_name = recall_broker(recall_handle)
        address = await self._address(MessageQueue(wire_topic, broker_name, 0), info)
        reply = await self.instance.api.call(
            address,
            RequestCode.RECALL_MESSAGE,
            timeout_ms=self.config.send_msg_timeout_ms,
            producer_group=self.group,
            topic=wire_topic,
            recall_handle=recall_handle,
        )
        return str(reply.header.msg_id)

    async def fetch_publish_queues(self, topic: str) -> Sequence[MessageQueue]:
        """Return the queues of a topic that can be written."""
        self._check_running()
        return self._own_queues(await self.publish_info(self.wire_topic(topic)))

    # ---- parts of a send

    def wire_topic(self, topic: str) -> str:
        """Return the topic's name on the wire; ClientError if it is not text."""
        if not isinstance(topic, str):
            raise ClientError(f"topic {topic!r:.200} is not text", "pass the name of a topic")
        return wrap_namespace(self.client.namespace, topic)

    def _new_key(self) -> str:
        assert self._keys is not None, "not started"
        return self._keys.create()

    def _check_running(self) -> None:
        if self.state is not ServiceState.RUNNING:
            raise ClientError(
                f"producer {self.group} is {self.state.value}", "start it before sending"
            )

    def _encode(self, message: Message) -> EncodedMessage:
        self._check_running()
        return encode_message(
            message,
            self.config,
            topic=self.wire_topic(message.topic),
            new_key=self._new_key(),
            namespace=self.client.namespace,
        )

    async def publish_info(self, topic: str) -> TopicPublishInfo:
        """Return the queues of a topic on the wire; ClientError if it has none to write to."""
        self._topics.add(topic)
        return await self.instance.routes.publish_info(
            topic,
            create_key=self.config.create_topic_key,
            create_queues=self.config.default_topic_queue_nums,
        )

    def _own_queues(self, info: TopicPublishInfo) -> Sequence[MessageQueue]:
        """Return the queues of a topic without namespace."""
        if not self.client.namespace:
            return info.queues
        return tuple(unwrap_queue(self.client.namespace, queue) for queue in info.queues)

    def _choose(
        self,
        info: TopicPublishInfo,
        queue: MessageQueue | None,
        selector: QueueSelector | None,
    ) -> MessageQueue | None:
        if queue is not None:
            return MessageQueue(info.topic, queue.broker_name, queue.queue_id)
        if selector is not None:
            queues = self._own_queues(info)
            chosen = selector(queues)
            if chosen not in queues:
                raise ClientError(f"the selector returned {chosen}, which is not a queue of it")
            return wrap_queue(self.client.namespace, chosen)
        return None

    async def _send(
        self,
        encoded: EncodedMessage,
        policy: RetryPolicy,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> SendResult:
        if not self.send_hooks:
            return await self._deliver(encoded, policy, queue, selector, timeout_ms=timeout_ms)
        born_ms, began_ms = self.clock.now_ms(), self.clock.monotonic_ms()
        result: SendResult | None = None
        failure: BaseException | None = None
        try:
            result = await self._deliver(encoded, policy, queue, selector, timeout_ms=timeout_ms)
            return result
        except BaseException as error:
            failure = error
            raise
        finally:
            took_ms = self.clock.monotonic_ms() - began_ms
            self._run_hooks(encoded, born_ms, took_ms, result, failure)

    def _run_hooks(
        self,
        encoded: EncodedMessage,
        born_ms: int,
        cost_ms: float,
        result: SendResult | None,
        error: BaseException | None,
    ) -> None:
        properties = decode_properties(encoded.properties)
        broker_name = result.message_queue.broker_name if result else ""
        event = SendEvent(
            group=self.group,
            topic=encoded.topic,
            msg_id=encoded.msg_id,
            tags=properties.get(PROPERTY_TAGS, ""),
            keys=properties.get(PROPERTY_KEYS, ""),
            body_bytes=len(encoded.body),
            address=self.instance.routes.master(broker_name) or "",
            message_type=message_type(properties),
            born_ms=born_ms,
            cost_ms=cost_ms,
            result=result,
            error=error,
        )
        run_hooks(self.send_hooks, event, f"{self.group}: a send")

    async def _deliver(
        self,
        encoded: EncodedMessage,
        policy: RetryPolicy,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        *,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Make the attempts of one send; one that stored the message decides about the result.

        **Source:** RocketMQ ``DefaultMQProducerImpl#sendDefaultImpl``.
        """
        clock = self.clock
        limit_ms = self.config.send_msg_timeout_ms if timeout_ms is None else timeout_ms
        deadline_ms = clock.monotonic_ms() + limit_ms
        info = await self.publish_info(encoded.topic)
        fixed = self._choose(info, queue, selector)
        attempts = policy.attempts if fixed is None or policy is self._async else 1
        last: Exception | None = None
        last_queue: MessageQueue | None = None
        stored: SendResult | None = None  # with less durability than asked
        for attempt in range(attempts):
            left_ms = deadline_ms - clock.monotonic_ms()
            if left_ms <= 0:
                break
            chosen = self._next_queue(info, policy, fixed, last_queue)
            others = attempt < attempts - 1 and fixed is None and len(info.broker_names) > 1
            share_ms = policy.attempt_timeout_ms(left_ms, others=others)
            try:
                result = await self._attempt(encoded, chosen, info, share_ms)
            except (BrokerError, RemotingError, ClientError) as error:
                last, last_queue = error, chosen
                if not policy.retries_error(error) or attempt == attempts - 1:
                    if stored is not None:
                        return stored
                    raise
            else:
                final = attempt == attempts - 1
                if final or not policy.retries_status(result.send_status):
                    return result
                last, last_queue, stored = None, chosen, result
        if stored is not None:
            return stored
        raise RequestTimeoutError(
            f"topic {encoded.topic}: no broker stored the message within {limit_ms} ms"
            + (f": {last}" if last is not None else "")
        ) from last

    def _next_queue(
        self,
        info: TopicPublishInfo,
        policy: RetryPolicy,
        fixed: MessageQueue | None,
        last: MessageQueue | None,
    ) -> MessageQueue:
        """Return the queue of an attempt; an asynchronous retry keeps the queue id (U17)."""
        if fixed is not None:
            return fixed
        if last is None:
            return self.faults.select(info, None)
        chosen = self.faults.select(info, last.broker_name, retry=True)
        if policy is self._async and info.write_queue_nums(chosen.broker_name) > last.queue_id:
            return MessageQueue(chosen.topic, chosen.broker_name, last.queue_id)
        return chosen

    async def _attempt(
        self,
        encoded: EncodedMessage,
        queue: MessageQueue,
        info: TopicPublishInfo,
        timeout_ms: float,
    ) -> SendResult:
        with self._recorded_attempt(queue.broker_name):
            address = await self._address(queue, info)
            command = self._request(encoded, queue)
            reply = await self.instance.api.send(
                address, command, accept=SEND_STATUS, timeout_ms=timeout_ms
            )
        return read_send(reply, unwrap_queue(self.client.namespace, queue), encoded.msg_id)

    def _request(self, encoded: EncodedMessage, queue: MessageQueue) -> RemotingCommand:
        return send_request(
            encoded,
            queue,
            self.group,
            self.config,
            born_timestamp_ms=self.clock.now_ms(),
            unit_mode=self.client.unit_mode,
        )

    @contextmanager
    def _recorded_attempt(self, broker_name: str) -> Iterator[None]:
        """Enter latency and outcome of an attempt in the fault table.

        **Source:** RocketMQ ``DefaultMQProducerImpl#updateFaultItem``.
        """
        began_ms = self.clock.monotonic_ms()
        outcome = Outcome.SUCCESS
        try:
            yield
        except BaseException as error:
            outcome = outcome_of(error)
            raise
        finally:
            self.faults.update(broker_name, self.clock.monotonic_ms() - began_ms, outcome)

    async def _address(self, queue: MessageQueue, info: TopicPublishInfo) -> str:
        """Return the master of a queue's broker; ClientError if it has none."""
        address = self.instance.routes.master(queue.broker_name)
        if address is None:
            await self.instance.routes.refresh(info.topic)
            address = self.instance.routes.master(queue.broker_name)
        if address is None:
            raise ClientError(f"broker {queue.broker_name} has no master for topic {info.topic}")
        return address

    async def _detect(self) -> None:
        """Probe brokers in the fault table with a cheap request.

        **Source:** RocketMQ ``LatencyFaultToleranceImpl#detectByOneRound``.
        """
        for name in self.faults.faults.due_for_probe(DETECT_INTERVAL_MS - 1_000):
            address = self.instance.routes.master(name)
            if address is None:
                self.faults.faults.remove(name)
                continue
            try:
                probe = MessageQueue(self.config.create_topic_key, name, 0)
                await self.instance.api.max_offset(address, probe, DETECT_TIMEOUT_MS)
            except (RemotingError, BrokerError):
                continue
            self.faults.faults.set_reachable(name, True)


def message_type(properties: Mapping[str, str]) -> int:
    """Return the ordinal of Java's MessageType (U13).

    **Source:** RocketMQ ``DefaultMQProducerImpl#sendKernelImpl``.
    """
    if properties.get(PROPERTY_TRANSACTION_PREPARED) == "true":
        return TRANS_MSG_HALF
    if PROPERTY_DELAY_TIME_LEVEL in properties or "__STARTDELIVERTIME" in properties:
        return DELAY_MSG
    return NORMAL_MSG


def recall_broker(recall_handle: str) -> str:
    """Return the broker name in a recall handle; ClientError if it is not one.

    The handle is the URL-safe base64 of ``v1 topic broker dueTime uniqKey``.

    **Source:** RocketMQ ``RecallMessageHandle``.
    """
    try:
        parts = base64.urlsafe_b64decode(recall_handle.encode()).decode().split(" ")
    except ValueError:
        parts = []
    if len(parts) != 5 or parts[0] != "v1":
        raise ClientError(
            f"not a recall handle: {recall_handle!r:.200}", "use SendResult.recall_handle"
        )
    return parts[2]
