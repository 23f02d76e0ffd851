"""ConsumeOrderlyService: one listener call per queue at a time, in order.

A queue is consumed only while the broker has locked it for this client (clustering). A failed
message is delivered again before any later one; the queue waits meanwhile.

**Source:** RocketMQ ``ConsumeMessageOrderlyService``.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from broker.client.config import ConsumerConfig, MessageModel
from broker.client.consumer.process_queue import ProcessQueue
from broker.client.hooks.consume_hooks import ConsumeHooks, code_of
from broker.client.hooks.events import ConsumeHook
from broker.client.listener.listener_pool import ListenerPool, is_coroutine_listener
from broker.client.listener.listeners import ConsumeOrderlyContext, OrderlyListener
from broker.client.listener.send_back import UNLIMITED, SendBack
from broker.client.listener.stats import ConsumerStats
from broker.client.offset.offset_store import OffsetStore
from broker.client.results import ConsumeOrderlyStatus
from broker.common.clock import Clock
from broker.common.message_queue import MessageQueue
from broker.message.message import (
    PROPERTY_CONSUME_START_TIMESTAMP,
    PROPERTY_RECONSUME_TIME,
    MessageExt,
)

log = logging.getLogger("broker.client")

RELOCK_S = 0.01
RELOCK_FAILED_S = 3.0
MIN_SUSPEND_MS = 10
MAX_SUSPEND_MS = 30_000

Lock = Callable[[MessageQueue], Awaitable[bool]]


class ConsumeOrderlyService:
    """Calls the listener queue by queue; ``lock`` asks the broker for the lock of a queue."""

    orderly = True

    def __init__(
        self,
        listener: OrderlyListener,
        config: ConsumerConfig,
        *,
        group: str,
        clock: Clock,
        offsets: OffsetStore,
        send_back: SendBack,
        stats: ConsumerStats,
        lock: Lock,
        hooks: list[ConsumeHook] | None = None,
    ) -> None:
        self.listener = listener
        self._config = config
        self._group = group
        self._clock = clock
        self._offsets = offsets
        self._send_back = send_back
        self._stats = stats
        self._lock = lock
        self._pool: ListenerPool[ConsumeOrderlyStatus] = ListenerPool(
            config.consume_threads,
            name=f"ConsumeMessageThread_{group}",
            coroutines=is_coroutine_listener(listener),
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._locks: dict[ProcessQueue, asyncio.Lock] = {}
        self._closing = False
        self._hooks = ConsumeHooks(group, clock, [] if hooks is None else hooks)

    def dispatch(
        self, messages: Sequence[MessageExt], process: ProcessQueue, queue: MessageQueue
    ) -> None:
        """Start consuming the queue unless it is being consumed already."""
        if process.consuming or self._closing or not process.messages:
            return
        process.consuming = True
        self._spawn(self._consume(process, queue))

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
        future: asyncio.Future[ConsumeOrderlyStatus | BaseException] = (
            asyncio.get_running_loop().create_future()
        )
        if self._pool.closed:
            return asyncio.CancelledError()
        began_ms = self._clock.monotonic_ms()
        request_id = self._hooks.before(batch, context.message_queue)
        self._pool.submit(partial(self._listen, batch, context), partial(_settle, future))
        result = await future
        ok = len(batch) if result is ConsumeOrderlyStatus.SUCCESS else 0
        took_ms = self._clock.monotonic_ms() - began_ms
        self._stats.consumed(context.message_queue.topic, ok, len(batch) - ok, took_ms)
        self._hooks.after(
            request_id,
            batch,
            context.message_queue,
            cost_ms=took_ms,
            code=code_of(
                result,
                ConsumeOrderlyStatus.SUCCESS,
                cost_ms=took_ms,
                timeout_ms=self._config.consume_timeout_ms,
            ),
        )
        return result

    def _listen(
        self, batch: Sequence[MessageExt], context: ConsumeOrderlyContext
    ) -> "ConsumeOrderlyStatus | Awaitable[ConsumeOrderlyStatus]":
        started = str(self._clock.now_ms())
        for message in batch:
            message.properties[PROPERTY_CONSUME_START_TIMESTAMP] = started
        return self.listener(batch, context)

    async def _process(
        self,
        batch: Sequence[MessageExt],
        process: ProcessQueue,
        context: ConsumeOrderlyContext,
        result: ConsumeOrderlyStatus | BaseException,
    ) -> int:
        """Commit or put back; returns how long the queue waits now, in ms."""
        queue = context.message_queue
        if result is not ConsumeOrderlyStatus.SUCCESS:
            self._log_failure(result)
            if await self._try_again(batch):
                process.put_back(batch)
                wait_ms = context.suspend_current_queue_ms
                if wait_ms < 0:
                    wait_ms = self._config.suspend_current_queue_ms
                return min(MAX_SUSPEND_MS, max(MIN_SUSPEND_MS, wait_ms))
        offset = process.commit()
        if offset >= 0 and not process.dropped:
            self._offsets.table.update(queue, offset)
        return 0

    def _log_failure(self, result: ConsumeOrderlyStatus | BaseException) -> None:
        if isinstance(result, BaseException):
            log.warning("%s: the listener raised an error", self._group, exc_info=result)
        elif result is not ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT:
            log.warning("%s: the listener returned %r", self._group, result)

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

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def clean_expired(self, process: ProcessQueue, queue: MessageQueue) -> None:
        """Do nothing: an orderly listener may run as long as it needs."""

    async def close(self, wait_ms: float) -> bool:
        """Wait for running listeners; returns whether all have ended."""
        self._closing = True
        ended = await self._pool.close(wait_ms)
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=0.1)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        return ended


def _settle(
    future: "asyncio.Future[ConsumeOrderlyStatus | BaseException]",
    result: ConsumeOrderlyStatus | BaseException,
) -> None:
    if not future.done():
        future.set_result(result)
