"""ConsumeOrderlyService: one listener call per queue at a time, in order.

A queue is consumed only while the broker has locked it for this client (clustering). A failed
message is delivered again before any later one; the queue waits meanwhile.

**Source:** RocketMQ ``ConsumeMessageOrderlyService``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from broker.client.config import ConsumerConfig, MessageModel
from broker.client.consumer.process_queue import ProcessQueue, StartMark
from broker.client.listener.listener_runner import ListenerRunner
from broker.client.listener.listeners import ConsumeOrderlyContext
from broker.client.listener.send_back import UNLIMITED, SendBack
from broker.client.offset.offset_store import OffsetStore
from broker.client.results import ConsumeOrderlyStatus
from broker.common.message_queue import MessageQueue
from broker.message.message import PROPERTY_RECONSUME_TIME, MessageExt

log = logging.getLogger("broker.client")

RELOCK_S = 0.01
RELOCK_FAILED_S = 3.0
MIN_SUSPEND_MS = 10
MAX_SUSPEND_MS = 30_000
FOLLOW_MS = 100
"""How long a stop waits for the loops of the queues after the last listener has ended."""

Lock = Callable[[MessageQueue], Awaitable[bool]]


class ConsumeOrderlyService:
    """Calls the listener queue by queue; ``lock`` asks the broker for the lock of a queue."""

    orderly = True

    def __init__(
        self,
        runner: "ListenerRunner[ConsumeOrderlyStatus, ConsumeOrderlyContext]",
        config: ConsumerConfig,
        *,
        offsets: OffsetStore,
        send_back: SendBack,
        lock: Lock,
    ) -> None:
        self.runner = runner
        self._config = config
        self._group = runner.group
        self._clock = runner.clock
        self._offsets = offsets
        self._send_back = send_back
        self._lock = lock
        self._locks: dict[ProcessQueue, asyncio.Lock] = {}
        self._closing = False

    def dispatch(
        self, messages: Sequence[MessageExt], process: ProcessQueue, queue: MessageQueue
    ) -> None:
        """Start consuming the queue unless it is being consumed already."""
        if process.consuming or self._closing or not process.messages:
            return
        process.consuming = True
        self.runner.spawn(self._consume(process, queue))

    def consume_lock(self, process: ProcessQueue) -> asyncio.Lock:
        """The lock that is held during listener calls: a rebalance waits for it."""
        return self._locks.setdefault(process, asyncio.Lock())

    def forget(self, process: ProcessQueue) -> None:
        """Drop the lock of a removed queue."""
        self._locks.pop(process, None)

    async def _consume(self, process: ProcessQueue, queue: MessageQueue) -> None:
        """Call the listener until the queue is empty, dropped, or the consumer stops."""
        try:
            while not process.is_dropped() and not self._closing:
                if not await self._ensure_locked(process, queue):
                    continue
                now_ms = self._clock.monotonic_ms()
                batch = process.take(self._config.consume_message_batch_max_size, now_ms)
                if not batch:
                    return
                async with self.consume_lock(process):
                    if process.is_dropped():
                        process.put_back(batch)
                        return
                    context = ConsumeOrderlyContext(message_queue=queue)
                    result = await self._call(batch, context)
                    if isinstance(result, asyncio.CancelledError):
                        process.put_back(batch)
                        return
                    suspend_ms = await self._process(batch, process, context, result)
                if suspend_ms:
                    await asyncio.sleep(suspend_ms / 1000)
        finally:
            process.consuming = False
            if process.messages and not process.dropped and not self._closing:
                self.dispatch((), process, queue)  # arrived between the last take and here

    async def _ensure_locked(self, process: ProcessQueue, queue: MessageQueue) -> bool:
        if self._config.message_model is MessageModel.BROADCASTING:
            return True
        if process.locked and not process.is_lock_expired(self._clock.monotonic_ms()):
            return True
        locked = await self._lock(queue)
        await asyncio.sleep(RELOCK_S if locked else RELOCK_FAILED_S)
        return locked

    async def _call(
        self, batch: Sequence[MessageExt], context: ConsumeOrderlyContext
    ) -> ConsumeOrderlyStatus | BaseException:
        future: asyncio.Future[tuple[ConsumeOrderlyStatus | BaseException, float]] = (
            asyncio.get_running_loop().create_future()
        )
        if self.runner.pool.closed:
            return asyncio.CancelledError()
        mark = StartMark()

        def ended(result: ConsumeOrderlyStatus | BaseException, took_ms: float) -> None:
            if not future.done():
                future.set_result((result, took_ms))

        self.runner.submit(batch, context, mark, ended)
        result, took_ms = await future
        if isinstance(result, asyncio.CancelledError):
            return result
        failed = _failed(result, context)
        self.runner.report(
            batch,
            context.message_queue,
            mark,
            result if failed else ConsumeOrderlyStatus.SUCCESS,
            consumed=0 if failed else len(batch),
            took_ms=took_ms,
            timeout_ms=self._config.consume_timeout_ms,
        )
        return result

    async def _process(
        self,
        batch: Sequence[MessageExt],
        process: ProcessQueue,
        context: ConsumeOrderlyContext,
        result: ConsumeOrderlyStatus | BaseException,
    ) -> int:
        """Commit or put back; returns how long the queue waits now, in ms.

        **Source:** RocketMQ ``ConsumeMessageOrderlyService#processConsumeResult``.
        """
        if _failed(result, context):
            if result is ConsumeOrderlyStatus.ROLLBACK:
                process.rollback()
                return self._suspend_ms(context)
            if await self._try_again(batch):
                process.put_back(batch)
                return self._suspend_ms(context)
        elif context.auto_commit and result is not ConsumeOrderlyStatus.SUCCESS:
            log.warning("%s: %s counts as SUCCESS with automatic commit", self._group, result)
        if not context.auto_commit and result is not ConsumeOrderlyStatus.COMMIT:
            return 0  # taken, or sent to the retry topic: committed with the next COMMIT
        offset = process.commit()
        if offset >= 0 and not process.dropped:
            self._offsets.table.update(context.message_queue, offset)
        return 0

    def _suspend_ms(self, context: ConsumeOrderlyContext) -> int:
        wait_ms = context.suspend_current_queue_ms
        if wait_ms < 0:
            wait_ms = self._config.suspend_current_queue_ms
        return min(MAX_SUSPEND_MS, max(MIN_SUSPEND_MS, wait_ms))

    async def _try_again(self, batch: Sequence[MessageExt]) -> bool:
        """Count one more failure of each message; False if all go to the retry topic instead.

        **Source:** RocketMQ ``ConsumeMessageOrderlyService#checkReconsumeTimes``.
        """
        limit = self._config.max_reconsume_times
        limit = UNLIMITED if limit < 0 else limit
        again = False
        for message in batch:
            if message.reconsume_times >= limit:
                message.properties[PROPERTY_RECONSUME_TIME] = str(message.reconsume_times)
                if await self._send_back.send_to_retry_topic(message):
                    continue
            again = True
            message.reconsume_times += 1
        return again

    async def clean_expired(self, process: ProcessQueue, queue: MessageQueue) -> None:
        """Do nothing: an orderly listener may run as long as it needs."""

    async def close(self, wait_ms: float) -> bool:
        """Wait for running listeners; returns whether all have ended."""
        self._closing = True
        return await self.runner.close(wait_ms, follow_ms=FOLLOW_MS)


def _failed(result: ConsumeOrderlyStatus | BaseException, context: ConsumeOrderlyContext) -> bool:
    """Whether messages are delivered again; a result that is not a status counts as failure."""
    if result is ConsumeOrderlyStatus.ROLLBACK:
        return not context.auto_commit
    return result not in (ConsumeOrderlyStatus.SUCCESS, ConsumeOrderlyStatus.COMMIT)
