"""Bytes that a peer sent before its connection broke, and that the event loop did not read.

A peer that closes its socket while responses wait in it resets the connection. The next write then
fails, and the event loop closes the socket although the kernel still has received bytes.
"""

import asyncio
import os
from typing import Final

UNREAD_LIMIT_BYTES: Final = 1024 * 1024
_READ_BYTES: Final = 64 * 1024


def unread_bytes(transport: asyncio.BaseTransport, error: Exception | None) -> bytes:
    """Return the received bytes of a transport that was lost by ``error``.

    To be called within ``connection_lost``: the socket is open until it returns. Empty without an
    error, and for TLS, whose bytes are encrypted.
    """
    if not isinstance(error, OSError) or transport.get_extra_info("sslcontext") is not None:
        return b""
    found = transport.get_extra_info("socket")
    data = bytearray()
    try:
        while found is not None and len(data) < UNREAD_LIMIT_BYTES:
            part = os.read(found.fileno(), _READ_BYTES)
            if not part:
                break
            data += part
    except (OSError, ValueError):  # no more bytes, or the socket is closed
        pass
    return bytes(data)
