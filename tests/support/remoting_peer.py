"""A transport without a socket, and a peer that speaks frames over one."""

import asyncio
import threading
from typing import Any

from broker.remoting.connection import Connection
from broker.remoting.process import loop
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.framing import FrameDecoder
from broker.remoting.server import RemotingServer

TIMEOUT_S = 20


class FakeTransport(asyncio.Transport):
    """A transport that records writes and is controlled by the test."""

    def __init__(self, peer: tuple = ("127.0.0.1", 50000)) -> None:
        super().__init__()
        self.peer = peer
        self.writes: list[bytes] = []
        self.reading = True
        self.closing = False
        self.aborted = False
        self.held = 0
        self.high = self.low = 0
        self.stuck = False
        self.connection: Connection | None = None

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self.peer if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high, self.low = high or 0, low or 0

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))
        if self.stuck:
            before = self.held
            self.held += len(data)
            if before <= self.high < self.held:
                self.connection.pause_writing()

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def get_write_buffer_size(self) -> int:
        return self.held

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self.aborted = True
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        if not self.closing:
            self.closing = True
            asyncio.get_running_loop().call_soon(self.connection.connection_lost, error)

    def take(self) -> list[RemotingCommand]:
        """The frames written since the last call."""
        frames = FrameDecoder().feed(b"".join(self.writes))
        self.writes.clear()
        return frames

    async def taken(self) -> list[RemotingCommand]:
        """The frames written since the last call, with those of this iteration."""
        await asyncio.sleep(0)
        return self.take()

    def drain(self) -> None:
        """The peer reads everything."""
        self.stuck = False
        self.held = 0
        self.connection.resume_writing()


def echo(_: Connection, command: RemotingCommand) -> RemotingCommand:
    return response(command, ext=dict(command.ext_fields), body=command.body)


class Peer:
    """A RemotingServer in a separate thread, for blocking clients."""

    def __init__(self, handlers: dict) -> None:
        self.handlers = handlers
        self.server: RemotingServer
        self.address = ""
        self.loop: asyncio.AbstractEventLoop
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: loop.run(self._main()))

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self.server = RemotingServer(self.handlers, name="peer")
        await self.server.start([("127.0.0.1", 0)])
        self.address = self.server.addresses[0]
        self._ready.set()
        await self._stop.wait()
        await self.server.close()

    def start(self) -> "Peer":
        self._thread.start()
        assert self._ready.wait(TIMEOUT_S)
        return self

    def drop_connections(self) -> None:
        """Close the connections of clients, as an idle close does; returns when it is done."""
        done = threading.Event()

        async def drop() -> None:
            for connection in list(self.server.connections):
                connection.close()
            while self.server.connections:
                await asyncio.sleep(0)
            done.set()

        asyncio.run_coroutine_threadsafe(drop(), self.loop)
        assert done.wait(TIMEOUT_S)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(TIMEOUT_S)
