"""ListenerRunner: calls of one consumer's listener, timed and reported to statistics and hooks.

**Source:** RocketMQ ``ConsumeMessageConcurrentlyService.ConsumeRequest#run`` and its siblings.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from broker.client.consumer.process_queue import StartMark
from broker.client.hooks.consume_hooks import ConsumeHooks, code_of
from broker.client.hooks.events import ConsumeHook
from broker.client.listener.listener_pool import ListenerPool, is_coroutine_listener
from broker.client.listener.stats import ConsumerStats
from broker.common.clock import Clock
from broker.common.message_queue import MessageQueue
from broker.message.message import PROPERTY_CONSUME_START_TIMESTAMP, MessageExt

log = logging.getLogger("broker.client")


class ListenerSkippedError(Exception):
    """The result of a call that was no longer wanted when its turn came."""


class ListenerContext(Protocol):
    """The part of a listener's context that every kind has."""

    message_queue: MessageQueue


Status = TypeVar("Status")
Context = TypeVar("Context", bound=ListenerContext)
Ended = Callable[[Status | BaseException, float], None]
"""Called on the loop with the result of a call and its duration in ms."""


class ListenerRunner(Generic[Status, Context]):
    """Runs a listener in ``threads`` calls at once; ``success`` is its status for success."""

    def __init__(
        self,
        listener: Callable[[Sequence[MessageExt], Context], Status | Awaitable[Status]],
        *,
        group: str,
        clock: Clock,
        stats: ConsumerStats,
        hooks: list[ConsumeHook] | None,
        threads: int,
        success: Status,
    ) -> None:
        self.group = group
        self.clock = clock
        self.listener = listener
        self._stats = stats
        self._success = success
        self._hooks = ConsumeHooks(group, clock, [] if hooks is None else hooks)
        self._tasks: set[asyncio.Task[None]] = set()
        self.pool: ListenerPool[Status] = ListenerPool(
            threads,
            name=f"ConsumeMessageThread_{group}",
            coroutines=is_coroutine_listener(listener),
        )

    def submit(
        self,
        messages: Sequence[MessageExt],
        context: Context,
        mark: StartMark,
        ended: "Ended[Status]",
        *,
        skip: Callable[[], bool] | None = None,
    ) -> None:
        """Call the listener as soon as possible, then ``ended`` with result and duration.

        ``skip`` is asked when the turn of the call comes; the result is ListenerSkippedError then.
        """
        self.pool.submit(
            partial(self._call, messages, context, mark, skip), partial(self._end, mark, ended)
        )

    def _call(
        self,
        messages: Sequence[MessageExt],
        context: Context,
        mark: StartMark,
        skip: Callable[[], bool] | None,
    ) -> Status | Awaitable[Status]:
        if skip is not None and skip():
            raise ListenerSkippedError
        mark.ms = self.clock.monotonic_ms()
        started = str(self.clock.now_ms())
        for message in messages:
            message.properties[PROPERTY_CONSUME_START_TIMESTAMP] = started
        mark.request_id = self._hooks.before(messages, context.message_queue)
        return self.listener(messages, context)

    def _end(self, mark: StartMark, ended: "Ended[Status]", result: Status | BaseException) -> None:
        ended(result, 0.0 if mark.ms is None else self.clock.monotonic_ms() - mark.ms)

    def report(
        self,
        messages: Sequence[MessageExt],
        queue: MessageQueue,
        mark: StartMark,
        result: Status | BaseException,
        *,
        consumed: int,
        took_ms: float,
        timeout_ms: float,
    ) -> None:
        """Count a call that has ended, and log a result that is not a status.

        A call longer than ``timeout_ms`` is reported to hooks as TIME_OUT.
        """
        self._stats.consumed(queue.topic, consumed, len(messages) - consumed, took_ms)
        code = code_of(result, self._success, cost_ms=took_ms, timeout_ms=timeout_ms)
        self._hooks.after(mark.request_id, messages, queue, cost_ms=took_ms, code=code)
        if isinstance(result, BaseException):
            log.warning("%s: the listener raised an error", self.group, exc_info=result)
        elif not isinstance(result, type(self._success)):
            log.warning(
                "%s: the listener returned %r, not a %s: the messages are delivered again",
                self.group,
                result,
                type(self._success).__name__,
            )

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work that follows from a call; ``close`` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def tasks(self) -> set[asyncio.Task[None]]:
        """Return the running calls and the work that follows from them."""
        return {*self._tasks, *self.pool.tasks()}

    async def close(self, wait_ms: float, *, follow_ms: float | None = None) -> bool:
        """Wait for running listeners and the work that follows; returns whether all ended."""
        ended = await self.pool.close(wait_ms)
        if self._tasks:
            _, late = await asyncio.wait(
                self._tasks, timeout=(wait_ms if follow_ms is None else follow_ms) / 1000
            )
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
            ended = ended and not late
        return ended
