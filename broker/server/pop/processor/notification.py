"""NOTIFICATION (200054), POLLING_INFO (200055) and PEEK_MESSAGE (200052).

A notification waits like a pop but delivers nothing: it reports that messages can be popped. A peek
returns messages without opening a check point. Topics with many queues are read in slices.

**Source:** RocketMQ NotificationProcessor, PollingInfoProcessor, PeekMessageProcessor.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from broker.common.topic import TopicConfig, pop_retry_topic
from broker.message.receipt_handle import NORMAL_TOPIC, RETRY_TOPIC_V1
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.consumer.pop import (
    NotificationRequestHeader,
    NotificationResponseHeader,
    PeekMessageRequestHeader,
    PollingInfoRequestHeader,
    PollingInfoResponseHeader,
)
from broker.remoting.protocol.header.fields import decode_header_fields, encode_header_fields
from broker.server.context import BrokerContext
from broker.server.pop.long_polling import PollingResult, SuspendedPop
from broker.server.pop.order_info import QueueKey
from broker.server.pop.processor.checks import Reader, check_broker, check_reader
from broker.server.pop.processor.collector import PopCollector
from broker.server.pop.processor.pop import MAX_SUSPEND_MS, QUEUES_AT_ONCE
from broker.server.pop.service import PopService
from broker.server.slices import collect_in_slices
from broker.store.results import GetMessageStatus

if TYPE_CHECKING:
    from broker.remoting.server import Connection

log = logging.getLogger("broker.server")

Answer = RemotingCommand | bytes | None
Reply = Answer | Awaitable[Answer]

MAX_PEEK: Final = 32


class NotificationProcessor:
    """Serves notifications, polling info and peeks; one instance per broker."""

    def __init__(self, context: BrokerContext, pop: PopService) -> None:
        self._context = context
        self._pop = pop
        self._woken: list[SuspendedPop] = []
        self._tasks: set[asyncio.Future[None]] = set()
        pop.notify = self.arrived

    # ---- notification

    def notification(self, connection: "Connection", request: RemotingCommand) -> Reply:
        """NOTIFICATION: report whether messages can be popped, at once or when one arrives."""
        header = decode_header_fields(NotificationRequestHeader, request.ext_fields)
        refusal = check_broker(self._context, request, "peeking")
        if refusal is not None:
            return refusal
        topic = check_reader(self._context, request, header)
        if isinstance(topic, RemotingCommand):
            return topic
        retries = self._retry_queues(header)
        found = self._look(header, self._walk(header, topic, retries))
        waiting = self._request_to_wait(connection, request, header)
        if _queue_count(header, topic, retries) > QUEUES_AT_ONCE:
            return self._look_in_slices(request, header.topic, found, waiting)
        if any(found):
            return _notified(request, has_message=True)
        outcome = self._suspend(header.topic, waiting)
        if outcome is PollingResult.SUSPENDED:
            return None
        return _notified(request, has_message=False, full=outcome is PollingResult.FULL)

    async def _look_in_slices(
        self, request: RemotingCommand, topic: str, found: Iterator[bool], waiting: SuspendedPop
    ) -> Answer:
        """Look at many queues; other requests are served between the slices.

        The notification waits before the first queue is read: a message that arrives in a queue
        already read wakes it, and the rest of the queues is left to the execution that follows.
        """
        outcome = self._suspend(topic, waiting)
        suspended = outcome is PollingResult.SUSPENDED
        has_message = await _any_in_slices(found, waiting if suspended else None)
        if not suspended:
            full = outcome is PollingResult.FULL and not has_message
            return _notified(request, has_message=has_message, full=full)
        if has_message and self._pop.notifications.withdraw(waiting):
            return _notified(request, has_message=True)
        return None

    def _look(
        self, header: NotificationRequestHeader, queues: Iterator[tuple[str, int]]
    ) -> Iterator[bool]:
        """Yield per queue whether messages of it can be popped."""
        now_ms, orders = self._context.now_ms(), self._pop.orders
        for name, queue_id in queues:
            key = (name, header.consumer_group, queue_id)
            if header.order and orders.blocked(*key, now_ms, header.attempt_id):
                yield False
            else:
                yield self._pop.offsets.rest(key, self._pop.offsets.peek_offset(key)) > 0

    def _request_to_wait(
        self,
        connection: "Connection",
        request: RemotingCommand,
        header: NotificationRequestHeader,
    ) -> SuspendedPop:
        now_ms = self._context.now_ms()
        born_ms = header.born_time or now_ms
        left_ms = min(born_ms + header.poll_time - now_ms, header.poll_time, MAX_SUSPEND_MS)
        ext = {**request.ext_fields, "bornTime": str(born_ms)}
        kept = msgspec.structs.replace(request, ext_fields=ext, body=b"", remark=None, extra=None)
        waiting = SuspendedPop(connection, kept, header.consumer_group, header.queue_id)
        waiting.deadline_ms = self._context.clock.monotonic_ms() + left_ms
        return waiting

    def _suspend(self, topic: str, waiting: SuspendedPop) -> PollingResult:
        monotonic_ms = self._context.clock.monotonic_ms()
        outcome = self._pop.notifications.suspend(topic, waiting, monotonic_ms)
        if outcome is PollingResult.SUSPENDED:
            self._pop.schedule()
        return outcome

    def arrived(self, waiting: list[SuspendedPop]) -> None:
        """Execute these notifications again at the end of this event-loop iteration."""
        if not waiting:
            return
        first = not self._woken
        self._woken += waiting
        if first:
            self._context.soon(self._answer_woken)

    def _answer_woken(self) -> None:
        woken, self._woken = self._woken, []
        for waiting in woken:
            connection = waiting.connection
            if connection.closed:
                continue
            try:
                answer = self.notification(connection, waiting.request)
            except Exception as error:  # the others still get their responses
                answer = _failed(waiting, error)
            if isinstance(answer, Awaitable):
                task = asyncio.ensure_future(self._send_later(waiting, answer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            elif answer is not None and not waiting.request.is_oneway:
                connection.send(answer)

    async def _send_later(self, waiting: SuspendedPop, pending: Awaitable[Answer]) -> None:
        """Send the response of a woken notification that is executed in slices."""
        try:
            answer = await pending
        except Exception as error:  # the client still gets a response
            answer = _failed(waiting, error)
        if answer is not None and not waiting.request.is_oneway:
            waiting.connection.send(answer)

    # ---- polling info and peek

    def polling_info(self, connection: "Connection", request: RemotingCommand) -> Answer:
        """POLLING_INFO: the number of pops that wait for a queue (-1: any) in one group."""
        header = decode_header_fields(PollingInfoRequestHeader, request.ext_fields)
        refusal = check_broker(self._context, request, "peeking")
        if refusal is not None:
            return refusal
        topic = check_reader(self._context, request, header)
        if isinstance(topic, RemotingCommand):
            return topic
        number = self._pop.pops.waiting(header.topic, header.consumer_group, header.queue_id)
        ext = encode_header_fields(PollingInfoResponseHeader(polling_num=number))
        return response(request, ext=ext)

    def peek(self, connection: "Connection", request: RemotingCommand) -> Reply:
        """PEEK_MESSAGE: the messages that the next pop would deliver; they stay visible."""
        header = decode_header_fields(PeekMessageRequestHeader, request.ext_fields)
        refusal = check_broker(self._context, request, "peeking")
        if refusal is not None:
            return refusal
        topic = check_reader(self._context, request, header)
        if isinstance(topic, RemotingCommand):
            return topic
        limit_bytes = self._context.store.config.max_transfer_bytes_on_message_in_memory
        count = max(1, min(header.max_msg_nums, MAX_PEEK))
        collector = PopCollector(0, 0, 0, (count, limit_bytes))
        retries = self._retry_queues(header)
        steps = self._peek_steps(header, self._walk(header, topic, retries), collector)
        if _queue_count(header, topic, retries) > QUEUES_AT_ONCE:
            return _peek_in_slices(request, steps, collector)
        for _ in steps:
            pass
        return _peeked(request, collector)

    def _peek_steps(
        self,
        header: PeekMessageRequestHeader,
        queues: Iterator[tuple[str, int]],
        collector: PopCollector,
    ) -> Iterator[None]:
        """Peek at one queue per step."""
        for name, queue_id in queues:
            self._peek_queue(collector, (name, header.consumer_group, queue_id), header.topic)
            yield

    def _peek_queue(self, collector: PopCollector, key: QueueKey, normal: str) -> None:
        offset = self._pop.offsets.peek_offset(key)
        rest = self._pop.offsets.rest(key, offset)
        collector.rest += max(0, rest)
        if collector.full or rest <= 0:
            return
        store = self._context.store
        result = store.get_message(key[0], key[2], offset, collector.limit - collector.count)
        if result.status is GetMessageStatus.OFFSET_TOO_SMALL:
            offset = result.next_begin_offset
            result = store.get_message(key[0], key[2], offset, collector.limit - collector.count)
        if result.message_count:
            flag = NORMAL_TOPIC if key[0] == normal else RETRY_TOPIC_V1
            collector.add(flag, key[2], offset, result)

    def _retry_queues(self, header: Reader) -> dict[str, int]:
        """Return the retry topics of a group with the number of their queues."""
        config = self._context.config
        names = [
            pop_retry_topic(header.topic, header.consumer_group, version_2=version_2)
            for version_2 in (config.enable_retry_topic_v2, False)
        ]
        return {
            name: found.read_queue_nums
            for name in dict.fromkeys(names)
            if (found := self._context.topics.get(name)) is not None
        }

    def _walk(
        self, header: Reader, topic: TopicConfig, retries: dict[str, int]
    ) -> Iterator[tuple[str, int]]:
        """Yield (topic, queue) in the order of a pop: the retry topics first or last."""
        drawn = random.randrange(100)
        if drawn % 5 == 0:
            yield from _queues(retries)
        if header.queue_id < 0:
            for step in range(topic.read_queue_nums):
                yield header.topic, (drawn + step) % topic.read_queue_nums
        else:
            yield header.topic, header.queue_id
        if drawn % 5:
            yield from _queues(retries)


def _queues(topics: dict[str, int]) -> Iterator[tuple[str, int]]:
    return ((name, queue_id) for name, count in topics.items() for queue_id in range(count))


def _queue_count(header: Reader, topic: TopicConfig, retries: dict[str, int]) -> int:
    return sum(retries.values()) + (topic.read_queue_nums if header.queue_id < 0 else 1)


async def _any_in_slices(found: Iterator[bool], waiting: SuspendedPop | None) -> bool:
    """Return whether one of ``found`` is true; stop at it, or when ``waiting`` was woken."""

    def until_decided() -> Iterator[bool]:
        for one in found:
            if waiting is not None and not waiting.waiting:
                return
            yield one
            if one:
                return

    return any(await collect_in_slices(until_decided(), QUEUES_AT_ONCE))


async def _peek_in_slices(
    request: RemotingCommand, steps: Iterator[None], collector: PopCollector
) -> Answer:
    await collect_in_slices(steps, QUEUES_AT_ONCE)
    return _peeked(request, collector)


def _peeked(request: RemotingCommand, collector: PopCollector) -> Answer:
    found = collector.count > 0
    status = GetMessageStatus.FOUND if found else GetMessageStatus.NO_MESSAGE_IN_QUEUE
    code = ResponseCode.SUCCESS if found else ResponseCode.PULL_NOT_FOUND
    return collector.peeked(request, code, status.name)


def _failed(waiting: SuspendedPop, error: Exception) -> RemotingCommand:
    log.error("notification of group %s failed", waiting.group, exc_info=error)
    remark = f"{type(error).__name__}: {error}"
    return response(waiting.request, ResponseCode.SYSTEM_ERROR, remark)


def _notified(
    request: RemotingCommand, *, has_message: bool, full: bool = False
) -> RemotingCommand:
    header = NotificationResponseHeader(has_msg=has_message, polling_full=full)
    return response(request, ext=encode_header_fields(header))
