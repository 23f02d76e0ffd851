"""The seam between a connection and vectorized ingest: whole reads instead of single frames.

An endpoint may have one :class:`ReadIngest`. A connection offers it each read that contains several
frames. It takes frames from the start of the read and sends their responses; a frame that it leaves
is served by the connection, and the rest of the read is offered again, so that every frame is
served in order. After MAX_LEFT frames in a row that were left, the connection serves the rest.
"""

from collections.abc import Sized
from typing import Final, Protocol

from broker.remoting.protocol.framing import FrameDecoder
from broker.remoting.protocol.rpc import Access

LEAST_BYTES: Final = 1_024
"""Shorter reads are not offered."""

LEAST_FRAMES: Final = 4
"""Reads shorter than this number of frames like their first one are not offered: the calls of
ingest cost as much as three frames on the plain path."""

MAX_LEFT: Final = 2
"""Frames left in a row after which the plain path serves the rest of a read."""


class IngestPeer(Protocol):
    """The side of a connection that ingest uses."""

    access: Access
    decoder: FrameDecoder
    remote_host: bytes

    @property
    def backlog(self) -> Sized:
        """Frames that wait for their turn."""
        ...

    @property
    def closed(self) -> bool:
        """Whether the connection is closed."""
        ...

    def send(self, frame: bytes) -> bool:
        """Queue an encoded frame."""
        ...

    def serve_data(self, data: bytes) -> None:
        """Serve received bytes on the plain path."""
        ...

    def fail(self, error: Exception) -> None:
        """Close the connection after an unexpected error."""
        ...


class ReadIngest(Protocol):
    """Takes frames of a read; of reads with ``least_bytes`` and ``least_frames`` at least."""

    least_bytes: int
    least_frames: int

    def take(self, peer: IngestPeer, data: bytes, start: int) -> int:
        """Serve frames from position ``start`` on; return the position after the last one.

        Never raises for any content of ``data``.
        """
        ...


def ingest_read(peer: IngestPeer, ingest: ReadIngest, data: bytes) -> bytes | None:
    """Offer a read to ``ingest``; return the bytes that the plain path has to serve.

    None if nothing of the connection is to be decoded any more.
    """
    try:
        return _serve_read(peer, ingest, data)
    except Exception as error:  # a defect closes its connection only
        peer.fail(error)
        return None


def _serve_read(peer: IngestPeer, ingest: ReadIngest, data: bytes) -> bytes | None:
    decoder = peer.decoder
    if len(data) < ingest.least_bytes or decoder.failure is not None:
        return data
    if decoder.pending_bytes:
        joined = decoder.join_pending(data)
        if joined is None:
            return data
        data = joined
    start = left = 0
    while True:
        size = int.from_bytes(data[start : start + 4], "big") + 4
        if size * ingest.least_frames > len(data) - start:
            break
        position = ingest.take(peer, data, start)
        if position > start:
            decoder.note_frames()
            start = position
            left = 0
            continue
        left += 1
        if left > MAX_LEFT or peer.backlog:
            break
        peer.serve_data(data[start : start + size])
        start += size
        if peer.decoder.failure is not None:
            return None
        if peer.closed or peer.backlog:
            break
    return data[start:]
