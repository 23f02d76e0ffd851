"""Where listeners run: blocking ones in threads, coroutines on the event loop.

The end of each call returns to the loop; results of threads are collected, so that many calls cost
one wake-up.

**Source:** RocketMQ ``ConsumeMessageConcurrentlyService`` (its thread pool).
"""

import asyncio
import inspect
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Generic, TypeAlias, TypeVar

from broker.errors import ClientError

Status = TypeVar("Status")
Outcome: TypeAlias = Status | BaseException
Call: TypeAlias = Callable[[], Status | Awaitable[Status]]

_current_call: ContextVar[object] = ContextVar("listener_call", default=None)
"""The call of the coroutine listener that is running, also in tasks that it starts."""

SLICE_S = 0.005
"""Coroutine listeners that never wait let other work run after this time."""


class ListenerPool(Generic[Status]):
    """Runs at most ``limit`` listener calls at once, in the order of submission.

    ``close`` lets running calls finish and drops those not started. A coroutine listener may close
    its own pool: its call is neither waited for nor cancelled.
    """

    def __init__(self, limit: int, *, name: str, coroutines: bool) -> None:
        self._loop = asyncio.get_running_loop()
        self._limit = limit
        self._name = name
        self._coroutines = coroutines
        self._jobs: SimpleQueue[tuple[Call[Status], Callable[[Outcome[Status]], None]] | None] = (
            SimpleQueue()
        )
        self._threads: list[threading.Thread] = []
        self._finished: deque[tuple[Callable[[Outcome[Status]], None], Outcome[Status]]] = deque()
        self._wake_lock = threading.Lock()
        self._woken = False
        self._waiting: deque[tuple[Call[Status], Callable[[Outcome[Status]], None]]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: dict[object, asyncio.Task[None] | None] = {}  # by call
        self._closing_calls = 0  # running calls that have closed the pool
        self._idle = asyncio.Event()
        self._idle.set()
        self.pending = 0
        self.closed = False

    def submit(self, call: Call[Status], done: Callable[[Outcome[Status]], None]) -> None:
        """Run ``call`` as soon as possible and then ``done`` with its result, on the loop."""
        if self.closed:
            return
        self.pending += 1
        self._idle.clear()
        if self._coroutines:
            self._waiting.append((call, done))
            self._start_tasks()
            return
        if len(self._threads) < min(self._limit, self.pending):
            thread = threading.Thread(
                target=self._work, name=f"{self._name}-{len(self._threads) + 1}", daemon=True
            )
            self._threads.append(thread)
            thread.start()
        self._jobs.put((call, done))

    # ---- threads

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            call, done = job
            result: Outcome[Status]
            if self.closed:
                result = asyncio.CancelledError()
            else:
                try:
                    result = _blocking_result(call())
                except BaseException as error:
                    result = error
            self._finished.append((done, result))
            with self._wake_lock:
                wake, self._woken = not self._woken, True
            if wake:
                try:
                    self._loop.call_soon_threadsafe(self._collect)
                except RuntimeError:  # the loop was closed without waiting for this listener
                    return

    def _collect(self) -> None:
        with self._wake_lock:
            self._woken = False
        while self._finished:
            done, result = self._finished.popleft()
            self._end(done, result)

    # ---- coroutines

    def _start_tasks(self) -> None:
        if len(self._tasks) < min(self._limit, len(self._waiting)):
            self._tasks.add(self._loop.create_task(self._run()))

    async def _run(self) -> None:
        """Call listeners one after the other; other work gets its turn every few ms."""
        began_s = self._loop.time()
        task = asyncio.current_task()
        try:
            while self._waiting:
                call, done = self._waiting.popleft()
                token = object()  # the same function may run twice
                self._running[token] = task
                _current_call.set(token)
                result = await _result_of(call)
                del self._running[token]
                self._end(done, result)
                if self._loop.time() - began_s > SLICE_S:
                    await asyncio.sleep(0)
                    began_s = self._loop.time()
        finally:
            if task is not None:
                self._tasks.discard(task)

    def _end(self, done: Callable[[Outcome[Status]], None], result: Outcome[Status]) -> None:
        self.pending -= 1
        if self.pending <= self._closing_calls:
            self._idle.set()
        done(result)

    def tasks(self) -> set[asyncio.Task[None]]:
        """Return the running coroutine listeners."""
        return set(self._tasks)

    # ---- closing

    async def close(self, wait_ms: float) -> bool:
        """Start nothing more, wait for running calls; returns whether all have ended."""
        self.closed = True
        self.pending -= len(self._waiting)
        self._waiting.clear()
        own = self._running.get(_current_call.get())
        self._closing_calls = int(own is not None)
        if self.pending <= self._closing_calls:
            self._idle.set()
        for _ in self._threads:
            self._jobs.put(None)
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._idle.wait()
        except TimeoutError:
            for task in self._tasks - {own}:
                task.cancel()
            return False
        return True


def is_coroutine_listener(listener: Callable[..., object]) -> bool:
    """Whether a listener is ``async def``: a function, or an object with such a ``__call__``."""
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(
        type(listener).__call__
    )


def _blocking_result(value: Status | Awaitable[Status]) -> Outcome[Status]:
    """Return the result of a listener that runs in a thread; an awaitable cannot be one."""
    if not isinstance(value, Awaitable):
        return value
    if inspect.iscoroutine(value):
        value.close()
    return ClientError("the listener returned an awaitable", "define it with async def")


async def _result_of(call: Call[Status]) -> Outcome[Status]:
    """Return the result or the error of one call."""
    try:
        value = call()
        return await value if inspect.isawaitable(value) else value
    except BaseException as error:
        return error
