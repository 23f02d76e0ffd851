"""Bytes of a connection that do not pass through its transport: long responses, unread requests.

A long response is written by one system call for all of its parts, without joining them. The
transport of an event loop takes an object per part, and writes at the end of the iteration.

A peer that closes its socket while responses wait in it resets the connection. The next write then
fails, and the event loop closes the socket although the kernel still has received bytes.
"""

import asyncio
import os
from typing import Final

UNREAD_LIMIT_BYTES: Final = 1024 * 1024
_READ_BYTES: Final = 64 * 1024
PARTS_LIMIT: Final = os.sysconf("SC_IOV_MAX")

NO_SOCKET: Final = -1

Buffer = bytes | bytearray | memoryview

writev = os.writev


def descriptor(transport: asyncio.BaseTransport) -> int:
    """Return the descriptor of a transport's socket; NO_SOCKET if it has none, or uses TLS."""
    found = transport.get_extra_info("socket")
    if found is None or transport.get_extra_info("sslcontext") is not None:
        return NO_SOCKET
    return int(found.fileno())


def write_parts(transport: asyncio.Transport, fd: int, parts: list[Buffer], size: int) -> None:
    """Write ``parts`` of ``size`` bytes, at once if the transport has no bytes to write before.

    The bytes that the socket does not take are copied and passed to the transport: a slow peer does
    not keep an expired file mapped. If the write fails, these are all bytes; the transport meets
    the same error and closes. To be called before ``connection_lost``: until then the socket is
    open.
    """
    written = 0
    if fd != NO_SOCKET and not transport.get_write_buffer_size():
        try:
            written = writev(fd, parts if len(parts) <= PARTS_LIMIT else parts[:PARTS_LIMIT])
        except OSError:  # BlockingIOError included: the socket takes nothing
            written = 0
    if written == size:
        return
    for position, part in enumerate(parts):
        if written < len(part):
            rest = [memoryview(part)[written:], *parts[position + 1 :]]
            transport.write(b"".join(rest))  # only the rest: it is counted as unsent memory
            return
        written -= len(part)


def unread(transport: asyncio.BaseTransport, error: Exception | None) -> bytes:
    """Return the received bytes of a transport that was lost by ``error``.

    To be called within ``connection_lost``: the socket is open until it returns. Empty without an
    error, and for TLS, whose bytes are encrypted.
    """
    fd = descriptor(transport) if isinstance(error, OSError) else NO_SOCKET
    data = bytearray()
    try:
        while fd != NO_SOCKET and len(data) < UNREAD_LIMIT_BYTES:
            part = os.read(fd, _READ_BYTES)
            if not part:
                break
            data += part
    except OSError:  # no more bytes, or the socket is closed
        pass
    return bytes(data)
