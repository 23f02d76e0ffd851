"""ConsumeConcurrentlyService: listeners called in any order, several at once.

A failed message is sent back and delivered again later; the others are not held up.

**Source:** RocketMQ ``ConsumeMessageConcurrentlyService``.
"""

import asyncio
import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

from broker.client.config import ConsumerConfig, MessageModel
from broker.client.consumer.process_queue import ProcessQueue, StartMark
from broker.client.listener.listener_runner import ListenerRunner, ListenerSkippedError
from broker.client.listener.listeners import ConsumeConcurrentlyContext
from broker.client.listener.send_back import FIRST_RETRY_LEVEL, SendBack
from broker.client.offset.offset_store import OffsetStore
from broker.client.results import ConsumeConcurrentlyStatus
from broker.common.message_queue import MessageQueue
from broker.message.message import MessageExt

log = logging.getLogger("broker.client")

AGAIN_LATER_S = 5.0
"""A message that could be sent back neither way is consumed here again after this time."""

MAX_EXPIRED_PER_SCAN = 16


ConcurrentRunner = ListenerRunner[ConsumeConcurrentlyStatus, ConsumeConcurrentlyContext]


def in_calls(
    messages: Sequence[MessageExt], config: ConsumerConfig
) -> Iterator[Sequence[MessageExt]]:
    """Split messages into those of each call of the listener."""
    size = config.consume_message_batch_max_size
    for start in range(0, len(messages), size):
        yield messages[start : start + size]


def consumed_count(
    messages: Sequence[MessageExt],
    context: ConsumeConcurrentlyContext,
    result: ConsumeConcurrentlyStatus | BaseException,
) -> int:
    """Return how many messages, from the first on, a call has consumed."""
    if result is ConsumeConcurrentlyStatus.CONSUME_SUCCESS:
        return max(0, min(len(messages), context.ack_index + 1))
    return 0


class _Submitted(NamedTuple):
    """One call of the listener."""

    messages: Sequence[MessageExt]
    process: ProcessQueue
    context: ConsumeConcurrentlyContext
    mark: StartMark


class ConsumeConcurrentlyService:
    """Calls the listener with pulled messages and turns results into commits and send-backs."""

    orderly = False

    def __init__(
        self,
        runner: ConcurrentRunner,
        config: ConsumerConfig,
        *,
        offsets: OffsetStore,
        send_back: SendBack,
    ) -> None:
        self.runner = runner
        self._config = config
        self._group = runner.group
        self._clock = runner.clock
        self._offsets = offsets
        self._send_back = send_back

    def dispatch(
        self, messages: Sequence[MessageExt], process: ProcessQueue, queue: MessageQueue
    ) -> None:
        """Submit pulled messages, in calls of at most ``consume_message_batch_max_size``."""
        for call in in_calls(messages, self._config):
            self._submit(call, process, queue)

    def _submit(
        self, messages: Sequence[MessageExt], process: ProcessQueue, queue: MessageQueue
    ) -> None:
        context = ConsumeConcurrentlyContext(message_queue=queue)
        mark = StartMark()
        process.begin(messages, mark)
        ended = partial(self._ended, _Submitted(messages, process, context, mark))
        self.runner.submit(messages, context, mark, ended, skip=process.is_dropped)

    def _ended(
        self,
        submitted: "_Submitted",
        result: ConsumeConcurrentlyStatus | BaseException,
        took_ms: float,
    ) -> None:
        if isinstance(result, asyncio.CancelledError):
            return  # the consumer stops: the message stays unfinished and is delivered again
        messages, process, context, mark = submitted
        if isinstance(result, ListenerSkippedError):
            return  # the next owner of the queue gets them
        queue = context.message_queue
        process.last_consume_ms = self._clock.monotonic_ms()
        consumed = consumed_count(messages, context, result)
        self.runner.report(
            messages,
            queue,
            mark,
            result,
            consumed=consumed,
            took_ms=took_ms,
            timeout_ms=self._config.consume_timeout_ms,
        )
        if process.dropped:
            return  # another member owns the queue now and gets these messages
        if consumed == len(messages):
            self._finish(messages, process, queue)
        elif self._config.message_model is MessageModel.BROADCASTING:
            for message in messages[consumed:]:
                log.warning("%s: dropped after a failure: %s", self._group, message)
            self._finish(messages, process, queue)
        else:
            self.runner.spawn(self._return(messages, consumed, process, context))

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

    async def close(self, wait_ms: float) -> bool:
        """Wait for running listeners and send-backs; returns whether all have ended."""
        return await self.runner.close(wait_ms)
