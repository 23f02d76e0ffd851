"""Parts are written in order, at once or by the transport; bytes received before a close are read.

Neither is done past TLS.
"""

import asyncio
import mmap
import random
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from broker.remoting.process.socket_bytes import (
    NO_SOCKET,
    PARTS_LIMIT,
    UNREAD_LIMIT_BYTES,
    descriptor,
    unread,
    write_parts,
)

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
    assert unread(Lost(socket=ours), RESET) == b"x" * 100_000
    peer.sendall(b"end")
    peer.close()
    assert unread(Lost(socket=ours), RESET) == b"end"


def test_nothing_is_read_without_an_error_or_of_tls(ends) -> None:
    ours, peer = ends
    peer.sendall(b"x")
    assert unread(Lost(socket=ours), None) == b""
    assert unread(Lost(socket=ours), ValueError("a defect")) == b""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert unread(Lost(socket=ours, sslcontext=context), RESET) == b""
    assert ours.recv(10) == b"x"


def test_a_closed_socket_has_no_bytes(ends) -> None:
    ours, _ = ends
    ours.close()
    assert unread(Lost(socket=ours), RESET) == b""
    assert unread(Lost(), RESET) == b""


def test_the_bytes_are_bounded(ends, monkeypatch) -> None:
    ours, _ = ends
    monkeypatch.setattr(
        "broker.remoting.process.socket_bytes.os.read", lambda fd, size: b"x" * size
    )
    assert len(unread(Lost(socket=ours), RESET)) == UNREAD_LIMIT_BYTES


class Writing(asyncio.Transport):
    """A transport that keeps the bytes to write; it has ``waiting`` bytes to write before."""

    def __init__(self, waiting: int = 0) -> None:
        super().__init__()
        self.waiting = waiting
        self.kept = b""

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def write(self, data: Any) -> None:
        assert type(data) is bytes  # no view of more bytes than are counted
        assert data
        self.kept += data


def received(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (more := peer.recv(size - len(data))):
        data += more
    return data


def test_parts_are_written_at_once_and_in_order(ends) -> None:
    ours, peer = ends
    transport = Writing()
    parts = [b"a", memoryview(b"bcd")[1:], bytearray(b""), b"e" * 1000]
    write_parts(transport, ours.fileno(), parts, 1003)
    assert (peer.recv(2000), transport.kept) == (b"acd" + b"e" * 1000, b"")


def test_more_parts_than_one_call_takes_keep_their_order(ends) -> None:
    ours, peer = ends
    transport = Writing()
    parts = [b"%04d" % number for number in range(PARTS_LIMIT + 10)]
    write_parts(transport, ours.fileno(), parts, 4 * len(parts))
    assert len(transport.kept) == 40
    assert received(peer, 4 * PARTS_LIMIT) + transport.kept == b"".join(parts)


def test_bytes_that_the_socket_does_not_take_are_left_to_the_transport(ends) -> None:
    ours, peer = ends
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    for _ in range(50):
        transport = Writing()
        parts = [chance.randbytes(chance.randrange(9000)) for _ in range(chance.randrange(2, 200))]
        size = sum(map(len, parts))
        write_parts(transport, ours.fileno(), [*map(memoryview, parts)], size)
        taken = received(peer, size - len(transport.kept))
        assert taken + transport.kept == b"".join(parts), f"seed {seed}"


def test_a_full_socket_takes_nothing(ends) -> None:
    ours, _ = ends
    with pytest.raises(BlockingIOError):
        while True:
            ours.send(b"x" * 100_000)
    transport = Writing()
    write_parts(transport, ours.fileno(), [b"ab", b"cd"], 4)
    assert transport.kept == b"abcd"


def test_nothing_overtakes_the_bytes_of_the_transport(ends) -> None:
    ours, peer = ends
    transport = Writing(waiting=1)
    write_parts(transport, ours.fileno(), [b"ab", b"cd"], 4)
    assert transport.kept == b"abcd"
    peer.setblocking(False)
    with pytest.raises(BlockingIOError):
        peer.recv(10)


def test_a_failed_write_is_left_to_the_transport(ends) -> None:
    ours, peer = ends
    peer.close()
    transport = Writing()
    write_parts(transport, ours.fileno(), [b"ab", b"cd"], 4)
    assert transport.kept == b"abcd"
    write_parts(transport, NO_SOCKET, [b"ef", b"g"], 3)
    assert transport.kept == b"abcdefg"


def test_no_part_is_kept_for_a_slow_peer(ends) -> None:
    ours, _ = ends
    mapping = mmap.mmap(-1, 8 << 20)
    view = memoryview(mapping)
    parts: list[Any] = [view[: 4 << 20], view[4 << 20 :]]
    transport = Writing()
    write_parts(transport, ours.fileno(), parts, 8 << 20)
    assert transport.kept
    parts.clear()
    view.release()
    mapping.close()  # BufferError if a slice is left


def test_the_descriptor_is_that_of_the_socket_but_for_tls(ends) -> None:
    ours, _ = ends
    assert descriptor(Lost(socket=ours)) == ours.fileno()
    assert descriptor(Lost()) == NO_SOCKET
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    assert descriptor(Lost(socket=ours, sslcontext=context)) == NO_SOCKET
