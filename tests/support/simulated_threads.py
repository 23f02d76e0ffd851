"""Threads that run one at a time, in an order that a seed decides, on a manual clock.

Each is a real thread with its own stack, but only one runs at any moment: it hands over when it
waits (event, condition, lock, join) and, with a given probability, at a switch point (calls to the
simulated disk). When all of them wait, the clock moves to the earliest deadline. So a run of the
broker with its flush thread, its worker and its executor is the same for the same seed.

::

    threads = SimThreads(ManualClock(), random.Random(1))
    with threads.installed():                # broker.* sees these threads, this clock and this rng
        ...
"""

import importlib
import math
import pkgutil
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType, ModuleType
from typing import Any
from unittest.mock import patch

import broker.server
import broker.store
from broker.common.clock import ManualClock
from broker.remoting import connection
from broker.server.processor.send import unique_ids

TraceFunction = Callable[[FrameType, str, Any], Any]
JOIN_TIMEOUT_S = 30.0
PID = 12_345  # of the broker: the same in each run
TICK_SHARE = 0.5  # of switches between lines
SLOW_SHARE, SLOW_S = 0.02, 0.02  # of readings of the serving clock; more than a turn lasts


class Deadlock(AssertionError):
    """Deadlock: every thread waits for another one."""


class _Abandoned(BaseException):
    """Unwinds a thread whose broker has lost its power."""


class _Task:
    """One thread: the lock it sleeps on, and the condition it waits for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.gate = threading.Semaphore(0)
        self.ready: Callable[[], bool] | None = None
        self.deadline_ms: float | None = None
        self.done = False
        self.thread: threading.Thread | None = None


class SimThreads:
    """The scheduler; the thread that makes it is the main one.

    ``preempt`` is the probability that another thread runs at a switch point, ``preempt_lines``
    that one runs before a line of ``broker`` (all threads are traced then, which is slow).
    ``errors`` contains the exceptions that ended threads.
    """

    def __init__(
        self,
        clock: ManualClock,
        rng: random.Random,
        *,
        preempt: float = 0.1,
        preempt_lines: float = 0.0,
    ) -> None:
        self.clock = clock
        self.rng = rng
        self.errors: list[BaseException] = []
        self._preempt = preempt
        self._preempt_lines = preempt_lines
        self._main = _Task("main")
        self._current = self._main
        self._tasks = [self._main]
        self._ending = False
        self._deadlock = ""
        self._slow_s = 0.0

    # ---- waiting and switching

    def wait_until(self, ready: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Let others run until ``ready()``, at most ``timeout_s``; returns its last result."""
        task = self._current
        if self._ending or ready():
            return ready()
        task.ready = ready
        if timeout_s is not None:
            task.deadline_ms = self.clock.monotonic_ms() + max(0.0, timeout_s) * 1000
        try:
            self._switch(self._next())
        finally:
            task.ready = task.deadline_ms = None
        return ready()

    def pause(self, most_s: float) -> None:
        """Let the others run for up to ``most_s``."""
        self.wait_until(lambda: False, self.rng.random() * most_s)

    def switch_point(self) -> None:
        """Perhaps let another thread run now."""
        if self._is_time(self._preempt):
            self._switch(self.rng.choice(self._runnable()))

    def _is_time(self, probability: float) -> bool:
        return len(self._tasks) > 1 and not self._ending and self.rng.random() < probability

    def _trace(self, frame: FrameType, event: str, arg: object) -> "TraceFunction | None":
        """Switch before lines of the broker; other frames and the clock's are not traced."""
        if event == "call":
            module = frame.f_globals.get("__name__", "")
            # The scheduler itself asks the clock.
            seen = module.startswith("broker.") and module != ManualClock.__module__
            return self._trace if seen else None
        if event == "line" and self._is_time(self._preempt_lines):
            # Or the timers of other threads wait until this one does.
            if self.rng.random() < TICK_SHARE:
                self.clock.advance(1)
            self._switch(self.rng.choice(self._runnable()))
        return self._trace

    def _runnable(self) -> list[_Task]:
        now_ms = self.clock.monotonic_ms()
        return [
            task
            for task in self._tasks
            if task.ready is None
            or (task.deadline_ms is not None and task.deadline_ms <= now_ms)
            or task.ready()
        ]

    def _next(self) -> _Task:
        """A thread that can run; the clock moves when none can."""
        while not (runnable := self._runnable()):
            deadlines = [t.deadline_ms for t in self._tasks if t.deadline_ms is not None]
            if not deadlines:
                self._deadlock = ", ".join(task.name for task in self._tasks)
                return self._main
            self.clock.advance(max(1, math.ceil(min(deadlines) - self.clock.monotonic_ms())))
        return self.rng.choice(runnable)

    def _switch(self, task: _Task) -> None:
        me = self._current
        if task is not me:
            self._current = task
            task.gate.release()
            me.gate.acquire()
        if me is self._main:
            if self._deadlock:
                waiting, self._deadlock = self._deadlock, ""
                raise Deadlock(f"all of these wait: {waiting}")
        elif self._ending:
            raise _Abandoned

    # ---- threads

    def spawn(self, name: str, body: Callable[[], None]) -> _Task:
        """Start a thread; it runs when others wait."""
        task = _Task(name)

        def run() -> None:
            task.gate.acquire()
            if self._preempt_lines:
                sys.settrace(self._trace)
            try:
                if not self._ending:
                    body()
            except _Abandoned:
                pass
            except BaseException as error:
                self.errors.append(error)
            task.done = True
            self._tasks.remove(task)
            following = self._main if self._ending else self._next()
            self._current = following
            following.gate.release()

        task.thread = threading.Thread(target=run, name=name, daemon=True)
        task.thread.start()
        self._tasks.append(task)
        return task

    def abandon(self) -> None:
        """End every other thread where it waits: the power is gone."""
        assert self._current is self._main
        self._ending = True
        for task in self._tasks[1:]:
            self._current = task
            task.gate.release()
            self._main.gate.acquire()
            assert task.thread is not None
            task.thread.join(JOIN_TIMEOUT_S)
        self._ending = False
        self._current = self._main

    # ---- seen by the code under test

    def _serving_s(self) -> float:
        """The clock that limits a turn of requests: some of them take long."""
        if self.rng.random() < SLOW_SHARE:
            self._slow_s += SLOW_S
        return self.clock.monotonic_ms() / 1000 + self._slow_s

    @contextmanager
    def _traced(self) -> Iterator[None]:
        before = sys.gettrace()
        if self._preempt_lines:
            sys.settrace(self._trace)
        try:
            yield
        finally:
            sys.settrace(before)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Have every module of ``broker`` use these threads, this clock and this generator."""
        _import_lazy_modules()
        substitutes: dict[str, tuple[ModuleType, Any]] = {
            "threading": (threading, _Threading(self)),
            "time": (time, _Time(self.clock)),
            "random": (random, self.rng),
        }
        changed: list[tuple[ModuleType, str, Any]] = []
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] != "broker":
                continue
            for attribute, (real, substitute) in substitutes.items():
                if getattr(module, attribute, None) is real:
                    setattr(module, attribute, substitute)
                    changed.append((module, attribute, real))
        changed.append((connection, "monotonic_s", connection.monotonic_s))
        connection.monotonic_s = self._serving_s
        changed.append((unique_ids, "PROCESS_MARK", unique_ids.PROCESS_MARK))
        vars(unique_ids)["PROCESS_MARK"] = 1
        try:
            with patch("os.getpid", lambda: PID), self._traced():
                yield
        finally:
            self.abandon()
            for module, attribute, real in changed:
                setattr(module, attribute, real)


@cache
def _import_lazy_modules() -> None:
    """Import modules that the broker imports on demand: they would get the real threads."""
    for package in (broker.server, broker.store):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)


class _Time:
    """The ``time`` module on a manual clock."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock

    def monotonic(self) -> float:
        return self._clock.monotonic_ms() / 1000

    perf_counter = monotonic

    def time(self) -> float:
        return self._clock.now_ms() / 1000

    def time_ns(self) -> int:
        return self._clock.now_ms() * 1_000_000

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class _Threading:
    """The ``threading`` module over a scheduler."""

    def __init__(self, threads: SimThreads) -> None:
        self._threads = threads

    def Thread(
        self,
        *,
        target: Callable[..., None],
        name: str = "thread",
        args: tuple[Any, ...] = (),
        daemon: bool = False,
    ) -> "_Thread":
        return _Thread(self._threads, name, lambda: target(*args))

    def Event(self) -> "_Event":
        return _Event(self._threads)

    def Lock(self) -> "_Lock":
        return _Lock(self._threads)

    def Condition(self, lock: "_Lock | None" = None) -> "_Condition":
        return _Condition(self._threads, lock or _Lock(self._threads))

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


class _Thread:
    def __init__(self, threads: SimThreads, name: str, body: Callable[[], None]) -> None:
        self._threads = threads
        self.name = name
        self._body = body
        self._task: _Task | None = None

    def start(self) -> None:
        self._task = self._threads.spawn(self.name, self._body)

    def join(self, timeout: float | None = None) -> None:
        task = self._task
        assert task is not None, "not started"
        self._threads.wait_until(lambda: task.done, timeout)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.done


class _Event:
    def __init__(self, threads: SimThreads) -> None:
        self._threads = threads
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        return self._threads.wait_until(self.is_set, timeout)


class _Lock:
    def __init__(self, threads: SimThreads) -> None:
        self._threads = threads
        self._held = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if blocking:
            limit_s = timeout if timeout >= 0 else None
            self._threads.wait_until(lambda: not self._held, limit_s)
        if self._held:
            return False
        self._held = True
        return True

    def release(self) -> None:
        self._held = False

    def locked(self) -> bool:
        return self._held

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *exc: object) -> None:
        self.release()


class _Condition:
    def __init__(self, threads: SimThreads, lock: _Lock) -> None:
        self._threads = threads
        self._lock = lock
        self._waiting: list[list[bool]] = []
        self.acquire = lock.acquire
        self.release = lock.release

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *exc: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        notified = [False]
        self._waiting.append(notified)
        self._lock.release()
        try:
            self._threads.wait_until(lambda: notified[0], timeout)
        finally:
            if not notified[0]:  # removed by identity: all entries are equal
                self._waiting = [other for other in self._waiting if other is not notified]
            self._lock.acquire()
        return notified[0]

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        clock = self._threads.clock
        end_ms = None if timeout is None else clock.monotonic_ms() + timeout * 1000
        while not predicate():
            left = None if end_ms is None else (end_ms - clock.monotonic_ms()) / 1000
            if left is not None and left <= 0:
                return False
            self.wait(left)
        return True

    def notify(self, n: int = 1) -> None:
        for notified in self._waiting[:n]:
            notified[0] = True
        del self._waiting[:n]

    def notify_all(self) -> None:
        self.notify(len(self._waiting))
