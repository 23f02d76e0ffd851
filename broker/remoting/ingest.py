"""The seam between a connection and vectorized ingest: whole reads instead of single frames.

An endpoint may have one :class:`ReadIngest`. A connection offers it each read that contains several
frames; it takes frames from the start of the read and sends their responses, and the connection
serves the rest, in order, as it serves every read of an endpoint without ingest.
"""

from typing import Final, Protocol

from broker.remoting.protocol.framing import FrameDecoder
from broker.remoting.protocol.rpc import Access

INGEST_LEAST_BYTES: Final = 1_024
"""Shorter reads are not offered."""

INGEST_LEAST_FRAMES: Final = 4
"""Reads shorter than this number of frames like their first one are not offered: the calls of
ingest cost as much as three frames on the plain path."""


class IngestPeer(Protocol):
    """The side of a connection that ingest uses."""

    access: Access
    decoder: FrameDecoder
    remote_host: bytes

    def send(self, frame: bytes) -> bool:
        """Queue an encoded frame."""
        ...


class ReadIngest(Protocol):
    """Takes frames from the start of a read."""

    def take(self, peer: IngestPeer, data: bytes) -> int:
        """Serve frames from the start of ``data``; return the number of bytes they have.

        Never raises for any content of ``data``.
        """
        ...


def ingest_read(peer: IngestPeer, ingest: ReadIngest, data: bytes) -> bytes:
    """Offer a read to ``ingest``; return the bytes that the plain path has to serve."""
    decoder = peer.decoder
    if len(data) < INGEST_LEAST_BYTES or decoder.failure is not None:
        return data
    if decoder.pending_bytes:
        joined = decoder.join_pending(data)
        if joined is None:
            return data
        data = joined
    if (int.from_bytes(data[:4], "big") + 4) * INGEST_LEAST_FRAMES > len(data):
        return data
    taken = ingest.take(peer, data)
    if not taken:
        return data
    decoder.note_frames()
    return data[taken:]
