"""The direct path: a read that is one frequent request is answered without a command object.

::

    data_received ─ one whole frame with the start of a direct request ─ answer ─┬─ parts: written
                                                                                 └─ None ↓
                                                                            all other reads ↓
                                                            TurnReads ─ decoder ─ Connection._serve

A consumer that catches up has one request in flight: each of its reads is one pull. The ordinary
path serves any sequence of requests, and takes 5 us more for such a read. A request that ``answer``
leaves is decoded again there.
"""

import time
from collections.abc import Callable, Sized
from typing import Any, Final, Literal, Protocol

import msgspec

from broker.remoting.ingest import TurnReads
from broker.remoting.lag import LAG_LIMIT_S
from broker.remoting.lane import Lane, ServingShare, Waiting
from broker.remoting.limits import FLUSH_BYTES
from broker.remoting.protocol.framing import PREFIX, FrameDecoder
from broker.remoting.protocol.header.fields import Int32
from broker.remoting.protocol.rpc import Access

monotonic_s = time.monotonic

DIRECT_BYTES: Final = 4096
"""Longer reads are not one frequent request."""

DIRECT_START: Final = slice(8, 19)
"""Where a frame has the start of a JSON header whose code has two digits."""


class DirectHeader(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    gc=False,
    forbid_unknown_fields=True,
    rename={"ext_fields": "extFields", "serialize_type": "serializeTypeCurrentRPC"},
):
    """The JSON header of a direct request; subclasses add ``code`` and ``ext_fields``."""

    opaque: Int32
    flag: Literal[0] = 0
    language: str | int | None = None
    version: Int32 = 0
    remark: str | None = None
    serialize_type: str | None = None


class _Endpoint(Protocol):
    """The side of an endpoint that the direct path uses."""

    authorize: Any
    reads: TurnReads
    share: ServingShare
    turn_end: Callable[[], None] | None

    def slow(self, code: int, seconds: float) -> None: ...
    def turn(self) -> None: ...


class DirectPeer(Waiting, Protocol):
    """The side of a connection that the direct path uses."""

    access: Access
    decoder: FrameDecoder
    out: list[Any]
    out_bytes: int
    yielding: bool

    @property
    def backlog(self) -> Sized:
        """Frames that wait for their turn."""
        ...

    @property
    def undecoded(self) -> Sized:
        """Reads that wait for their turn."""
        ...


class _Route(Protocol):
    """The side of a route that the direct path uses."""

    access: Access
    code: int

    @property
    def lane(self) -> Lane[Any]: ...


DirectAnswer = Callable[[Any, bytes], tuple[int, list[Any]] | None]


class DirectRequest:
    """A request code of the direct path.

    ``answer(connection, header)`` returns the size (bytes) and the parts of the encoded response to
    a JSON header, or None to leave it; then it has changed nothing.
    """

    __slots__ = ("answer", "endpoint", "route", "start")

    def __init__(self, endpoint: _Endpoint, route: _Route, answer: DirectAnswer) -> None:
        self.answer = answer
        self.endpoint = endpoint
        self.route = route
        self.start = b'{"code":%d,' % route.code
        assert len(self.start) == DIRECT_START.stop - DIRECT_START.start

    def serve(self, connection: DirectPeer, data: bytes) -> bool:
        """Answer a read that is one whole frame; False, and nothing done, if it is not ordinary.

        The caller has compared ``start``.
        """
        endpoint, lane, decoder = self.endpoint, self.route.lane, connection.decoder
        size = len(data)
        if (
            size > DIRECT_BYTES
            or data[:8] != PREFIX.pack(size - 4, size - 8)
            or decoder.needed
            or decoder.failure is not None
            or connection.backlog
            or connection.undecoded
            or connection.yielding
            or endpoint.reads.pending
            or endpoint.authorize is not None
            or self.route.access > connection.access
            or lane.rejecting
            or lane.queue
            or lane.running >= lane.limits.concurrency
        ):
            return False
        began_s = monotonic_s()
        share = endpoint.share
        ends_s = share.ends_s
        if began_s > (ends_s if ends_s is not None else share.begin(began_s)):
            return False
        try:
            answer = self.answer(connection, data[8:])
        except Exception:  # the ordinary path meets it again, and reports it
            return False
        if answer is None:
            return False
        elapsed_s = monotonic_s() - began_s
        if elapsed_s > LAG_LIMIT_S:
            endpoint.slow(self.route.code, elapsed_s)
        size, parts = answer
        if connection.out:
            connection.out += parts
        else:
            connection.out = parts
        connection.out_bytes += size
        if connection.out_bytes >= FLUSH_BYTES:
            connection.flush()
        if connection.out:
            share.direct += 1
            share.write(connection, connection.out_bytes)
        if endpoint.turn_end is not None:
            endpoint.turn()
        return True
