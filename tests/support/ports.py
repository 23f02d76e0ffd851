"""Ports for programs that a test starts: below the range from which the kernel takes ports.

A port found by binding port 0 can be taken for an outgoing connection before the program that it
is meant for binds it, and a JVM takes seconds to get there. Other test processes are kept away by
a locked file per block of ports, which lasts as long as the process.
"""

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import IO, Final

BLOCK: Final = 8
FIRST: Final = 12_000
TRIES: Final = 2_000
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")

_held: list[IO[str]] = []


def free_port() -> int:
    """A port for a broker: the VIP port two below it and the HA port after it are free, too."""
    chance = random.SystemRandom()
    for _ in range(TRIES):
        block = chance.randrange(FIRST, ephemeral_start() - BLOCK, BLOCK)
        port = block + 2
        if take_block(block):
            if all(_is_free(one) for one in (port - 2, port, port + 1)):
                return port
            _held.pop().close()
    raise RuntimeError("no three free ports in a row")


def ephemeral_start() -> int:
    """First port that the kernel chooses for connections and for port 0."""
    try:
        return max(FIRST + 1_000, int(_RANGE.read_text().split()[0]))
    except (OSError, ValueError):
        return 32_768


def take_block(block: int) -> bool:
    """Lock a block of ports until this process ends; False if another process has it."""
    folder = Path(tempfile.gettempdir()) / f"mq-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    file = (folder / str(block)).open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return False
    _held.append(file)
    return True


def _is_free(port: int) -> bool:
    for host in ("127.0.0.1", "0.0.0.0"):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError:
                return False
    return True
