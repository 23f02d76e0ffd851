"""BlockingFacade: start and stop of an asynchronous client from any thread.

The client runs on the loop thread that all blocking clients of the process share.
"""

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
        self._started = False
        self._acquired = False  # counted as a user of the loop thread

    @property
    def _loop(self) -> LoopThread:
        """The loop thread; ClientError before the start."""
        if not self._started:
            raise ClientError(f"this {type(self).__name__} is not started", "call start() first")
        return SHARED

    def start(self) -> None:
        """Start the client; see ``start`` of its asynchronous form for errors."""
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
            if self._started:
                return False
            SHARED.acquire()
            self._started = self._acquired = True
            return True

    def _undo_start(self) -> None:
        with self._lock:
            acquired, self._started, self._acquired = self._acquired, False, False
        if acquired:
            SHARED.release()

    def shutdown(self) -> None:
        """Finish work in flight, commit, unregister the group; nothing unless it is running."""
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
