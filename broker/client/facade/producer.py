"""Producer: sends messages with blocking calls.

**Source:** RocketMQ ``DefaultMQProducer``.
"""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, wait

from broker.client.config import ClientConfig, ProducerConfig
from broker.client.facade.blocking_facade import BlockingFacade
from broker.client.hooks.events import SendHook
from broker.client.latency.fault_tolerance import LatencyFaultTolerance
from broker.client.publish.async_producer import AsyncProducer, QueueSelector
from broker.client.results import SendResult
from broker.common.message_queue import MessageQueue
from broker.message.message import Message, MessageExt

MAX_STARTING = 256
"""Asynchronous sends handed to the event loop ahead of its back-pressure."""


class Producer(BlockingFacade):
    """Sends messages to any topic, from any thread.

    >>> with Producer("orders", namesrv) as producer:
    ...     producer.send(Message("T", b"hello", tags="A")).send_status
    <SendStatus.SEND_OK: 'SEND_OK'>
    """

    def __init__(
        self,
        group: str,
        client: ClientConfig | str,
        config: ProducerConfig | None = None,
        *,
        topics: Iterable[str] = (),
    ) -> None:
        """``topics``: those whose brokers know the group from the start on, as in Java 5.x."""
        self._producer = AsyncProducer(group, client, config, topics=topics)
        super().__init__(self._producer)
        self._starting: deque[Future[None]] = deque()

    @property
    def faults(self) -> LatencyFaultTolerance:
        """The fault table; ``print(producer.faults)`` shows it."""
        return self._producer.faults.faults

    @property
    def send_hooks(self) -> list[SendHook]:
        """The hooks called after each send, on the event loop."""
        return self._producer.send_hooks

    def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send and wait for the result; see :meth:`AsyncProducer.send`."""
        return self._loop.run(
            self._producer.send(message, queue=queue, selector=selector, timeout_ms=timeout_ms)
        )

    def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        timeout_ms: int | None = None,
    ) -> SendResult:
        """Send several messages of one topic in one request."""
        return self._loop.run(
            self._producer.send_batch(messages, queue=queue, timeout_ms=timeout_ms)
        )

    def send_async(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        timeout_ms: int | None = None,
    ) -> "Future[SendResult]":
        """Start a send; the future gets the result. Blocks while too much is in flight.

        An invalid message is reported through the future as well. A cancelled future gets no
        result, although its message may have been stored.
        """
        future: Future[SendResult] = Future()

        async def send() -> None:
            task = await self._producer.send_async(
                message, queue=queue, selector=selector, timeout_ms=timeout_ms
            )
            task.add_done_callback(lambda done: _copy(done, future))

        started = self._loop.submit(send())
        if len(self._starting) >= MAX_STARTING:
            wait([self._starting.popleft()])
        self._starting.append(started)
        started.add_done_callback(lambda done: _fail(done, future))
        return future

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
    ) -> None:
        """Send without waiting for an answer."""
        self._loop.run(self._producer.send_oneway(message, queue=queue, selector=selector))

    def request(self, message: Message, *, timeout_ms: int) -> MessageExt:
        """Send a request and wait for the reply of its consumer."""
        return self._loop.run(self._producer.request(message, timeout_ms=timeout_ms))

    def recall(self, topic: str, recall_handle: str) -> str:
        """Cancel a delayed message; returns its message id."""
        return self._loop.run(self._producer.recall(topic, recall_handle))

    def fetch_publish_queues(self, topic: str) -> Sequence[MessageQueue]:
        """Return the queues of a topic that can be written."""
        return self._loop.run(self._producer.fetch_publish_queues(topic))


def _copy(done: "asyncio.Future[SendResult]", future: "Future[SendResult]") -> None:
    """Copy the end of a task to the caller's future."""
    if done.cancelled():
        future.cancel()
        return
    if not future.set_running_or_notify_cancel():
        return
    error = done.exception()
    if error is None:
        future.set_result(done.result())
    else:
        future.set_exception(error)


def _fail(started: "Future[None]", future: "Future[SendResult]") -> None:
    """Report a send that could not be started."""
    error = started.exception()
    if error is not None and future.set_running_or_notify_cancel():
        future.set_exception(error)
