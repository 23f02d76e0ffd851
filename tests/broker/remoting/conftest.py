"""Fixtures of the remoting tests: a loop with an end, a transport that is a list of bytes."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from broker.common.clock import ManualClock
from broker.remoting.connection import Connection
from broker.remoting.endpoint import Endpoint
from broker.remoting.protocol.command import RemotingCommand
from broker.remoting.protocol.framing import encode_frame
from tests.support.remoting_peer import FakeTransport, Peer, echo


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def attach(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Connection, FakeTransport]]:
    """Give an endpoint a connection over a FakeTransport; no request takes time."""
    for module in ("connection", "direct"):
        monkeypatch.setattr(f"broker.remoting.{module}.monotonic_s", lambda: 0.0)

    def attach(endpoint: Endpoint, peer: tuple = ("127.0.0.1", 50000), dialled: str = "") -> Any:
        connection = Connection(endpoint, dialled)
        transport = FakeTransport(peer)
        transport.connection = connection
        connection.connection_made(transport)
        return connection, transport

    return attach


@pytest.fixture
def frames() -> Callable[..., bytes]:
    """Commands to the bytes of their frames."""

    def encode(*commands: RemotingCommand) -> bytes:
        return b"".join(encode_frame(command) for command in commands)

    return encode


@pytest.fixture
def turns() -> Callable[[], Coroutine]:
    """Let everything that is due in the loop happen."""

    async def run_pending() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    return run_pending


@pytest.fixture
def peer(event_loop_name: str) -> Iterator[Callable[..., Peer]]:
    """Start servers with the given handlers; code 1 echoes. Stopped at the end."""
    started: list[Peer] = []

    def start(handlers: dict | None = None) -> Peer:
        server = Peer({1: echo, **(handlers or {})}).start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()
