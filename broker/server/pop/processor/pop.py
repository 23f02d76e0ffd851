"""POP_MESSAGE (200050): deliver messages of any queue to one member of a group, for a time.

::

    checks ─ filter ─ retry topic (one pop in five) ─ queues from a random one on ─ retry topic
                                  └─ nothing found: suspended, executed again when a message
                                     arrives or the deadline is reached

**Source:** RocketMQ PopMessageProcessor.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from broker.common.subscription import is_tag_type
from broker.common.topic import TopicConfig, pop_retry_topic
from broker.errors import RocketMQError
from broker.message.check_point import PopCheckPoint
from broker.message.receipt_handle import (
    NORMAL_TOPIC,
    ORDER_REVIVE_QUEUE_ID,
    RETRY_TOPIC_V1,
    RETRY_TOPIC_V2,
    ReceiptHandle,
    offset_count_item,
    queue_count_item,
)
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.consumer.pop import (
    PopMessageRequestHeader,
    PopMessageResponseHeader,
)
from broker.remoting.protocol.header.fields import decode_header_fields, encode_header_fields
from broker.server import stats as counted
from broker.server.context import BrokerContext
from broker.server.filter.message_filter import EVERYTHING, Matcher
from broker.server.pop.long_polling import LATE_MS, PollingResult, SuspendedPop
from broker.server.pop.order_info import OrderInfo, QueueKey
from broker.server.pop.pop_offsets import INIT_MAX
from broker.server.pop.processor.checks import check_broker, check_reader
from broker.server.pop.processor.collector import PopCollector, message_offsets
from broker.server.pop.processor.flushed_replies import FlushedReplies
from broker.server.pop.service import PopService
from broker.server.slices import collect_in_slices
from broker.store.results import GetMessageResult, GetMessageStatus

if TYPE_CHECKING:
    from broker.remoting.server import Connection

log = logging.getLogger("broker.server")

Answer = RemotingCommand | bytes | None
Reply = Answer | Awaitable[Answer]

QUEUES_AT_ONCE: Final = 512  # of one topic, about 5 ms; more of them are popped in slices
MAX_MESSAGES: Final = 32
POLLING_FULL_REMARK: Final = "too many pops are waiting (popPollingSize, maxPopPollingSize)"
MAX_SUSPEND_MS: Final = 120_000  # a longer suspension would hit the idle timeout of the connection

_WRONG_OFFSET: Final = {
    GetMessageStatus.OFFSET_TOO_SMALL,
    GetMessageStatus.OFFSET_OVERFLOW_BADLY,
    GetMessageStatus.OFFSET_FOUND_NULL,
}
_NOTHING_TO_DELIVER: Final = {
    GetMessageStatus.NO_MATCHED_MESSAGE,
    GetMessageStatus.OFFSET_FOUND_NULL,
    GetMessageStatus.MESSAGE_WAS_REMOVING,
}


class PopMessageProcessor:
    """Serves pops; one instance per broker. ``draw()`` returns a random number below 100."""

    def __init__(self, context: BrokerContext, pop: PopService) -> None:
        self._context = context
        self._pop = pop
        self._flushed = FlushedReplies(lambda: context.durability, context.soon)
        self._woken: list[SuspendedPop] = []
        self._tasks: set[asyncio.Future[None]] = set()
        self.draw: Callable[[], int] = _draw
        pop.wake = self.arrived

    def pop(self, connection: "Connection", request: RemotingCommand) -> Reply:
        """POP_MESSAGE, first execution."""
        return self._execute(connection, request)

    # ---- suspended pops

    def arrived(self, pops: list[SuspendedPop]) -> None:
        """Execute these pops again at the end of this event-loop iteration."""
        if not pops:
            return
        first = not self._woken
        self._woken += pops
        if first:
            self._context.soon(self._answer_woken)

    def _answer_woken(self) -> None:
        woken, self._woken = self._woken, []
        self.resume(woken)

    def resume(self, pops: list[SuspendedPop]) -> None:
        """Execute suspended pops again: until their deadline they may be suspended once more."""
        for pop in pops:
            connection = pop.connection
            if connection.closed:
                continue
            try:
                answer = self._execute(connection, pop.request)
            except Exception as error:  # the other pops still get their responses
                log.error("suspended pop of group %s failed", pop.group, exc_info=error)
                remark = f"{type(error).__name__}: {error}"
                answer = response(pop.request, ResponseCode.SYSTEM_ERROR, remark)
            if isinstance(answer, Awaitable):
                task = asyncio.ensure_future(self._send_later(pop, answer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            elif answer is not None and not pop.request.is_oneway:
                connection.send(answer)

    async def _send_later(self, pop: SuspendedPop, pending: Awaitable[Answer]) -> None:
        """Send the response of a suspended pop that is executed in slices."""
        try:
            answer = await pending
        except Exception as error:  # the client still gets a response
            log.error("suspended pop of group %s failed", pop.group, exc_info=error)
            remark = f"{type(error).__name__}: {error}"
            answer = response(pop.request, ResponseCode.SYSTEM_ERROR, remark)
        if isinstance(answer, RemotingCommand) and not pop.request.is_oneway:
            pop.connection.send(answer)

    # ---- one execution

    def _execute(self, connection: "Connection", request: RemotingCommand) -> Reply:
        context, pop = self._context, self._pop
        now_ms = context.now_ms()
        header = decode_header_fields(PopMessageRequestHeader, request.ext_fields)
        born_ms = header.born_time or now_ms
        refusal = self._refuse(request, header, born_ms, now_ms)
        if refusal is not None:
            return _without_messages(refusal)
        topic = check_reader(context, request, header)
        if isinstance(topic, RemotingCommand):
            return _without_messages(topic)
        matcher = self._matcher(request, header)
        if isinstance(matcher, RemotingCommand):
            return _without_messages(matcher)
        revive_queue_id = ORDER_REVIVE_QUEUE_ID if header.order else pop.topic.next_queue()
        limit_bytes = context.store.config.max_transfer_bytes_on_message_in_memory
        collector = PopCollector(
            now_ms,
            header.invisible_time,
            revive_queue_id,
            (header.max_msg_nums, limit_bytes),
        )
        steps = self._steps(header, topic, collector, matcher)
        if self._queue_count(header, topic) > QUEUES_AT_ONCE:
            return self._execute_in_slices(connection, request, (header, collector, matcher), steps)
        for _ in steps:
            pass
        return self._conclude(connection, request, header, collector, matcher)

    async def _execute_in_slices(
        self,
        connection: "Connection",
        request: RemotingCommand,
        parts: tuple[PopMessageRequestHeader, PopCollector, Matcher],
        steps: Iterator[None],
    ) -> Answer:
        """Pop from a topic with many queues; other requests are served between the slices."""
        begin = self._context.store.max_physical_offset
        await collect_in_slices(steps, QUEUES_AT_ONCE)
        if self._context.store.max_physical_offset != begin:
            # Perhaps for a queue that was looked at before: a suspended pop would not see it.
            parts[1].moved = True
        return self._conclude(connection, request, *parts)

    def _steps(
        self,
        header: PopMessageRequestHeader,
        topic: TopicConfig,
        collector: PopCollector,
        matcher: Matcher,
    ) -> Iterator[None]:
        """Pop from one queue per step, or look for retried messages in it."""
        for queue in self._walk(header, topic, collector, self.draw()):
            if queue is not None:
                name, queue_id, flag = queue
                key = (name, header.consumer_group, queue_id)
                self._pop_queue(collector, header, key, flag, matcher)
            yield

    def _queue_count(self, header: PopMessageRequestHeader, topic: TopicConfig) -> int:
        """Return the largest number of queues that this pop reads of one topic."""
        count = topic.read_queue_nums if header.queue_id < 0 else 1
        for version_2 in (False, True):
            name = pop_retry_topic(header.topic, header.consumer_group, version_2=version_2)
            if (retries := self._context.topics.get(name)) is not None:
                count = max(count, retries.read_queue_nums)
        return count

    def _conclude(
        self,
        connection: "Connection",
        request: RemotingCommand,
        header: PopMessageRequestHeader,
        collector: PopCollector,
        matcher: Matcher,
    ) -> Answer:
        """Answer with the collected messages, or suspend the pop."""
        pop = self._pop
        status = GetMessageStatus.FOUND if collector.count else GetMessageStatus.NO_MESSAGE_IN_QUEUE
        if collector.count:
            if collector.rest > 0:
                self._wake_next(header)
            reply = collector.reply(request, ResponseCode.SUCCESS, status.name)
            return self._flushed.hold(connection, reply, pop.topic.written_end)
        if collector.failure:
            return response(request, ResponseCode.SYSTEM_ERROR, collector.failure)
        return self._suspend(connection, request, header, collector, matcher)

    def _suspend(
        self,
        connection: "Connection",
        request: RemotingCommand,
        header: PopMessageRequestHeader,
        collector: PopCollector,
        matcher: Matcher,
    ) -> Answer:
        context, pop = self._context, self._pop
        now_ms = context.now_ms()
        born_ms = header.born_time or now_ms
        left_ms = min(born_ms + header.poll_time - now_ms, header.poll_time, MAX_SUSPEND_MS)
        ext = {**request.ext_fields, "bornTime": str(born_ms)}
        kept = msgspec.structs.replace(request, ext_fields=ext, body=b"", remark=None, extra=None)
        waiting = SuspendedPop(connection, kept, header.consumer_group, header.queue_id)
        waiting.matcher = matcher
        monotonic_ms = context.clock.monotonic_ms()
        waiting.deadline_ms = monotonic_ms + left_ms
        outcome = pop.pops.suspend(header.topic, waiting, monotonic_ms)
        if outcome is PollingResult.SUSPENDED:
            pop.schedule()
            if collector.moved:
                self._wake_next(header)  # the filter has rejected part of the backlog: read on
            return None
        if outcome is PollingResult.FULL:
            return collector.reply(request, ResponseCode.POLLING_FULL, POLLING_FULL_REMARK)
        remark = GetMessageStatus.NO_MESSAGE_IN_QUEUE.name
        return collector.reply(request, ResponseCode.POLLING_TIMEOUT, remark)

    def _wake_next(self, header: PopMessageRequestHeader) -> None:
        """Wake another request of the same key: there are more messages for it."""
        self.arrived(self._pop.pops.wake(header.topic, header.consumer_group, header.queue_id))

    def _walk(
        self,
        header: PopMessageRequestHeader,
        topic: TopicConfig,
        collector: PopCollector,
        drawn: int,
    ) -> Iterator[tuple[str, int, str] | None]:
        """Yield (topic, queue, retry flag) in the order of the pop; None: looked for a retry."""
        config = self._context.config
        retry_first = drawn < config.pop_from_retry_probability
        if retry_first and not header.order:
            yield from self._retry_queues(header, drawn)
        if header.queue_id < 0:
            count = topic.read_queue_nums
            for step in range(count):
                yield header.topic, (drawn + step) % count, NORMAL_TOPIC
        else:
            yield header.topic, header.queue_id, NORMAL_TOPIC
        if not retry_first and not header.order and not collector.full:
            yield from self._retry_queues(header, drawn)

    def _retry_queues(
        self, header: PopMessageRequestHeader, drawn: int
    ) -> Iterator[tuple[str, int, str] | None]:
        """Yield the queues of the retry topic; with version 2 every other pop takes version 1.

        One pop takes one version, as in Java, but not the empty one of the two: Java may miss a
        message that way until the next pop.
        """
        config, group = self._context.config, header.consumer_group
        versions = [config.enable_retry_topic_v2]
        if config.enable_retry_topic_v2 and config.retrieve_message_from_pop_retry_topic_v1:
            versions = [False, True] if drawn % 2 == 0 else [True, False]
        for version_2 in versions:
            name = pop_retry_topic(header.topic, group, version_2=version_2)
            topic = self._context.topics.get(name)
            count = topic.read_queue_nums if topic is not None else 0
            offsets = self._pop.offsets
            for queue_id in range(count):
                key = (name, group, queue_id)
                if offsets.rest(key, offsets.peek_offset(key)) > 0:
                    break
                yield None
            else:
                continue
            flag = RETRY_TOPIC_V2 if version_2 else RETRY_TOPIC_V1
            for step in range(count):
                yield name, (drawn + step) % count, flag
            return

    # ---- one queue

    def _pop_queue(
        self,
        collector: PopCollector,
        header: PopMessageRequestHeader,
        key: QueueKey,
        flag: str,
        matcher: Matcher,
    ) -> None:
        """Pop messages of one queue into the collector."""
        pop, store = self._pop, self._context.store
        topic, group, queue_id = key
        if self._too_many_in_flight(key):
            collector.rest += pop.offsets.rest(key, pop.offsets.peek_offset(key))
            return
        offset = pop.offsets.next_offset(key, header.init_mode)
        if header.order:
            attempt = header.attempt_id
            if pop.orders.blocked(topic, group, queue_id, collector.pop_time, attempt):
                return  # its backlog is not counted: it cannot be delivered now
            pop.in_flight.clear(topic, group, queue_id)
        if collector.full or collector.failure:
            collector.rest += pop.offsets.rest(key, offset)
            return
        if offset == store.get_max_offset(topic, queue_id):
            return
        left = collector.limit - collector.count
        result = self._get(key, offset, left, matcher)
        if result.status in _WRONG_OFFSET:
            offset = result.next_begin_offset
            self._context.offsets.commit(group, topic, queue_id, offset)
            result = self._get(key, offset, left, matcher)
        if result.message_count:
            self._deliver(collector, header, (key, offset, flag), result)
        elif result.status in _NOTHING_TO_DELIVER and result.next_begin_offset > offset:
            collector.moved = True
            if header.order:
                self._context.offsets.commit(group, topic, queue_id, result.next_begin_offset)
            else:
                empty = _check_point(header, key, (collector.pop_time, offset), [])
                pop.skip_to(empty, result.next_begin_offset)
        collector.rest += max(0, result.max_offset - result.next_begin_offset)

    def _get(self, key: QueueKey, offset: int, count: int, matcher: Matcher) -> GetMessageResult:
        return self._context.store.get_message(
            key[0], key[2], offset, count, matcher=matcher.tags, record_matcher=matcher.properties
        )

    def _deliver(
        self,
        collector: PopCollector,
        header: PopMessageRequestHeader,
        place: tuple[QueueKey, int, str],
        result: GetMessageResult,
    ) -> None:
        """Record the delivery of messages, then add them to the collector."""
        pop = self._pop
        key, start, flag = place
        offsets = message_offsets(result)
        if header.order:
            self._record_batch(collector, header, place, offsets)
        else:
            ck = _check_point(header, key, (collector.pop_time, start), offsets)
            ck.broker_name = self._context.config.broker_name
            failure = pop.open_check_point(ck, collector.revive_queue_id, result.next_begin_offset)
            if failure:
                collector.failure = f"the check point is not written: {failure}"
                collector.rest += result.message_count
                return
        self._count(key, result)
        if flag == NORMAL_TOPIC:
            collector.add(flag, key[2], start, result)
            return
        shown = header.topic
        if self._context.config.pop_response_return_actual_retry_topic:
            shown = key[0]
        handle = ReceiptHandle(
            start,
            collector.pop_time,
            header.invisible_time,
            collector.revive_queue_id,
            flag,
            self._context.config.broker_name,
            key[2],
        )
        collector.add_retried(handle, shown, result)

    def _record_batch(
        self,
        collector: PopCollector,
        header: PopMessageRequestHeader,
        place: tuple[QueueKey, int, str],
        offsets: list[int],
    ) -> None:
        """Record the batch of an ordered pop; the committed offset stays at its start."""
        (topic, group, queue_id), start, flag = place
        batch = self._pop.orders.update(
            topic,
            group,
            queue_id,
            OrderInfo(
                pop_time=collector.pop_time,
                invisible_time=header.invisible_time,
                offsets=offsets,
                attempt_id=header.attempt_id,
                last_consume_ms=collector.pop_time,
            ),
        )
        counts = batch.consumed or {}
        collector.counts += [
            offset_count_item(flag, queue_id, offset, count) for offset, count in counts.items()
        ]
        # Old clients read the count by queue: 0 if a message of the batch is new.
        least = min(counts.values()) if len(counts) == len(offsets) else 0
        collector.counts.append(queue_count_item(flag, queue_id, least))
        self._context.offsets.commit(group, topic, queue_id, start)
        self._pop.in_flight.add(topic, group, queue_id, len(offsets))
        self._pop.schedule()

    def _too_many_in_flight(self, key: QueueKey) -> bool:
        config = self._context.config
        return (
            config.enable_pop_message_threshold
            and self._pop.in_flight.get(*key) > config.pop_inflight_message_threshold
        )

    def _count(self, key: QueueKey, result: GetMessageResult) -> None:
        stats, name = self._context.stats, f"{key[0]}@{key[1]}"
        stats.counter(counted.GROUP_GET_NUMS, name).add(result.message_count)
        stats.counter(counted.GROUP_GET_SIZE, name).add(result.total_bytes)
        stats.counter(counted.GROUP_POP_NUMS, name).add(result.message_count)
        stats.counter(counted.GROUP_POP_SIZE, name).add(result.total_bytes)
        stats.get_found.add(1)
        stats.get_messages.add(result.message_count)

    # ---- checks and filter

    def _refuse(
        self,
        request: RemotingCommand,
        header: PopMessageRequestHeader,
        born_ms: int,
        now_ms: int,
    ) -> RemotingCommand | None:
        """Return the refusal by time, broker or parameters, in Java's order."""
        address = self._context.address
        if now_ms - born_ms - header.poll_time > LATE_MS:
            remark = f"the broker[{address}] pop message is timeout too much"
            return response(request, ResponseCode.POLLING_TIMEOUT, remark)
        refusal = check_broker(self._context, request, "pop")
        if refusal is not None:
            return refusal
        if not 0 < header.max_msg_nums <= MAX_MESSAGES:
            remark = (
                f"the broker[{address}] pop message's num {header.max_msg_nums} is not between 1 "
                f"and {MAX_MESSAGES}"
            )
            return response(request, ResponseCode.INVALID_PARAMETER, remark)
        if header.invisible_time < 0 or header.init_mode not in (0, INIT_MAX):
            remark = f"invisibleTime {header.invisible_time}, initMode {header.init_mode}: invalid"
            return response(request, ResponseCode.INVALID_PARAMETER, remark)
        if not self._pop.parts.timer.available:
            remark = (
                f"the broker[{address}] pop message is forbidden because timerWheelEnable is false"
            )
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        return None

    def _matcher(
        self, request: RemotingCommand, header: PopMessageRequestHeader
    ) -> Matcher | RemotingCommand:
        """Return the filter of this pop, or a refusal."""
        expression, kind = header.exp or "*", header.exp_type or "TAG"
        if expression == "*" and is_tag_type(kind):
            return EVERYTHING
        if not is_tag_type(kind) and not self._context.config.enable_property_filter:
            remark = f"The broker does not support consumer to filter message by {kind}"
            return response(request, ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark)
        try:
            return self._context.matchers.get(kind, expression)
        except RocketMQError as error:
            remark = f"parse the consumer's subscription failed: {error.message}"
            return response(request, ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark)


NO_MESSAGES: Final = encode_header_fields(
    PopMessageResponseHeader(pop_time=0, invisible_time=0, revive_qid=0, rest_num=0)
)


def _without_messages(refusal: RemotingCommand) -> RemotingCommand:
    """Add the numbers of a response without messages: Java's client reads them at any code."""
    refusal.ext_fields.update(NO_MESSAGES)
    return refusal


def _draw() -> int:
    return random.randrange(100)


def _check_point(
    header: PopMessageRequestHeader, key: QueueKey, at: tuple[int, int], offsets: list[int]
) -> PopCheckPoint:
    topic, group, queue_id = key
    pop_time, start = at
    return PopCheckPoint(
        topic=topic,
        group=group,
        queue_id=queue_id,
        start_offset=start,
        pop_time=pop_time,
        invisible_time=header.invisible_time,
        broker_name=None,
        count=len(offsets),
        diffs=[offset - start for offset in offsets],
    )
