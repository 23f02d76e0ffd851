"""BlockingFacade: start and stop of an asynchronous client from any thread.

The client runs on the loop thread that all blocking clients of the process share.
"""

from types import TracebackType
from typing import Self

from broker.client.facade.loop_thread import SHARED
from broker.client.lifecycle import AsyncStartable


class BlockingFacade:
    """``with`` starts the client, and stops it at the end of the block, also after an error."""

    def __init__(self, client: AsyncStartable) -> None:
        self._startable = client

    def start(self) -> None:
        """Start the client; see ``start`` of its asynchronous form for errors."""
        SHARED.acquire()
        try:
            SHARED.run(self._startable.start())
        except BaseException:
            SHARED.release()
            raise

    def shutdown(self) -> None:
        """Finish work in flight, commit, unregister the group."""
        try:
            SHARED.run(self._startable.shutdown())
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
