"""One peer: its bytes in, its answers out, the calls that wait for it.

A connection decides nothing about requests: it hands them to its endpoint one by one, in the
order of arrival, and writes all answers of one read together.

::

    data_received ─ƒ decoder.feed→ frames ─ endpoint.answer(frame) … → one write → turn

Back-pressure: when the transport holds more than the pause mark, reading stops and frames that
were already decoded wait in ``backlog``; beyond the limit the connection is closed.

**Source:** RocketMQ NettyRemotingAbstract#processMessageReceived, #processResponseCommand,
NettyRemotingServer.NettyConnectManageHandler.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from broker.common.address import encode_host, format_address, is_loopback
from broker.errors import (
    ForeignProtocolError,
    RemoteProtocolError,
    RemotingError,
    RequestTimeoutError,
    SendRequestError,
    TooMuchRequestError,
)
from broker.remoting.limits import CALL_TIMEOUT_MS, FLUSH_BYTES, JOIN_LIMIT_BYTES
from broker.remoting.protocol.command import RemotingCommand, next_opaque
from broker.remoting.protocol.framing import FrameDecoder, encode_frame_parts

if TYPE_CHECKING:
    from broker.remoting.endpoint import Endpoint

Buffer = bytes | bytearray | memoryview
Frame = RemotingCommand | bytes | list[Buffer]

log = logging.getLogger("broker.remoting")

FLAG_RESPONSE = 1
FLAG_ONEWAY = 2


class Connection(asyncio.Protocol):
    """The byte carrier of one peer; handlers get it as their first argument.

    Attributes for handlers: ``remote_address`` ("ip:port"), ``remote_host`` (8 or 20 bytes: address
    and port, as a record's born host), ``is_loopback``, ``attrs`` (free for roles), ``closed``,
    ``dialled`` (the address asked for when this side connected, else ""), ``received`` (reads with
    bytes in them so far).
    """

    __slots__ = (
        "active_tick",
        "attrs",
        "backlog",
        "calls",
        "closed",
        "decoder",
        "dialled",
        "endpoint",
        "is_loopback",
        "lost",
        "out",
        "out_bytes",
        "paused",
        "received",
        "remote_address",
        "remote_host",
        "serving",
        "transport",
        "unfinished",
    )

    def __init__(self, endpoint: Endpoint, dialled: str = "") -> None:
        self.endpoint = endpoint
        self.dialled = dialled
        self.decoder = FrameDecoder(endpoint.limits.frame_bytes)
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
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
        self.lost: Exception | None = None
        self.active_tick = endpoint.tick
        self.remote_address = ""
        self.remote_host = b""
        self.is_loopback = False

    # ---- transport events

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Learn who the peer is and ask the endpoint for admission."""
        self.transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        host, port = _peer_address(peer)
        self.remote_address = format_address(host, port)
        self.remote_host = encode_host(host, port)
        self.is_loopback = is_loopback(host)
        limits = self.endpoint.limits
        self.transport.set_write_buffer_limits(
            high=limits.unsent_pause_bytes, low=limits.unsent_resume_bytes
        )
        self.endpoint.connected(self)

    def data_received(self, data: bytes) -> None:
        """Decode what arrived, let each request be answered, write the answers together."""
        if self.closed:
            return
        self.active_tick = self.endpoint.tick
        self.received += 1
        try:
            commands = self.decoder.feed(data)
        except RemoteProtocolError as error:
            self._refuse(error)
            return
        if self.unfinished or not commands:
            self._count_unfinished()
        if commands:
            if self.backlog:
                self.backlog.extend(commands)
            else:
                self._serve(commands)
        if self.decoder.failure is not None and not self.closed:
            self._refuse(self.decoder.failure)

    def _count_unfinished(self) -> None:
        """Keep the endpoint's sum of begun frames, and close the peer that breaks its bound."""
        endpoint = self.endpoint
        held = self.decoder.pending_bytes
        endpoint.unfinished_bytes += held - self.unfinished
        self.unfinished = held
        if endpoint.unfinished_bytes > endpoint.limits.unfinished_limit_bytes and held:
            endpoint.report_refused(
                f"{self.remote_address}: begun frames hold {endpoint.unfinished_bytes} bytes, over "
                f"the limit of {endpoint.limits.unfinished_limit_bytes}: closing"
            )
            self.abort()

    def eof_received(self) -> bool:
        """Close when the peer has finished sending: RocketMQ peers never half-close."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the calls that wait for an answer and tell the endpoint."""
        self.closed = True
        self.lost = self.lost or exc
        self.endpoint.unfinished_bytes -= self.unfinished
        self.unfinished = 0
        self.backlog.clear()
        self.out.clear()
        calls, self.calls = self.calls, {}
        for future in calls.values():
            if not future.done():
                future.set_exception(self._broken("the connection closed before the answer"))
        self.endpoint.disconnected(self)

    def pause_writing(self) -> None:
        """Stop reading from a peer that does not take its answers.

        Only on the accepting side: if both sides did it, two full pipes would wait for each other.
        """
        self.paused = True
        if not self.closed and not self.dialled:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on with the frames that waited, then read again."""
        self.paused = False
        self.active_tick = self.endpoint.tick
        if self.closed:
            return
        if self.backlog and not self.serving:
            commands = list(self.backlog)
            self.backlog.clear()
            self._serve(commands)
        if not self.paused and not self.closed and not self.dialled:
            self.transport.resume_reading()

    # ---- requests of the peer

    def _serve(self, commands: list[RemotingCommand]) -> None:
        endpoint = self.endpoint
        out = self.out
        self.serving = True
        try:
            for position, command in enumerate(commands):
                if command.flag & FLAG_RESPONSE:
                    self._answered(command)
                    continue
                answer = endpoint.answer(self, command)
                if answer is None:
                    continue
                if type(answer) is bytes:
                    out.append(answer)
                    self.out_bytes += len(answer)
                else:
                    for part in answer:
                        out.append(cast(Buffer, part))
                        self.out_bytes += len(cast(Buffer, part))
                if self.out_bytes >= FLUSH_BYTES:
                    self.flush()
                    if self.paused:
                        self.backlog.extend(commands[position + 1 :])
                        break
        finally:
            self.serving = False
        if out:
            self.flush()
        endpoint.turn()

    def _answered(self, command: RemotingCommand) -> None:
        future = self.calls.get(command.opaque)
        if future is None:
            log.debug(
                "%s: answer to no call: opaque %d code %d",
                self.remote_address,
                command.opaque,
                command.code,
            )
        elif not future.done():
            future.set_result(command)

    def _refuse(self, error: RemoteProtocolError) -> None:
        """Close on bytes that are no frame; one log line says what they were."""
        if isinstance(error, ForeignProtocolError):
            text = f"{error.kind} bytes on a RocketMQ remoting port: closing"
        else:
            text = f"bytes that are no remoting frame: {error.message}: closing"
        self.endpoint.report_refused(f"{self.remote_address}: {text}")
        self.lost = error
        self.close()
        self.backlog.clear()

    # ---- answers and requests of ours

    def send(self, frame: Frame) -> bool:
        """Queue a command or a ready frame for this peer; False when the connection is closed.

        Frames sent within one pass of the loop leave in one write.
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
            self.endpoint.flush_soon(self)
        return True

    def flush(self) -> None:
        """Hand everything queued to the transport, and judge whether the peer still reads."""
        out = self.out
        if not out or self.closed:
            return
        transport = self.transport
        if len(out) == 1:
            data = out[0]
            out.clear()
            transport.write(data)
        elif self.out_bytes <= JOIN_LIMIT_BYTES:
            data = b"".join(out)
            out.clear()
            transport.write(data)
        else:
            parts = out.copy()
            out.clear()
            transport.writelines(parts)
        self.out_bytes = 0
        if not self.paused:
            self.active_tick = self.endpoint.tick
        elif not self.dialled and self._over_limit():
            unsent = transport.get_write_buffer_size()
            log.warning(
                "%s: does not read: %d unsent bytes are over the limit of %d: closing",
                self.remote_address,
                unsent,
                self.endpoint.limits.unsent_limit_bytes,
            )
            self.abort(None)

    def _over_limit(self) -> bool:
        limit = self.endpoint.limits.unsent_limit_bytes
        return self.transport.get_write_buffer_size() > limit

    async def call(
        self, command: RemotingCommand, timeout_ms: float = CALL_TIMEOUT_MS
    ) -> RemotingCommand:
        """Send a request and wait for its answer.

        Raises SendRequestError when the connection is or gets closed, RequestTimeoutError after
        ``timeout_ms``, TooMuchRequestError when too many calls wait already.

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
        """Send a request; the future gets its answer or SendRequestError, never a timeout."""
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
        """Send a request nobody waits for; False when the connection is closed."""
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

    # ---- the end

    def close(self, reason: str = "") -> None:
        """Close after what is queued has been written; ``reason`` goes to the log."""
        if self.closed:
            return
        if reason:
            log.info("%s: closing: %s", self.remote_address, reason)
        self.flush()
        if not self.closed:
            self.closed = True
            self.transport.close()

    def abort(self, error: Exception | None = None) -> None:
        """Close at once; unsent bytes are dropped."""
        self.closed = True
        self.lost = self.lost or error
        self.out.clear()
        self.backlog.clear()
        self.transport.abort()


def _peer_address(peer: Any) -> tuple[str, int]:
    """Host and port of a peer; an IPv4 address in IPv6 clothes is shown as IPv4."""
    if not isinstance(peer, tuple) or len(peer) < 2:
        return "0.0.0.0", 0
    host = str(peer[0]).partition("%")[0]
    if host.startswith("::ffff:") and "." in host:
        host = host[7:]
    return host, int(peer[1])
