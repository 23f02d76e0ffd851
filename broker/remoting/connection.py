"""One connection: received bytes, responses to send, calls waiting for a response.

A connection passes requests to its endpoint one by one, in the order of arrival, and writes all
responses of one read together. The endpoint decides how each request is handled.

::

    data_received ─ƒ decoder.feed→ frames ─ endpoint.answer(frame) … → share.write → turn

Back-pressure: when the transport's write buffer exceeds the pause mark, reading stops and decoded
frames wait in ``backlog``; beyond the limit the connection is closed. When serving the frames of
one read takes longer than one time slice, the rest waits there until other peers were served
(:class:`broker.remoting.lane.ServingShare`).

**Source:** RocketMQ NettyRemotingAbstract#processMessageReceived, #processResponseCommand,
NettyRemotingServer.NettyConnectManageHandler.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from typing import Any, Protocol, cast

from broker.common.address import encode_host, format_address, host_and_port
from broker.errors import (
    RemoteProtocolError,
    RemotingError,
    RequestTimeoutError,
    SendRequestError,
    TooMuchRequestError,
)
from broker.remoting.budget import MemoryBudget
from broker.remoting.direct import DIRECT_START, DirectRequest
from broker.remoting.ingest import TurnReads
from broker.remoting.lag import LAG_LIMIT_S, LoopLag
from broker.remoting.lane import ServingShare
from broker.remoting.limits import (
    CALL_TIMEOUT_MS,
    FLUSH_BYTES,
    JOIN_LIMIT_BYTES,
    UNSENT_COUNTED_BYTES,
    EndpointLimits,
)
from broker.remoting.peer_log import PeerLog, refusal_text
from broker.remoting.process import socket_bytes
from broker.remoting.process.socket_bytes import Buffer, write_parts
from broker.remoting.protocol.command import RemotingCommand, next_opaque
from broker.remoting.protocol.framing import FrameDecoder, encode_frame_parts, without_frames
from broker.remoting.protocol.rpc import Access
from broker.remoting.protocol.serialize import MAX_HEADER_BYTES, MAX_RESPONSE_HEADER_BYTES
from broker.remoting.security.access import AccessRules

Frame = RemotingCommand | bytes | list[Buffer]

log = logging.getLogger("broker.remoting")

monotonic_s = time.monotonic

FLAG_RESPONSE = 1
FLAG_ONEWAY = 2


def now_s() -> float:
    """Return the clock (s, monotonic) by which requests are served in turn."""
    return monotonic_s()


class _Endpoint(Protocol):
    """The side of :class:`broker.remoting.endpoint.Endpoint` that a connection uses."""

    access: AccessRules
    direct: dict[bytes, DirectRequest]
    lag: LoopLag
    limits: EndpointLimits
    memory: MemoryBudget[Connection]
    peer_log: PeerLog
    reads: TurnReads
    share: ServingShare
    tick: int

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    def connected(self, connection: Connection) -> None: ...
    def disconnected(self, connection: Connection) -> None: ...
    def answer(
        self, connection: Connection, command: RemotingCommand
    ) -> bytes | list[Buffer] | None: ...
    def answer_late(
        self, connection: Connection, command: RemotingCommand, waited_ms: float
    ) -> bytes | list[Buffer] | None: ...
    def defer(
        self, connection: Connection, commands: list[RemotingCommand]
    ) -> list[RemotingCommand]: ...
    def slow(self, code: int, seconds: float) -> None: ...
    def turn(self) -> None: ...
    def report_refused(self, address: str, text: str) -> None: ...


class Connection(asyncio.Protocol):
    """The asyncio protocol of one peer; handlers receive it as their first argument.

    Attributes for handlers: ``remote_address`` ("ip:port"), ``remote_host`` (8 or 20 bytes: address
    and port, as a record's born host), ``access`` (the peer's access level), ``attrs`` (for use by
    roles), ``closed``, ``dialled`` (the address requested if this side connected, else ""),
    ``received`` (number of reads that returned bytes).
    """

    __slots__ = (
        "access",
        "active_tick",
        "attrs",
        "backlog",
        "calls",
        "closed",
        "decoder",
        "deferred_bytes",
        "deferred_s",
        "descriptor",
        "dialled",
        "endpoint",
        "lost",
        "out",
        "out_bytes",
        "paused",
        "read_bytes",
        "received",
        "remote_address",
        "remote_host",
        "serving",
        "transport",
        "undecoded",
        "undecoded_bytes",
        "unfinished",
        "unsent",
        "yielding",
    )

    def __init__(self, endpoint: _Endpoint, dialled: str = "") -> None:
        self.endpoint = endpoint
        self.dialled = dialled
        self.decoder = self._new_decoder()
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.descriptor = socket_bytes.NO_SOCKET
        self.attrs: dict[str, Any] = {}
        self.calls: dict[int, asyncio.Future[RemotingCommand]] = {}
        self.out: list[Buffer] = []
        self.out_bytes = 0
        self.backlog: deque[RemotingCommand] = deque()
        self.closed = False
        self.paused = False
        self.serving = False
        self.received = 0
        self.unfinished = 0
        self.unsent = 0
        self.yielding = False
        # Frames in backlog that wait for their turn: since when, and the bytes charged for them.
        self.deferred_s = 0.0
        self.deferred_bytes = 0
        self.read_bytes = 0
        self.undecoded: list[bytes] = []
        self.undecoded_bytes = 0
        self.lost: Exception | None = None
        self.active_tick = endpoint.tick
        self.remote_address = ""
        self.remote_host = b""
        self.access = Access.PUBLIC

    # ---- transport events

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the peer's address and access level; register at the endpoint."""
        self.transport = cast(asyncio.Transport, transport)
        self.descriptor = socket_bytes.descriptor(transport)
        host, port = host_and_port(transport.get_extra_info("peername"))
        self.remote_address = format_address(host, port)
        self.remote_host = encode_host(host, port)
        self.access = self.endpoint.access.level_of(host)
        limits = self.endpoint.limits
        marks = limits.unsent_pause_bytes, limits.unsent_resume_bytes
        self.transport.set_write_buffer_limits(*marks)
        self.endpoint.connected(self)

    def data_received(self, data: bytes) -> None:
        """Decode received bytes, serve each request, write the responses together.

        Never raises: the event loop would report the error without the peer's address.
        """
        if self.closed:
            return
        endpoint = self.endpoint
        self.active_tick = endpoint.tick
        self.received += 1
        if not endpoint.lag.armed:
            endpoint.lag.arm(endpoint.loop)
        direct = endpoint.direct.get(data[DIRECT_START])
        served = direct is not None and direct.serve(self, data)
        if not served and not self._waits(data, len(self.undecoded)):
            self._feed(data)

    def serve_or_wait(self, data: bytes) -> None:
        """Serve bytes received before all that wait, now or in this peer's turn."""
        if not self._waits(data, 0):
            self.serve_data(data)

    def _waits(self, data: bytes, position: int) -> bool:
        """Whether received bytes have to wait for this peer's turn; they are then kept."""
        endpoint = self.endpoint
        if not self.undecoded and (self.yielding or not endpoint.share.used_up):
            return False
        # Decoding takes as long as serving: it waits for this peer's turn too.
        self.undecoded.insert(position, data)
        if endpoint.memory.reserve(self, len(data)):
            self.undecoded_bytes += len(data)
        if not self.yielding:
            self._wait_for_turn()
        return True

    def _feed(self, data: bytes) -> None:
        self.read_bytes = len(data)
        rest = data if self.backlog else self.endpoint.reads.add(self, data)
        if rest is not None:
            self.serve_data(rest)

    def serve_data(self, data: bytes) -> None:
        """Decode received bytes and serve each request; never raises."""
        endpoint = self.endpoint
        try:
            commands = self.decoder.feed(data)
            if self.unfinished or not commands:
                self._count_unfinished()
            if commands:
                if self.backlog:
                    self.backlog.extend(commands)
                    if self.deferred_s:
                        endpoint.share.frames += len(commands)
                else:
                    self._serve(commands)
            if self.decoder.failure is not None:
                self._refuse_broken()
        except RemoteProtocolError as error:
            self._refuse(without_frames(error))
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Close the connection after an unexpected error, which is logged with its trace."""
        text = "its bytes could not be processed: closing"
        self.endpoint.peer_log.warning(self.remote_address, text, error=error)
        self.abort(without_frames(error))

    def _refuse_broken(self) -> None:
        """Close a stream that cannot be decoded further, once the valid frames are served."""
        if (failure := self.decoder.failure) and not self.closed and not self.backlog:
            self._refuse(failure)

    def _new_decoder(self) -> FrameDecoder:
        longest_header = MAX_RESPONSE_HEADER_BYTES if self.dialled else MAX_HEADER_BYTES
        return FrameDecoder(self.endpoint.limits.frame_bytes, longest_header)

    def _count_unfinished(self) -> None:
        """Update the endpoint's budget to the size of this peer's partial frame."""
        before, self.unfinished = self.unfinished, self.decoder.pending_bytes
        self.endpoint.memory.adjust(self, before, self.unfinished)

    def _drop_unfinished(self) -> None:
        self.endpoint.memory.release(self, self.unfinished)
        self.unfinished = 0
        self.decoder = self._new_decoder()
        self._drop_undecoded()

    def eof_received(self) -> bool:
        """Close when the peer has finished sending: RocketMQ peers never half-close."""
        self.flush()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the pending calls, notify the endpoint, serve the sends and commits received before.

        Clients send their last ones right before they close the connection; Java serves them.
        """
        left = [] if self.closed else self._requests_left(exc)
        self.closed = True
        self.lost = self.lost or exc
        self._drop_unfinished()
        self._drop_backlog()
        self.out.clear()
        calls, self.calls = self.calls, {}
        for future in calls.values():
            if not future.done():
                future.set_exception(self._broken("the connection closed before the answer"))
        self.endpoint.disconnected(self)
        if left and self.endpoint.memory.reserve(self, self.read_bytes):
            self.deferred_bytes = self.read_bytes
            self.paused = False
            self.backlog.extend(left)
            self.deferred_s = monotonic_s()
            self.endpoint.share.frames += len(left)
            if not self.yielding:
                self._wait_for_turn()

    def _requests_left(self, error: Exception | None) -> list[RemotingCommand]:
        """Return the requests to serve after the close: those deferred, or not read by then."""
        commands = [*self.backlog]
        self.read_bytes += len(unread := socket_bytes.unread(self.transport, error))
        with contextlib.suppress(RemoteProtocolError):  # malformed bytes of a closed connection
            waiting = (self.endpoint.reads.drop(self), *self.undecoded, unread)
            commands += self.decoder.feed(b"".join(waiting))
        return [command for command in commands if command.is_served_after_close]

    def pause_writing(self) -> None:
        """Stop reading from a peer that does not read its responses.

        Only on the accepting side: if both sides stopped, two full pipes would deadlock.
        """
        self.paused = True
        if not self.closed and not self.dialled:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Serve the backlog, then resume reading."""
        self.paused = False
        self.active_tick = self.endpoint.tick
        if self.closed:
            return
        self.count_unsent()
        if not self.yielding and not self.serving:
            self._serve_backlog()

    def _yield(self, rest: list[RemotingCommand], since_s: float) -> None:
        """Defer the remaining frames, received at ``since_s``, so that other peers come first."""
        # One read at most waits, since reading pauses: a peer at its limit is not closed for it.
        if not self.deferred_bytes and self.endpoint.memory.reserve(self, self.read_bytes):
            self.deferred_bytes = self.read_bytes
        rest = self.endpoint.defer(self, rest)
        self.backlog.extendleft(reversed(rest))
        self.deferred_s = since_s
        self._wait_for_turn()

    def _wait_for_turn(self) -> None:
        self.yielding = True
        if not self.dialled and not self.closed:
            self.transport.pause_reading()
        self.endpoint.share.wait(self)

    def end_yield(self) -> None:
        """Continue with the frames that were deferred."""
        self.yielding = False
        if self.paused:
            # From now on the requests wait for their own peer, which must read its responses first.
            self._end_wait()
        elif self.backlog or not self.closed:
            self._serve_backlog()

    def _serve_backlog(self) -> None:
        """Serve the frames of ``backlog``; resume reading when it is empty."""
        if self.backlog:
            commands, since_s = list(self.backlog), self.deferred_s
            self._drop_backlog()
            self._serve(commands, since_s)
        if self.undecoded and not (self.yielding or self.paused or self.closed):
            data = b"".join(self.undecoded)
            self._drop_undecoded()
            self._feed(data)
        self._refuse_broken()
        if not self.paused and not self.yielding and not self.closed and not self.dialled:
            self.transport.resume_reading()

    def _drop_undecoded(self) -> None:
        self.endpoint.memory.release(self, self.undecoded_bytes)
        self.undecoded_bytes = 0
        self.undecoded.clear()

    def _end_wait(self) -> None:
        if self.deferred_s:
            self.endpoint.share.frames -= len(self.backlog)
            self.deferred_s = 0.0

    def _drop_backlog(self) -> None:
        self._end_wait()
        if self.deferred_bytes:
            self.endpoint.memory.release(self, self.deferred_bytes)
            self.deferred_bytes = 0
        self.backlog.clear()

    # ---- requests of the peer

    def _serve(self, commands: list[RemotingCommand], since_s: float = 0.0) -> None:
        """Serve frames; ``since_s`` is the time at which they were deferred, 0 if they were not."""
        endpoint = self.endpoint
        then_s = monotonic_s()
        ends_s = endpoint.share.begin(then_s)
        if then_s > ends_s:
            self._yield(commands, since_s or then_s)
            return
        late_ms = (then_s - since_s) * 1000 if since_s else -1.0
        self.serving = True
        try:
            for position, command in enumerate(commands):
                if position:
                    now_s = monotonic_s()
                    if now_s - then_s > LAG_LIMIT_S:
                        endpoint.slow(commands[position - 1].code, now_s - then_s)
                    if now_s > ends_s:
                        self._yield(commands[position:], since_s or now_s)
                        break
                    then_s = now_s
                if command.flag & FLAG_RESPONSE:
                    self._answered(command)
                    continue
                if late_ms >= 0:
                    answer = endpoint.answer_late(self, command, late_ms)
                else:
                    answer = endpoint.answer(self, command)
                if answer is None:
                    continue
                if type(answer) is bytes:
                    self.out.append(answer)
                    self.out_bytes += len(answer)
                else:
                    for part in answer:
                        self.out.append(cast(Buffer, part))
                        self.out_bytes += len(cast(Buffer, part))
                if self.out_bytes >= FLUSH_BYTES:
                    self.flush()
                    if self.paused:
                        self.backlog.extend(commands[position + 1 :])
                        break
            else:
                now_s = monotonic_s()
                if now_s - then_s > LAG_LIMIT_S:
                    endpoint.slow(commands[-1].code, now_s - then_s)
        finally:
            self.serving = False
        if self.out:
            endpoint.share.write(self, self.out_bytes)
        endpoint.turn()

    def _answered(self, command: RemotingCommand) -> None:
        future = self.calls.get(command.opaque)
        if future is None:
            text = f"answer to no call: opaque {command.opaque} code {command.code}"
            log.debug("%s: %s", self.remote_address, text)
        elif not future.done():
            future.set_result(command)

    def _refuse(self, error: RemoteProtocolError) -> None:
        """Close a connection that sent invalid frames; log one line with the cause."""
        self.endpoint.report_refused(self.remote_address, refusal_text(error))
        self.lost = error
        self.close()
        self._drop_backlog()
        self._drop_undecoded()

    # ---- outgoing responses and requests

    def send(self, frame: Frame) -> bool:
        """Queue a command or an encoded frame for this peer; False when the connection is closed.

        Frames queued within one loop iteration are written together.
        """
        if self.closed:
            return False
        if type(frame) is bytes:
            self.out.append(frame)
            self.out_bytes += len(frame)
        else:
            parts = encode_frame_parts(frame) if isinstance(frame, RemotingCommand) else list(frame)
            for part in parts:
                self.out.append(cast(Buffer, part))
                self.out_bytes += len(cast(Buffer, part))
        if not self.serving:
            self.endpoint.share.write_later(self)
        return True

    def flush(self) -> None:
        """Pass queued frames to the transport; abort if unsent bytes exceed the limit."""
        out = self.out
        if not out or self.closed:
            return
        self.endpoint.share.before_write()
        transport = self.transport
        self.out = []
        if len(out) == 1 or self.out_bytes <= JOIN_LIMIT_BYTES:
            transport.write(out[0] if len(out) == 1 else b"".join(out))
        else:
            write_parts(transport, self.descriptor, out, self.out_bytes)
        self.out_bytes = 0
        if self.unsent or transport.get_write_buffer_size() > UNSENT_COUNTED_BYTES:
            self.count_unsent()
        if not self.paused:
            self.active_tick = self.endpoint.tick
        elif not self.dialled and self._over_limit():
            unsent = transport.get_write_buffer_size()
            limit = self.endpoint.limits.unsent_limit_bytes
            text = f"does not read: {unsent} unsent bytes are over the limit of {limit}: closing"
            log.warning("%s: %s", self.remote_address, text)
            self.abort(None)

    def count_unsent(self) -> None:
        """Update the endpoint's budget to this peer's unsent bytes."""
        before, self.unsent = self.unsent, self.transport.get_write_buffer_size()
        self.endpoint.memory.adjust(self, before, self.unsent)

    def _over_limit(self) -> bool:
        return self.transport.get_write_buffer_size() > self.endpoint.limits.unsent_limit_bytes

    async def call(
        self, command: RemotingCommand, timeout_ms: float = CALL_TIMEOUT_MS
    ) -> RemotingCommand:
        """Send a request and wait for its response.

        Raises SendRequestError when the connection is or gets closed, RequestTimeoutError after
        ``timeout_ms``, TooMuchRequestError when too many calls or unsent bytes are pending.

        **Source:** RocketMQ NettyRemotingAbstract#invokeSyncImpl
        """
        future = self.begin_call(command)
        loop = self.endpoint.loop
        timer = loop.call_later(timeout_ms / 1000, self._timed_out, command, timeout_ms)
        try:
            return await future
        finally:
            timer.cancel()
            self.calls.pop(command.opaque, None)

    def begin_call(self, command: RemotingCommand) -> asyncio.Future[RemotingCommand]:
        """Send a request; the future gets its response or SendRequestError, never a timeout."""
        if self.closed:
            raise self._broken("the connection is closed", command.code)
        limits = self.endpoint.limits
        if self.paused and self._over_limit():
            raise TooMuchRequestError(
                f"{self.remote_address}: over {limits.unsent_limit_bytes} bytes are unsent",
                "the peer does not read as fast as it is asked",
                address=self.remote_address,
                request_code=command.code,
            )
        if len(self.calls) >= limits.calls_per_connection:
            raise TooMuchRequestError(
                f"{self.remote_address}: {len(self.calls)} calls wait for an answer already",
                "wait for answers before asking more",
                address=self.remote_address,
                request_code=command.code,
            )
        while command.opaque in self.calls:
            command.opaque = next_opaque()
        future: asyncio.Future[RemotingCommand] = self.endpoint.loop.create_future()
        self.calls[command.opaque] = future
        self.send(command)
        return future

    def oneway(self, command: RemotingCommand) -> bool:
        """Send a one-way request; False when the connection is closed."""
        command.flag |= FLAG_ONEWAY
        return self.send(command)

    def _timed_out(self, command: RemotingCommand, timeout_ms: float) -> None:
        future = self.calls.get(command.opaque)
        if future is not None and not future.done():
            future.set_exception(
                RequestTimeoutError(
                    f"{self.dialled or self.remote_address}: no answer to request code "
                    f"{command.code} within {timeout_ms:g} ms",
                    address=self.dialled or self.remote_address,
                    request_code=command.code,
                )
            )

    def _broken(self, reason: str, request_code: int = -1) -> RemotingError:
        address = self.dialled or self.remote_address
        cause = f": {self.lost}" if self.lost else ""
        return SendRequestError(
            f"{address}: {reason}{cause}", address=address, request_code=request_code
        )

    # ---- closing

    def close(self, reason: str = "") -> None:
        """Write queued frames, then close; ``reason`` is logged."""
        if self.closed:
            return
        if reason:
            log.info("%s: closing: %s", self.remote_address, reason)
        self.flush()
        if not self.closed:
            self.closed = True
            self.transport.close()

    def abort(self, error: Exception | None = None) -> None:
        """Close immediately; unsent bytes are dropped."""
        self.closed = True
        self.lost = self.lost or error
        self._drop_unfinished()
        self.out.clear()
        self._drop_backlog()
        self.transport.abort()
