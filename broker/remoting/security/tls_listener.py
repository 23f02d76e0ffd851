"""TlsListener: accepts TLS and plain connections at one port.

The first byte of a connection decides, read without taking it from the socket: 0x16 begins a TLS
handshake, while a remoting frame starts with the high byte of a length, 0 or 1.

**Source:** RocketMQ NettyRemotingServer.TlsModeHandler.
"""

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final

from broker.common.address import format_address, host_and_port
from broker.remoting.peer_log import PeerLog
from broker.remoting.security.tls import ServerTls

log = logging.getLogger("broker.remoting")

TLS_HANDSHAKE: Final = 0x16
HANDSHAKE_S: Final = 10.0
RETRY_S: Final = 1.0
"""Pause of accepting when no file descriptor is left."""

_NO_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class TlsListener:
    """Listening sockets of one address; like an asyncio.Server for its owner."""

    def __init__(
        self,
        sockets: list[socket.socket],
        tls: ServerTls,
        make: Callable[[], asyncio.BaseProtocol],
        *,
        loop: asyncio.AbstractEventLoop,
        peer_log: PeerLog,
        limit: int,
        idle_s: float,
    ) -> None:
        """Accept on ``sockets``. At most ``limit`` connections wait for their first byte.

        One that sends nothing for ``idle_s`` is closed, and the oldest one beyond the limit.
        """
        self.sockets = tuple(sockets)
        self._tls = tls
        self._make = make
        self._loop = loop
        self._peer_log = peer_log
        self._limit = limit
        self._idle_s = idle_s
        self._silent: dict[socket.socket, asyncio.TimerHandle] = {}  # oldest first
        self._starting: set[asyncio.Task[None]] = set()
        self._retries: set[asyncio.TimerHandle] = set()
        self._closed = False
        for listening in sockets:
            listening.setblocking(False)
            self._listen(listening)

    def close(self) -> None:
        """Stop accepting; close connections that are not yet those of the server."""
        self._closed = True
        for retry in self._retries:
            retry.cancel()
        for listening in self.sockets:
            self._loop.remove_reader(listening.fileno())
            listening.close()
        for sock in list(self._silent):
            self._drop(sock)
        for task in self._starting:
            task.cancel()

    def _listen(self, listening: socket.socket) -> None:
        self._retries.clear()
        if not self._closed:
            self._loop.add_reader(listening.fileno(), self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Accept one connection per loop iteration."""
        try:
            sock, _ = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            if error.errno not in _NO_RESOURCES:
                raise
            log.error("no connection can be accepted: %s", error.strerror)
            self._loop.remove_reader(listening.fileno())
            self._retries.add(self._loop.call_later(RETRY_S, self._listen, listening))
            return
        sock.setblocking(False)
        if len(self._silent) >= self._limit:
            self._drop(next(iter(self._silent)))
        self._silent[sock] = self._loop.call_later(self._idle_s, self._drop, sock)
        self._loop.add_reader(sock.fileno(), self._first_byte, sock)

    def _forget(self, sock: socket.socket) -> None:
        self._loop.remove_reader(sock.fileno())
        self._silent.pop(sock).cancel()

    def _drop(self, sock: socket.socket) -> None:
        self._forget(sock)
        sock.close()

    def _first_byte(self, sock: socket.socket) -> None:
        try:
            first = sock.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first:
            self._drop(sock)
            return
        is_tls = first[0] == TLS_HANDSHAKE
        if not is_tls and self._tls.enforcing:
            self._peer_log.warning(_peer(sock), "no TLS, tls.server.mode=enforcing: closing")
            self._drop(sock)
            return
        self._forget(sock)
        task = self._loop.create_task(self._start(sock, self._tls.context() if is_tls else None))
        self._starting.add(task)
        task.add_done_callback(self._starting.discard)

    async def _start(self, sock: socket.socket, context: ssl.SSLContext | None) -> None:
        """Make the connection one of the server's, after the handshake if it has TLS."""
        address = _peer(sock)
        try:
            await self._loop.connect_accepted_socket(
                self._make,
                sock,
                ssl=context,
                ssl_handshake_timeout=None if context is None else HANDSHAKE_S,
            )
        except OSError as error:  # ssl.SSLError and TimeoutError, too
            reason = getattr(error, "reason", None) or error.strerror or str(error) or "no answer"
            self._peer_log.warning(address, f"TLS handshake failed: {reason}: closing")
            sock.close()


def _peer(sock: socket.socket) -> str:
    """Return the address of a peer; of one that is gone, an unspecified one."""
    try:
        return format_address(*host_and_port(sock.getpeername()))
    except OSError:
        return "0.0.0.0:0"
