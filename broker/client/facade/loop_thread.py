"""LoopThread: one event loop in a daemon thread, shared by all blocking clients of a process.

It starts with the first client and ends with the last one, uvloop if it is installed.
"""

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from broker.errors import ClientError
from broker.remoting.process.loop import loop_factory

Result = TypeVar("Result")


class LoopThread:
    """Runs coroutines on a loop in a separate thread; ``acquire`` and ``release`` count users."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._loop_of_parent: asyncio.AbstractEventLoop | None = None

    def forget_parent(self) -> None:
        """Start without users in a forked child, which has neither the thread nor its users.

        The parent's loop is kept open: closing it, or its connections, would remove them from the
        epoll set that both processes share, and the parent would get no further events.
        """
        self._loop_of_parent = self._loop or self._loop_of_parent
        self._lock = threading.Lock()  # a thread of the parent may hold the old one
        self._users = 0
        self._loop = self._thread = None

    def acquire(self) -> None:
        """Count one more user; the first one starts the thread."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                ready = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(ready,), name="rocketmq-client", daemon=True
                )
                self._thread.start()
                ready.wait()

    def release(self) -> None:
        """Count one user less; the last one ends the thread."""
        with self._lock:
            self._users -= 1
            if self._users > 0:
                return
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        assert loop is not None, "released more often than acquired"
        assert thread is not None, "released more often than acquired"
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _run(self, ready: threading.Event) -> None:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            self._loop = loop = runner.get_loop()
            loop.call_soon(ready.set)
            loop.run_forever()

    def submit(self, work: Coroutine[Any, Any, Result]) -> "Future[Result]":
        """Start a coroutine; the future gets its result."""
        loop = self._loop
        if loop is None:
            work.close()
            raise ClientError("the client has been shut down")
        if threading.current_thread() is self._thread:
            work.close()
            raise ClientError(
                "a blocking call on the client's event loop would never end",
                "call it from a listener thread, or use the asynchronous client",
            )
        return asyncio.run_coroutine_threadsafe(work, loop)

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine to its end and return its result; an interrupt cancels it."""
        return self.wait(self.submit(work))

    @staticmethod
    def wait(future: "Future[Result]") -> Result:
        """Return the result of a submitted coroutine; an interrupt cancels it."""
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], Result]) -> Result:
        """Call a function on the loop and return its result."""

        async def work() -> Result:
            return function()

        return self.run(work())


SHARED = LoopThread()
"""The loop thread of this process."""

if sys.platform != "win32":  # which has no fork
    os.register_at_fork(after_in_child=SHARED.forget_parent)
