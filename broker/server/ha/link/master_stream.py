"""MasterStream: the slave's end of the HA connection.

Received bytes are kept until ``read`` returns them, or, after ``deliver``, passed to a function as
they arrive: a task that is woken for each of them would delay every acknowledgement.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol, cast

# Reading pauses while so many bytes are kept. uvloop passes up to 250 KiB at once.
MAX_KEPT_BYTES: Final = 256 * 1024


class Connection(Protocol):
    """The part of a transport that is needed."""

    def write(self, data: bytes) -> None:
        """Send bytes."""
        ...

    def pause_reading(self) -> None:
        """Stop the delivery of bytes."""
        ...

    def resume_reading(self) -> None:
        """Continue the delivery of bytes."""
        ...

    def is_closing(self) -> bool:
        """Whether it is closed."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


class MasterStream(asyncio.Protocol):
    """Bytes of one connection; ``changed`` is set at its end, at an error, and by :meth:`pause`."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self._ended = False
        self._error: Exception | None = None
        self._kept: list[bytes] = []
        self._deliver: Callable[[bytes], None] | None = None
        self._paused = False
        self._closed = asyncio.Event()
        self.connection: Connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self.connection = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Deliver or keep received bytes; an error of the delivery ends the stream."""
        if self._error is not None:
            return
        if self._deliver is None:
            self._kept.append(data)
            if sum(map(len, self._kept)) >= MAX_KEPT_BYTES:
                self.pause()
            self.changed.set()
            return
        try:
            self._deliver(data)
        except Exception as error:
            self._error = error
            self.pause()

    def eof_received(self) -> None:
        """End: the master never half-closes."""
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """End, with the error of the connection."""
        self._end(exc)
        self._closed.set()

    def _end(self, error: Exception | None) -> None:
        self._ended = True
        self._error = self._error or error
        self.changed.set()

    @property
    def ended(self) -> bool:
        """Whether the stream is at its end; raises the error that has ended it."""
        if self._error is not None and not self._kept:
            raise self._error
        return self._ended and not self._kept

    async def read(self) -> bytes:
        """Return the received bytes when there are some, b"" at the end; before ``deliver``."""
        while not self._kept and not self.ended:
            await self.changed.wait()
            self.changed.clear()
        data = b"".join(self._kept)
        self._kept.clear()
        self.resume()
        return data

    def deliver(self, function: Callable[[bytes], None]) -> None:
        """Pass bytes to ``function`` from now on, those that are kept at once."""
        self._deliver = function
        if self._kept:
            data = b"".join(self._kept)
            self._kept.clear()
            self.data_received(data)

    def pause(self) -> None:
        """Stop reading, and set ``changed``."""
        self.changed.set()
        if not self._paused and not self.connection.is_closing():
            self._paused = True
            self.connection.pause_reading()

    def resume(self) -> None:
        """Continue to read."""
        if self._paused and not self.connection.is_closing():
            self._paused = False
            self.connection.resume_reading()

    async def close(self) -> None:
        """Close at once, without waiting until the master has read the last report."""
        self.connection.abort()
        await self._closed.wait()
