"""The blocking client: sockets and a deadline, no event loop, no threads.

For short-lived programs: a command of the toolkit starts several times faster without an event
loop. Many calls can be in flight at once: ``call_all`` keeps one connection per address, sends
all requests, and collects responses as they arrive.

::

    with BlockingClient(timeout_ms=5_000) as client:
        answer = client.call("127.0.0.1:9876", request(106))
        answers = client.call_all([(master, request(202, {"topic": "T"})) for master in masters])

Per connection: TCP (and TLS) handshake → requests written as the socket accepts them → response
frames matched by opaque. Every wait ends at the deadline. An idle connection that the peer closed
is replaced before a request is sent. Once bytes have been sent, a request is never repeated, except
after GO_AWAY, which means that the peer did not execute it.

**Source:** RocketMQ NettyRemotingClient#invokeSync, #getAndCreateChannel.
"""

import errno
import selectors
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from broker.common.address import connect_refused, lookup_name, parse_address
from broker.errors import (
    BrokerError,
    ConnectError,
    RemoteProtocolError,
    RequestTimeoutError,
    RocketMQError,
    SendRequestError,
)
from broker.remoting.limits import CONNECT_TIMEOUT_MS, FRAME_LIMIT_BYTES
from broker.remoting.protocol.codes import ResponseCode, request_name
from broker.remoting.protocol.command import RemotingCommand, next_opaque, response
from broker.remoting.protocol.framing import FrameDecoder, encode_frame
from broker.remoting.protocol.serialize import MAX_RESPONSE_HEADER_BYTES

if TYPE_CHECKING:
    import ssl

Call = tuple[str, RemotingCommand]
Signer = Callable[[RemotingCommand], None]
Trace = Callable[[str, int | None, str, float], None]

READ_BYTES = 256 * 1024
"""Largest number of bytes read from a socket at once."""

_CONNECTING = {errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY}


def _wants_more(error: OSError) -> bool:
    """Whether TLS only asks to be called again (compares names: ssl may not be loaded)."""
    return type(error).__name__ in ("SSLWantReadError", "SSLWantWriteError")


class _Pending:
    """One call in flight: the index of its result and its start time."""

    __slots__ = ("address", "began", "command", "place", "repeated")

    def __init__(self, address: str, command: RemotingCommand, place: int) -> None:
        self.address = address
        self.command = command
        self.place = place
        self.began = time.monotonic()
        self.repeated = False


class _Channel:
    """One non-blocking connection: handshake state, unsent bytes, pending calls."""

    __slots__ = (
        "address",
        "addresses",
        "answered",
        "began",
        "decoder",
        "dialled",
        "handshaking",
        "open",
        "out",
        "server_name",
        "sock",
        "tls",
        "waiting",
        "wants",
    )

    def __init__(self, address: str, dialled: str, tls: "ssl.SSLContext | None") -> None:
        self.address = address
        self.dialled = dialled
        self.tls = tls
        self.decoder = FrameDecoder(FRAME_LIMIT_BYTES, MAX_RESPONSE_HEADER_BYTES)
        self.out = bytearray()
        self.waiting: dict[int, _Pending] = {}
        self.open = False
        self.answered = False
        self.handshaking = False
        self.wants = 0
        self.began = time.monotonic()
        try:
            host, port = parse_address(dialled)
            self.addresses = socket.getaddrinfo(lookup_name(host), port, type=socket.SOCK_STREAM)
        except RocketMQError as error:
            raise ConnectError(error.message, error.hint, address=address) from error
        except OSError as error:
            raise ConnectError(
                f"{self.name}: {error.strerror or error}",
                "is the host name right?",
                address=address,
            ) from error
        self.server_name = host
        self.sock = self._dial()

    @property
    def name(self) -> str:
        """The address for messages, with the dialled address if the two differ."""
        if self.address == self.dialled:
            return self.address
        return f"{self.address} (dialled as {self.dialled})"

    def _dial(self) -> socket.socket:
        family, kind, protocol, _, target = self.addresses.pop(0)
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        status = sock.connect_ex(target)
        if status and status not in _CONNECTING:
            sock.close()
            return self._next_address(status)
        return sock

    def _next_address(self, status: int) -> socket.socket:
        """Try the host's next address; raise ConnectError after the last one."""
        if self.addresses:
            return self._dial()
        raise connect_refused(self.name, status, self.address)

    def interest(self) -> int:
        """Return the selector events that this channel waits for."""
        if self.handshaking:
            return self.wants
        if not self.open:
            return selectors.EVENT_WRITE
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self.out else 0)

    def ready(self) -> list[RemotingCommand]:
        """Advance the connect, the handshake, writes and reads; returns the received frames."""
        if not self.open:
            status = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if status:
                self.sock.close()
                self.sock = self._next_address(status)
                return []
            self.open = True
            if self.tls is not None:
                self.sock = self.tls.wrap_socket(
                    self.sock, do_handshake_on_connect=False, server_hostname=self.server_name
                )
                self.handshaking = True
        if self.handshaking and not self._handshake():
            return []
        self._write()
        return self._read()

    def _handshake(self) -> bool:
        import ssl

        assert isinstance(self.sock, ssl.SSLSocket)
        try:
            self.sock.do_handshake()
        except ssl.SSLWantReadError:
            self.wants = selectors.EVENT_READ
            return False
        except ssl.SSLWantWriteError:
            self.wants = selectors.EVENT_WRITE
            return False
        except OSError as error:
            raise ConnectError(
                f"{self.name}: TLS handshake failed: {error}",
                "does the peer speak TLS, and is its certificate trusted?",
                address=self.address,
            ) from error
        self.handshaking = False
        return True

    def _write(self) -> None:
        while self.out:
            try:
                sent = self.sock.send(self.out)
            except BlockingIOError:
                return
            except OSError as error:
                if _wants_more(error):
                    return
                raise self._broken(error) from error
            del self.out[:sent]

    def _read(self) -> list[RemotingCommand]:
        frames: list[RemotingCommand] = []
        while True:
            try:
                data = self.sock.recv(READ_BYTES)
            except BlockingIOError:
                return frames
            except OSError as error:
                if _wants_more(error):
                    return frames
                raise self._broken(error) from error
            if not data:
                if frames:  # the next read returns EOF again, if a call is still pending
                    return frames
                raise self._broken("the peer closed the connection")
            try:
                frames += self.decoder.feed(data)
            except RemoteProtocolError as error:
                error.message = f"{self.name}: {error.message}"
                error.args = (error.message,)
                raise
            self.answered = self.answered or bool(frames)
            if frames and len(data) < READ_BYTES and not self.tls:
                return frames

    def _broken(self, cause: object) -> SendRequestError:
        code = next((call.command.code for call in self.waiting.values()), -1)
        hint = ""
        if not self.answered and self.tls is None:
            hint = "does the peer accept TLS only (--tls)?"
        elif not self.answered:
            hint = "does the peer require a client certificate that it trusts (--tls-cert)?"
        return SendRequestError(
            f"{self.name}: the connection broke before the answer came: {cause}",
            hint,
            address=self.address,
            request_code=code,
        )

    def stale(self) -> bool:
        """Whether the peer has closed this idle connection.

        A TLS connection counts as open: its bytes cannot be peeked.
        """
        if not self.open or self.handshaking:
            return True
        try:
            return not self.sock.recv(1, socket.MSG_PEEK) if self.tls is None else False
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Close the socket."""
        self.sock.close()


class BlockingClient:
    """Calls with a deadline over plain sockets, one connection per address.

    ``timeout_ms`` bounds each ``call`` or ``call_all``; ``total_ms``, if given, bounds all calls
    together, counted from construction. ``address_map`` maps advertised to reachable addresses.
    ``signer`` may change each request before it is sent. ``trace`` is called after each call with
    request name, response code (None without a response), address and duration in ms.

    Raises ConnectError, SendRequestError, RequestTimeoutError, RemoteProtocolError; a response
    with an error code is returned (see ``check``).
    """

    def __init__(
        self,
        *,
        timeout_ms: float = 10_000,
        total_ms: float | None = None,
        connect_timeout_ms: float = CONNECT_TIMEOUT_MS,
        address_map: Mapping[str, str] | None = None,
        tls: "ssl.SSLContext | None" = None,
        signer: Signer | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.total_ms = total_ms
        self.connect_timeout_ms = connect_timeout_ms
        self.address_map = dict(address_map or {})
        self.tls = tls
        self.signer = signer
        self.trace = trace
        self._ends = None if total_ms is None else time.monotonic() + total_ms / 1000
        self._channels: dict[str, _Channel] = {}

    def call(
        self, address: str, command: RemotingCommand, timeout_ms: float | None = None
    ) -> RemotingCommand:
        """Send a request to ``address`` and wait for the response.

        ``timeout_ms`` overrides the client's.
        """
        result = self.call_all([(address, command)], timeout_ms)[0]
        if isinstance(result, RocketMQError):
            raise result
        return result

    def check(
        self, address: str, command: RemotingCommand, timeout_ms: float | None = None
    ) -> RemotingCommand:
        """As ``call``; a response code other than SUCCESS raises BrokerError."""
        answer = self.call(address, command, timeout_ms)
        if answer.code != ResponseCode.SUCCESS:
            raise BrokerError(answer.code, answer.remark or "", address, request_code=command.code)
        return answer

    def oneway(self, address: str, command: RemotingCommand) -> None:
        """Send a one-way request; returns when all its bytes were passed to the kernel."""
        command.flag |= 2
        result = self.call_all([(address, command)])[0]
        if isinstance(result, RocketMQError):
            raise result

    def call_all(
        self, calls: Sequence[Call], timeout_ms: float | None = None
    ) -> list[RemotingCommand | RocketMQError]:
        """Send many requests at once; result i is the response or the error of call i.

        The error of a single call is returned, not raised.
        """
        return _Round(self, calls, self._deadline(timeout_ms)).run()

    @property
    def remaining_ms(self) -> float | None:
        """Remaining part of ``total_ms``; None without a total limit."""
        return None if self._ends is None else max(0.0, (self._ends - time.monotonic()) * 1000)

    def _deadline(self, timeout_ms: float | None) -> float:
        limit = self.timeout_ms if timeout_ms is None else timeout_ms
        deadline = time.monotonic() + limit / 1000
        return deadline if self._ends is None else min(deadline, self._ends)

    def channel(self, address: str) -> _Channel:
        """Return the connection to ``address``; connect if none is open."""
        channel = self._channels.get(address)
        if channel is not None and not channel.waiting and not channel.out and channel.stale():
            self.drop(channel)
            channel = None
        if channel is None:
            dialled = self.address_map.get(address, address)
            channel = self._channels[address] = _Channel(address, dialled, self.tls)
        return channel

    def drop(self, channel: _Channel) -> None:
        """Close a connection and remove it from the table."""
        if self._channels.get(channel.address) is channel:
            del self._channels[channel.address]
        channel.close()

    def close(self) -> None:
        """Close every connection."""
        for channel in list(self._channels.values()):
            channel.close()
        self._channels.clear()

    def __enter__(self) -> "BlockingClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Round:
    """One ``call_all``: its calls, their results, the channels with calls in flight."""

    def __init__(self, client: BlockingClient, calls: Sequence[Call], deadline: float) -> None:
        self.client = client
        self.calls = calls
        self.deadline = deadline
        self.results: list[RemotingCommand | RocketMQError | None] = [None] * len(calls)
        self.selector = selectors.DefaultSelector()
        self.busy: dict[_Channel, int] = {}  # channel → events it is registered for

    def run(self) -> list[RemotingCommand | RocketMQError]:
        try:
            for place, (address, command) in enumerate(self.calls):
                if self.client.signer is not None:
                    self.client.signer(command)
                self._begin(_Pending(address, command, place))
            while self.busy:
                self._wait()
        except BaseException:
            # interrupted: a late response must not reach a later call on the same connection
            for channel in list(self.busy):
                self.client.drop(channel)
            raise
        finally:
            self.selector.close()
        return [result for result in self.results if result is not None]

    def _begin(self, call: _Pending) -> None:
        try:
            channel = self.client.channel(call.address)
            command = call.command
            while command.opaque in channel.waiting:
                command.opaque = next_opaque()
            channel.out += encode_frame(command)
        except RocketMQError as error:
            self._finish(call, error)
            return
        channel.waiting[command.opaque] = call
        self._register(channel)

    def _register(self, channel: _Channel) -> None:
        wanted = channel.interest()
        known = self.busy.get(channel)
        if known is None:
            self.selector.register(channel.sock, wanted, channel)
        elif known != wanted:
            self.selector.modify(channel.sock, wanted, channel)
        self.busy[channel] = wanted

    def _unregister(self, channel: _Channel) -> None:
        if self.busy.pop(channel, None) is not None:
            for key in list(self.selector.get_map().values()):
                if key.data is channel:
                    self.selector.unregister(key.fileobj)

    def _wait(self) -> None:
        now = time.monotonic()
        until = self.deadline
        for channel in self.busy:
            if not channel.open or channel.handshaking:
                until = min(until, channel.began + self.client.connect_timeout_ms / 1000)
        for key, _ in self.selector.select(max(0.0, until - now)):
            self._advance(key.data)
        now = time.monotonic()
        for channel in list(self.busy):
            unconnected = not channel.open or channel.handshaking
            limit = channel.began + self.client.connect_timeout_ms / 1000
            if unconnected and now >= min(limit, self.deadline):
                waited_ms = (now - channel.began) * 1000
                self._fail(
                    channel,
                    ConnectError(
                        f"cannot connect to {channel.name} within {waited_ms:.0f} ms",
                        address=channel.address,
                    ),
                )
            elif now >= self.deadline:
                self._time_out(channel, now)

    def _advance(self, channel: _Channel) -> None:
        before = channel.sock
        try:
            frames = channel.ready()
        except RocketMQError as error:
            self._fail(channel, error)
            return
        if channel.sock is not before:  # the host's next address, or TLS around the socket
            self._unregister(channel)
        for frame in frames:
            self._take(channel, frame)
        if not channel.out and channel.open and not channel.handshaking:
            for opaque, call in list(channel.waiting.items()):
                if call.command.is_oneway:
                    del channel.waiting[opaque]
                    self._finish(call, response(call.command))
        if channel.waiting or channel.out:
            self._register(channel)
        else:
            self._unregister(channel)

    def _take(self, channel: _Channel, frame: RemotingCommand) -> None:
        if not frame.is_response:
            if not frame.is_oneway:  # refuse a peer's request at once, so that it does not time out
                refusal = response(frame, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "no handlers")
                channel.out += encode_frame(refusal)
            return
        call = channel.waiting.pop(frame.opaque, None)
        if call is None:
            return
        if frame.code == ResponseCode.GO_AWAY and not call.repeated:
            self._unregister(channel)
            others = list(channel.waiting.values())
            channel.waiting.clear()
            channel.out.clear()
            self.client.drop(channel)
            for each in (call, *others):
                each.repeated = True
                each.command.opaque = next_opaque()
                self._begin(each)
            return
        self._finish(call, frame)

    def _finish(self, call: _Pending, result: RemotingCommand | RocketMQError) -> None:
        self.results[call.place] = result
        if self.client.trace is not None:
            code = result.code if isinstance(result, RemotingCommand) else None
            elapsed_ms = (time.monotonic() - call.began) * 1000
            self.client.trace(request_name(call.command.code), code, call.address, elapsed_ms)

    def _fail(self, channel: _Channel, error: RocketMQError) -> None:
        """Drop the connection; every call on it fails with ``error``."""
        self._unregister(channel)
        self.client.drop(channel)
        calls = list(channel.waiting.values())
        channel.waiting.clear()
        for call in calls:
            self._finish(call, error)

    def _time_out(self, channel: _Channel, now: float) -> None:
        """Drop the connection with its calls: late responses must not reach later calls."""
        self._unregister(channel)
        self.client.drop(channel)
        calls = list(channel.waiting.values())
        channel.waiting.clear()
        for call in calls:
            waited_ms = (now - call.began) * 1000
            self._finish(
                call,
                RequestTimeoutError(
                    f"{channel.name}: no answer to {request_name(call.command.code)} "
                    f"within {waited_ms:.0f} ms",
                    "give it more time with a longer timeout, or look at the peer's load",
                    address=channel.address,
                    request_code=call.command.code,
                ),
            )
