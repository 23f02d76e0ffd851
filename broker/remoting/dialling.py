"""The parts of connecting that both clients share, the asyncio one and the blocking one."""

import errno
import os

from broker.errors import ConnectError


def lookup_name(host: str) -> bytes | str:
    """Return a host in the form to pass to ``getaddrinfo``.

    ASCII as bytes: for a str Python imports the idna codec, which costs 8 ms of CPU.
    """
    return host.encode("ascii") if host.isascii() else host


def refused(name: str, status: int, address: str) -> ConnectError:
    """Return the error for a connection that the operating system refused with ``status``.

    ``name`` is the address for messages: the advertised one, and the dialled one if it differs.
    """
    hint = ""
    if status == errno.ECONNREFUSED:
        hint = "nothing listens there: is the process up, is the port right?"
    return ConnectError(f"cannot connect to {name}: {os.strerror(status)}", hint, address=address)
