"""ConsumeConcurrentlyService: listeners called in any order, several at once.

A failed message is sent back and delivered again later; the others are not held up.

**Source:** RocketMQ ``ConsumeMessageConcurrentlyService``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Sequence
from functools import partial
from typing import Any

from broker.client.config import ConsumerConfig, MessageModel
from broker.client.consumer.process_queue import ProcessQueue, StartMark
from broker.client.hooks.consume_hooks import ConsumeHooks, code_of
from broker.client.hooks.events import ConsumeHook
from broker.client.listener.listener_pool import ListenerPool, is_coroutine_listener
from broker.client.listener.listeners import ConcurrentListener, ConsumeConcurrentlyContext
from broker.client.listener.send_back import FIRST_RETRY_LEVEL, SendBack
from broker.client.listener.stats import ConsumerStats
from broker.client.offset.offset_store import OffsetStore
from broker.client.results import ConsumeConcurrentlyStatus
from broker.common.clock import Clock
from broker.common.message_queue import MessageQueue
from broker.message.message import PROPERTY_CONSUME_START_TIMESTAMP, MessageExt

log = logging.getLogger("broker.client")

AGAIN_LATER_S = 5.0
"""A message that could be sent back neither way is consumed here again after this time."""

MAX_EXPIRED_PER_SCAN = 16


class ConsumeConcurrentlyService:
    """Calls the listener with pulled messages and turns results into commits and send-backs."""

    orderly = False

    def __init__(
        self,
        listener: ConcurrentListener,
        config: ConsumerConfig,
        *,
        group: str,
        clock: Clock,
        offsets: OffsetStore,
        send_back: SendBack,
        stats: ConsumerStats,
        hooks: list[ConsumeHook] | None = None,
    ) -> None:
        self.listener = listener
        self._config = config
        self._group = group
        self._clock = clock
        self._offsets = offsets
        self._send_back = send_back
        self._stats = stats
        self._pool: ListenerPool[ConsumeConcurrentlyStatus] = ListenerPool(
            config.consume_threads,
            name=f"ConsumeMessageThread_{group}",
            coroutines=is_coroutine_listener(listener),
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._hooks = ConsumeHooks(group, clock, [] if hooks is None else hooks)

    def dispatch(
        self, messages: Sequence[MessageExt], process: ProcessQueue, queue: MessageQueue
    ) -> None:
        """Submit pulled messages, in calls of at most ``consume_message_batch_max_size``."""
        size = self._config.consume_message_batch_max_size
        for start in range(0, len(messages), size):
            self._submit(messages[start : start + size], process, queue)

    def _submit(
        self, messages: Sequence[MessageExt], process: ProcessQueue, queue: MessageQueue
    ) -> None:
        context = ConsumeConcurrentlyContext(message_queue=queue)
        mark = StartMark()
        process.begin(messages, mark)
        self._pool.submit(
            partial(self._call, messages, context, mark),
            partial(self._done, messages, process, context, mark),
        )

    def _call(
        self,
        messages: Sequence[MessageExt],
        context: ConsumeConcurrentlyContext,
        mark: StartMark,
    ) -> "ConsumeConcurrentlyStatus | Awaitable[ConsumeConcurrentlyStatus]":
        mark.ms = self._clock.monotonic_ms()
        started = str(self._clock.now_ms())
        for message in messages:
            message.properties[PROPERTY_CONSUME_START_TIMESTAMP] = started
        mark.request_id = self._hooks.before(messages, context.message_queue)
        return self.listener(messages, context)

    def _done(
        self,
        messages: Sequence[MessageExt],
        process: ProcessQueue,
        context: ConsumeConcurrentlyContext,
        mark: StartMark,
        result: ConsumeConcurrentlyStatus | BaseException,
    ) -> None:
        if isinstance(result, asyncio.CancelledError):
            return  # the consumer stops: the message stays unfinished and is delivered again
        now_ms = self._clock.monotonic_ms()
        process.last_consume_ms = now_ms
        consumed = self._consumed_count(messages, context, result)
        failed = len(messages) - consumed
        took_ms = 0.0 if mark.ms is None else now_ms - mark.ms
        self._stats.consumed(context.message_queue.topic, consumed, failed, took_ms)
        self._hooks.after(
            mark.request_id,
            messages,
            context.message_queue,
            cost_ms=took_ms,
            code=code_of(
                result,
                ConsumeConcurrentlyStatus.CONSUME_SUCCESS,
                cost_ms=took_ms,
                timeout_ms=self._config.consume_timeout_ms,
            ),
        )
        if process.dropped:
            return  # another member owns the queue now and gets these messages
        if not failed:
            self._finish(messages, process, context.message_queue)
        elif self._config.message_model is MessageModel.BROADCASTING:
            for message in messages[consumed:]:
                log.warning("%s: dropped after a failure: %s", self._group, message)
            self._finish(messages, process, context.message_queue)
        else:
            self._spawn(self._return(messages, consumed, process, context))

    def _consumed_count(
        self,
        messages: Sequence[MessageExt],
        context: ConsumeConcurrentlyContext,
        result: object,
    ) -> int:
        if result is ConsumeConcurrentlyStatus.CONSUME_SUCCESS:
            return max(0, min(len(messages), context.ack_index + 1))
        if isinstance(result, BaseException):
            log.warning("%s: the listener raised an error", self._group, exc_info=result)
        elif result is not ConsumeConcurrentlyStatus.RECONSUME_LATER:
            log.warning(
                "%s: the listener returned %r, not a ConsumeConcurrentlyStatus: the messages are "
                "delivered again",
                self._group,
                result,
            )
        return 0

    async def _return(
        self,
        messages: Sequence[MessageExt],
        consumed: int,
        process: ProcessQueue,
        context: ConsumeConcurrentlyContext,
    ) -> None:
        """Send the failed messages back; those for which it fails are consumed here again."""
        queue = context.message_queue
        finished = list(messages[:consumed])
        again: list[MessageExt] = []
        for message in messages[consumed:]:
            level = context.delay_level_when_next_consume
            if await self._send_back.send(message, queue, level):
                finished.append(message)
            else:
                message.reconsume_times += 1
                again.append(message)
        if not process.dropped:
            self._finish(finished, process, queue)
        if again:
            await asyncio.sleep(AGAIN_LATER_S)
            if not process.dropped:
                self._submit(again, process, queue)

    def _finish(
        self, messages: Sequence[MessageExt], process: ProcessQueue, queue: MessageQueue
    ) -> None:
        offset = process.remove(messages)
        if offset >= 0 and not process.dropped:
            self._offsets.table.update(queue, offset, increase_only=True)

    async def clean_expired(self, process: ProcessQueue, queue: MessageQueue) -> None:
        """Send back head messages whose listener runs longer than ``consume_timeout_ms``.

        **Source:** RocketMQ ``ProcessQueue#cleanExpiredMsg``.
        """
        for _ in range(MAX_EXPIRED_PER_SCAN):
            now_ms = self._clock.monotonic_ms()
            message = process.expired_head(now_ms, self._config.consume_timeout_ms)
            if message is None or not await self._send_back.send(message, queue, FIRST_RETRY_LEVEL):
                return
            log.warning("%s: consumption timed out: %s", self._group, message)
            if process.min_offset == message.queue_offset:
                self._finish([message], process, queue)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self, wait_ms: float) -> bool:
        """Wait for running listeners and send-backs; returns whether all have ended."""
        ended = await self._pool.close(wait_ms)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=wait_ms / 1000)
            for task in late:
                task.cancel()
            ended = ended and not late
        return ended
