"""Bytes that were received before a connection broke are read, those of TLS are not."""

import asyncio
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from broker.remoting.process.unread import UNREAD_LIMIT_BYTES, unread_bytes

RESET = ConnectionResetError(104, "Connection reset by peer")


class Lost(asyncio.BaseTransport):
    """A transport that was lost."""

    def __init__(self, **extra: Any) -> None:
        super().__init__(extra)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both ends of a connection; the first one does not block."""
    ours, peer = socket.socketpair()
    ours.setblocking(False)
    yield ours, peer
    ours.close()
    peer.close()


def test_all_received_bytes_are_read(ends) -> None:
    ours, peer = ends
    peer.sendall(b"x" * 100_000)
    assert unread_bytes(Lost(socket=ours), RESET) == b"x" * 100_000
    peer.sendall(b"end")
    peer.close()
    assert unread_bytes(Lost(socket=ours), RESET) == b"end"


def test_nothing_is_read_without_an_error_or_of_tls(ends) -> None:
    ours, peer = ends
    peer.sendall(b"x")
    assert unread_bytes(Lost(socket=ours), None) == b""
    assert unread_bytes(Lost(socket=ours), ValueError("a defect")) == b""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert unread_bytes(Lost(socket=ours, sslcontext=context), RESET) == b""
    assert ours.recv(10) == b"x"


def test_a_closed_socket_has_no_bytes(ends) -> None:
    ours, _ = ends
    ours.close()
    assert unread_bytes(Lost(socket=ours), RESET) == b""
    assert unread_bytes(Lost(), RESET) == b""


def test_the_bytes_are_bounded(ends, monkeypatch) -> None:
    ours, _ = ends
    monkeypatch.setattr("broker.remoting.process.unread.os.read", lambda fd, size: b"x" * size)
    assert len(unread_bytes(Lost(socket=ours), RESET)) == UNREAD_LIMIT_BYTES
