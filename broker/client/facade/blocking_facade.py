"""BlockingFacade: start and stop of an asynchronous client from any thread.

The client runs on the loop thread that all blocking clients of the process share. A process that
is forked has its own loop thread: clients that were started before refuse calls there.
"""

import os
import threading
from types import TracebackType
from typing import Self

from broker.client.facade.loop_thread import SHARED, LoopThread
from broker.client.lifecycle import AsyncStartable
from broker.errors import ClientError


class BlockingFacade:
    """``with`` starts the client, and stops it at the end of the block, also after an error."""

    def __init__(self, client: AsyncStartable) -> None:
        self._startable = client
        self._lock = threading.Lock()
        self._pid: int | None = None  # of the process that started it
        self._acquired = False  # counted as a user of the loop thread

    @property
    def _loop(self) -> LoopThread:
        """The loop thread; ClientError before the start, and in a child of its process."""
        if self._pid is None:
            raise ClientError(f"this {type(self).__name__} is not started", "call start() first")
        self._check_process()
        return SHARED

    @property
    def _is_inherited(self) -> bool:
        return self._pid is not None and self._pid != os.getpid()

    def _check_process(self) -> None:
        if self._is_inherited:
            raise ClientError(
                f"this {type(self).__name__} was started before the fork",
                "make a new one in the child",
            )

    def start(self) -> None:
        """Start the client; see ``start`` of its asynchronous form for errors."""
        self._check_process()
        SHARED.acquire()  # a listener may shut the client down before its start is over
        try:
            first = self._acquire()
            try:
                SHARED.run(self._startable.start())
            except BaseException:
                if first:
                    self._undo_start()
                raise
        finally:
            SHARED.release()

    def _acquire(self) -> bool:
        """Count this client as a user of the loop thread; False if it was started before."""
        with self._lock:
            if self._pid is not None:
                return False
            SHARED.acquire()
            self._pid, self._acquired = os.getpid(), True
            return True

    def _undo_start(self) -> None:
        with self._lock:
            acquired, self._pid, self._acquired = self._acquired, None, False
        if acquired:
            SHARED.release()

    def shutdown(self) -> None:
        """Finish work in flight, commit, unregister the group; nothing unless it is running here.

        In a child of the process that started the client the connections stay the parent's.
        """
        if self._is_inherited:
            return
        with self._lock:
            if not self._acquired:
                return
            ended = SHARED.submit(self._startable.shutdown())
            self._acquired = False
        try:
            SHARED.wait(ended)
        finally:
            SHARED.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.shutdown()
