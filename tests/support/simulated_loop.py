"""An event loop on a manual clock whose connections are memory: no sockets, no waiting.

Executor jobs are simulated threads. Bytes written by a server reach its peer within the same call.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.protocol.framing import FrameDecoder, encode_frame
from broker.server.ingest.loader import is_forced
from tests.support.simulated_threads import SimThreads

Result = TypeVar("Result")
Factory = Callable[[], asyncio.Protocol]
Note = Callable[[RemotingCommand], None] | None
ANSWER_S = 600.0  # longest time from a request to its answer, of the manual clock
TOGETHER_SHARE = 0.5  # of connections without vectorized ingest


class SimLoop(asyncio.base_events.BaseEventLoop):
    """``run(coroutine)``; ``connect(port)`` returns a peer of the listener."""

    def __init__(self, threads: SimThreads) -> None:
        super().__init__()
        self._threads = threads
        self._selector = self  # BaseEventLoop asks it for events once per pass
        self.listening: dict[int, Factory] = {}
        self._servers: list[_Server] = []
        self._peers = 0

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run ``work`` to its end."""
        return self.run_until_complete(work)

    # ---- methods that BaseEventLoop needs of its subclass

    def time(self) -> float:
        return self._threads.clock.monotonic_ms() / 1000

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is not None and timeout <= 0:
            self._threads.switch_point()
        else:
            self._threads.wait_until(lambda: bool(self._ready), timeout)
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _write_to_self(self) -> None:
        pass  # the wait in select() looks at the queue of ready calls itself

    # ---- threads and servers

    def run_in_executor(  # type: ignore[override]
        self, executor: object, function: Callable[..., Result], *args: Any
    ) -> "asyncio.Future[Result]":
        future: asyncio.Future[Result] = self.create_future()

        def finish(result: Any, error: BaseException | None) -> None:
            if future.cancelled():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def body() -> None:
            try:
                result, error = function(*args), None
            except Exception as raised:
                result, error = None, raised
            self.call_soon_threadsafe(finish, result, error)

        self._threads.spawn("executor", body)
        return future

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Factory, host: str, port: int, **options: Any
    ) -> "_Server":
        assert port not in self.listening, f"port {port} is in use"
        self.listening[port] = protocol_factory
        self._servers.append(_Server(self, host, port))
        return self._servers[-1]

    def remove_reader(self, fd: Any) -> bool:
        """Nobody waits at the real sockets."""
        return False

    def close(self) -> None:
        """Close the loop, and the servers of a broker that has lost its power."""
        for server in self._servers:
            server.close()
        super().close()

    def draw(self) -> float:
        """A random number of the run."""
        return self._threads.rng.random()

    def connect(self, port: int) -> "SimPeer":
        """A client of the server on ``port``."""
        self._peers += 1
        return SimPeer(self, self.listening[port](), 40_000 + self._peers)


class _Server:
    """The part of asyncio.Server and of its socket that RemotingServer uses."""

    def __init__(self, loop: SimLoop, host: str, port: int) -> None:
        self._loop = loop
        self._address = (host, port)
        self._socket: socket.socket | None = None
        self.sockets = [self]

    def getsockname(self) -> tuple[str, int]:
        return self._address

    def fileno(self) -> int:
        """A real socket on loopback, for code that sets socket options; it gets no connections."""
        if self._socket is None:
            self._socket = socket.socket()
            self._socket.bind(("127.0.0.1", 0))
        return self._socket.fileno()

    def close(self) -> None:
        self._loop.listening.pop(self._address[1], None)
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class _Transport(asyncio.Transport):
    """The server's end of a connection in memory."""

    def __init__(self, loop: SimLoop, peer: "SimPeer", port: int) -> None:
        super().__init__({"peername": ("127.0.0.1", port)})
        self._loop = loop
        self._peer = peer
        self._closing = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing:
            self._peer.received(bytes(data))

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._peer.lost)

    abort = close

    def is_closing(self) -> bool:
        return self._closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


class SimPeer:
    """A client: ``await call(command)``; ``on_request`` gets the requests of the server.

    A request that is not answered because the connection was closed gets ConnectionResetError,
    one without an answer for :data:`ANSWER_S` seconds TimeoutError.
    """

    def __init__(self, loop: SimLoop, protocol: asyncio.Protocol, port: int) -> None:
        self._loop = loop
        self._protocol = protocol
        self._decoder = FrameDecoder()
        self._waiting: dict[int, tuple[Note, asyncio.Future[RemotingCommand]]] = {}
        self.on_request: Callable[[RemotingCommand], None] | None = None
        self._unread: list[bytes] = []
        # Whether the requests of one iteration arrive in one read.
        self._together = is_forced() or loop.draw() < TOGETHER_SHARE
        protocol.connection_made(_Transport(loop, self, port))

    def call(self, command: RemotingCommand, note: Note = None) -> Awaitable[RemotingCommand]:
        """Send a request; ``note`` is called with the response."""
        future: asyncio.Future[RemotingCommand] = self._loop.create_future()
        self._waiting[command.opaque] = (note, future)
        late = self._loop.call_later(ANSWER_S, self._no_answer, command)
        future.add_done_callback(lambda _: late.cancel())
        if not self._together:
            self._loop.call_soon(self._protocol.data_received, encode_frame(command))
            return future
        if not self._unread:
            self._loop.call_soon(self._deliver)
        self._unread.append(encode_frame(command))
        return future

    def _no_answer(self, command: RemotingCommand) -> None:
        """The threads of the broker wake at intervals: without this the run would never end."""
        _, future = self._waiting.pop(command.opaque)
        future.set_exception(TimeoutError(f"no answer to request {command.code}: {command}"))

    def _deliver(self) -> None:
        data = b"".join(self._unread)
        self._unread.clear()
        self._protocol.data_received(data)

    def send(self, command: RemotingCommand) -> None:
        """Send a request that gets no answer."""
        self._loop.call_soon(self._protocol.data_received, encode_frame(command))

    def received(self, data: bytes) -> None:
        """Bytes of the server."""
        for frame in self._decoder.feed(data):
            if not frame.flag & 1 and self.on_request is not None:
                self.on_request(frame)
            known = self._waiting.pop(frame.opaque, None) if frame.flag & 1 else None
            if known is None:
                continue
            note, future = known
            try:
                if note is not None:
                    note(frame)
            except BaseException as error:
                future.set_exception(error)
                raise
            if not future.done():
                future.set_result(frame)

    def lost(self) -> None:
        """The server closed the connection."""
        self._protocol.connection_lost(None)
        waiting, self._waiting = self._waiting, {}
        for _, future in waiting.values():
            if not future.done():
                future.set_exception(ConnectionResetError("closed by the server"))
