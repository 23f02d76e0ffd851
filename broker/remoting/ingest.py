"""The seam between connections and vectorized ingest: the reads of one loop iteration together.

An endpoint may have one :class:`TurnIngest`. The reads of all connections in one iteration of the
event loop, its *turn*, then wait in :class:`TurnReads` and are offered together before the next
sockets are read. Ingest takes frames from the start of each connection's bytes and sends their
responses; a frame that it leaves is served by the plain path, and the rest of the turn is offered
again, so that the frames of a connection are served in order.

::

    data_received … data_received ─ one call_soon → serve_turn ─┬─ few frames: plain path
                                                                └─ take → left frames → take …

Reads wait only while turns have many frames: a single request is served where it arrives. No byte
waits for longer than one iteration, and nothing is kept after it.
"""

from asyncio import AbstractEventLoop
from collections.abc import Sequence, Sized
from typing import Final, Protocol

from broker.remoting.lane import ServingShare
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.framing import FrameDecoder
from broker.remoting.protocol.rpc import Access

LEAST_FRAMES: Final = 24
"""Turns of fewer frames take the plain path.

The requests of n connections with one in flight arrive as two turns in alternation, together n
frames. Measured rates relative to the plain path, with a limit of 8: 8 and 16 connections 0.8, 24
and 32 1.05, 64 1.15; with a limit of 16: 16 connections 0.95, 24 1.0.
"""

MAX_LEFT: Final = 2
"""Frames left in a row after which the plain path serves the rest of a connection's bytes."""

TURN_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a turn; more are served at once."""

SMALL_TURNS: Final = 4
"""Turns of few frames in a row after which reads are served where they arrive."""

SMALL_ITERATIONS: Final = 32
"""Iterations of few frames in a row after which short reads are not counted for a while."""

UNCOUNTED_ITERATIONS: Final = 64
"""Iterations in which short reads are served without counting their frames (2 us each)."""

LEAST_SEND: Final = 128
"""A shorter read than so many bytes per frame does not have that many sends."""

_BATCH: Final = RequestCode.SEND_BATCH_MESSAGE
_SENDS: Final = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, _BATCH)
_JSON_STARTS: Final = tuple(b'{"code":%d,' % code for code in _SENDS)
_BINARY_STARTS: Final = tuple(code.to_bytes(2, "big") for code in _SENDS)
_SEND_STARTS: Final = _JSON_STARTS + _BINARY_STARTS
_BATCH_STARTS: Final = (_JSON_STARTS[-1], _BINARY_STARTS[-1])


class IngestPeer(Protocol):
    """The side of a connection that ingest uses."""

    access: Access
    decoder: FrameDecoder
    read_bytes: int
    remote_host: bytes
    unfinished: int

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

    def serve_or_wait(self, data: bytes) -> None:
        """Serve received bytes now, or after other peers if this iteration has no time left."""
        ...

    def fail(self, error: Exception) -> None:
        """Close the connection after an unexpected error."""
        ...


class Segment:
    """The bytes of one connection in a turn; those before ``position`` were served.

    ``offered`` is the position at which ingest took frames last, ``left`` the number of frames in a
    row that it left.
    """

    __slots__ = ("data", "left", "offered", "peer", "position")

    def __init__(self, peer: IngestPeer, data: bytes) -> None:
        self.peer = peer
        self.data = data
        self.position = 0
        self.offered = 0
        self.left = 0

    @property
    def rest(self) -> bytes:
        """The bytes that were not served."""
        return self.data[self.position :] if self.position else self.data

    @property
    def frame_size(self) -> int:
        """The size that the next frame declares."""
        return int.from_bytes(self.data[self.position : self.position + 4], "big") + 4

    @property
    def frames(self) -> int:
        """About how many frames are left; see :func:`count_frames`."""
        return count_frames(self.data, self.position)


class TurnIngest(Protocol):
    """Takes frames of turns that have ``least_frames`` at least."""

    least_frames: int

    def take(self, segments: Sequence[Segment]) -> int:
        """Serve frames from the position of each segment on, and advance the position.

        Returns how many segments came to a frame that it leaves, or to their end; the others are to
        be offered again. Never raises for any content.
        """
        ...


class TurnOwner(Protocol):
    """The side of an endpoint that the turn uses."""

    ingest: TurnIngest | None
    share: ServingShare

    @property
    def loop(self) -> AbstractEventLoop:
        """The running event loop."""
        ...


class TurnReads:
    """The reads of one turn, of all connections of an endpoint."""

    def __init__(self, owner: TurnOwner) -> None:
        self._owner = owner
        self._reads: dict[IngestPeer, list[bytes]] = {}
        self.pending = 0  # bytes that are kept
        self._frames = 0
        self._scheduled = False
        self._collecting = 0  # turns of few frames until reads are served where they arrive
        self._iteration = -1
        self._seen = 0  # frames of this iteration that were served where they arrived
        self._small = 0  # iterations of few frames in a row
        self._uncounted_until = -1  # iteration from which on short reads are counted

    def add(self, peer: IngestPeer, data: bytes) -> bytes | None:
        """Keep a read until the end of the turn, or return the bytes that are to be served now."""
        ingest = self._owner.ingest
        if ingest is None:
            return data
        known = self._reads.get(peer)
        if known is not None:
            known.append(data)
            peer.read_bytes = sum(map(len, known))
        else:
            least = ingest.least_frames
            short = len(data) < least * LEAST_SEND
            if short and self._owner.share.iteration < self._uncounted_until:
                return data
            decoder = peer.decoder
            if decoder.failure is not None:
                return data
            if short and not (decoder.pending_bytes or starts_with_send(data)):
                return data  # other requests do not get slower by ingest
            if decoder.pending_bytes:
                joined = decoder.join_pending(data)
                if joined is None:
                    return data
                data = joined
            frames = count_frames(data, 0)
            if frames < least and not starts_with_send(data):
                return data
            if not self._collecting and not self._are_many(frames, least):
                return data
            self._reads[peer] = [data]
            self._frames += frames
        self.pending += len(data)
        if self.pending > TURN_BYTES:
            self.serve()
        elif not self._scheduled:
            self._scheduled = True
            self._owner.loop.call_soon(self._end_turn)
        return None

    def drop(self, peer: IngestPeer) -> bytes:
        """Remove and return the bytes of a connection that was lost."""
        return b"".join(self._reads.pop(peer, ()))

    def _are_many(self, frames: int, least: int) -> bool:
        """Count a read that arrives while reads do not wait; whether they do from now on."""
        iteration = self._owner.share.iteration
        if iteration != self._iteration:
            self._iteration = iteration
            self._small += 1
            if self._small >= SMALL_ITERATIONS:
                self._small -= SMALL_TURNS
                self._uncounted_until = iteration + UNCOUNTED_ITERATIONS
            self._seen = 0
        self._seen += frames
        if self._seen < least:
            return False
        self._collecting = SMALL_TURNS
        self._small = 0
        self._uncounted_until = -1
        return True

    def _end_turn(self) -> None:
        self._scheduled = False
        self.serve()

    def serve(self) -> None:
        """Serve all reads of the turn; those of connections that were closed since are dropped."""
        reads, self._reads = self._reads, {}
        frames, self._frames = self._frames, 0
        self.pending = 0
        ingest = self._owner.ingest
        if ingest is None or frames < ingest.least_frames:
            self._collecting = max(0, self._collecting - 1)
            for peer, parts in reads.items():
                if not peer.closed:
                    peer.serve_or_wait(b"".join(parts))
            return
        self._collecting = SMALL_TURNS
        segments = [
            Segment(peer, b"".join(parts)) for peer, parts in reads.items() if not peer.closed
        ]
        try:
            segments = self._offer(ingest, segments)
        except Exception as error:  # a defect closes the connections of its turn only
            for segment in segments:
                segment.peer.fail(error)
            return
        for segment in segments:
            if not segment.peer.closed:
                segment.peer.serve_or_wait(segment.rest)

    def _offer(self, ingest: TurnIngest, segments: list[Segment]) -> list[Segment]:
        """Let ingest take frames, serve those that it leaves; return the segments that remain."""
        while True:
            done = ingest.take(segments)
            left = [segment for segment in segments[:done] if self._serve_left(segment)]
            segments = left + segments[done:]
            if self._owner.share.used_up:
                return segments
            if sum(segment.frames for segment in segments) < ingest.least_frames:
                return segments

    def _serve_left(self, segment: Segment) -> bool:
        """Serve the frame that ingest left; whether bytes are left that it may take."""
        peer, data, start = segment.peer, segment.data, segment.position
        if start > segment.offered:
            peer.decoder.note_frames()
            segment.left = 0
        end = start + segment.frame_size
        if end > len(data):
            if start < len(data) or peer.unfinished:
                peer.serve_data(segment.rest)
            return False
        if self._owner.share.used_up:
            return True
        segment.left += 1
        if segment.left > MAX_LEFT or peer.backlog:
            peer.serve_data(segment.rest)
            return False
        peer.serve_data(data[start:end])
        segment.position = segment.offered = end
        if peer.decoder.failure is not None or end == len(data):
            return False
        if peer.closed or peer.backlog:
            peer.serve_data(segment.rest)
            return False
        return True


def count_frames(data: bytes, start: int) -> int:
    """Estimate the frames from ``start`` on, 1 at least: all are as long as the first one.

    A batch counts as its messages, which cost about half as much on the plain path.
    """
    size = int.from_bytes(data[start : start + 4], "big") + 4
    whole = (len(data) - start) // size
    if 0 < whole < LEAST_FRAMES and data.startswith(_BATCH_STARTS, start + 8):
        body = start + 8 + int.from_bytes(data[start + 5 : start + 8], "big")
        item = int.from_bytes(data[body : body + 4], "big")
        whole += max(0, start + size - body) // max(1, item) - 1
    return max(1, whole)


def starts_with_send(data: bytes) -> bool:
    """Whether the first frame is a send as clients encode it: the code comes first.

    Both encodings are compared at once: the first bytes of a JSON header are never a code.
    """
    return data.startswith(_SEND_STARTS, 8)
