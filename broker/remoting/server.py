"""RemotingServer: accepts connections and handles their requests.

::

    server = RemotingServer({code: handler, ...}, limits=ServerLimits(), name="broker")
    await server.start([("127.0.0.1", 10911), ("127.0.0.1", 10909)])
    ...
    await server.close(drain_ms=5_000)

**Source:** RocketMQ NettyRemotingServer.
"""

import asyncio
import errno
import logging
import os
import resource
import socket
from collections.abc import Sequence

import msgspec

from broker.common.address import format_address
from broker.errors import ConfigError, ConnectError
from broker.remoting.connection import Connection, Frame
from broker.remoting.endpoint import Answer, Authorize, Endpoint, Handler
from broker.remoting.limits import ACCEPT_BACKLOG, LaneLimits, ServerLimits
from broker.remoting.process.socket_bytes import Buffer
from broker.remoting.security.tls import ServerTls
from broker.remoting.security.tls_listener import TlsListener

__all__ = [
    "Answer",
    "Authorize",
    "Buffer",
    "Connection",
    "Frame",
    "Handler",
    "LaneLimits",
    "RemotingServer",
    "ServerLimits",
]

log = logging.getLogger("broker.remoting")

ACCEPT_TURNS = 3  # loop iterations from the accept of a connection to connection_made()
FILES_SPARE = 4_000
"""Largest number of descriptors reserved for files that are opened later."""


class RemotingServer(Endpoint):
    """An endpoint that listens; see Endpoint for its parameters."""

    _servers: tuple[asyncio.Server | TlsListener, ...] = ()
    _tls: ServerTls | None = None

    async def start(
        self, listen: Sequence[tuple[str, int]], *, tls: ServerTls | None = None
    ) -> None:
        """Listen on each (host, port); port 0 selects a free port. ``tls``: accept TLS, too.

        Raises ConnectError naming the address that cannot be bound; then no address is bound.
        """
        self._fit_connections()
        self._tls = tls
        servers: list[asyncio.Server | TlsListener] = []
        for host, port in listen:
            try:
                servers.append(await self._listen(host, port))
            except OSError as error:
                for server in servers:
                    server.close()
                address = format_address(host, port)
                raise ConnectError(
                    f"cannot listen on {address}: {_reason(error)}",
                    _BIND_HINTS.get(error.errno or 0, "is it an address of this machine?"),
                    address=address,
                ) from error
        self._servers = (*self._servers, *servers)
        log.info("%s: listening on %s", self.name, " ".join(self.addresses))

    async def _listen(self, host: str, port: int) -> asyncio.Server | TlsListener:
        """Create one listener that accepts one connection per loop iteration.

        asyncio tries to accept ``backlog`` connections at once. When no descriptor is left
        (EMFILE), each attempt logs a line and starts a timer that repeats all of them: 730,000
        lines in 10 s. With a backlog of 1 it logs one line and makes one attempt per second. The
        kernel's queue is enlarged afterwards. (libuv keeps a spare descriptor for this case.)
        """
        if self._tls is not None:
            return TlsListener(
                await self._bind(host, port),
                self._tls,
                lambda: Connection(self),
                loop=self.loop,
                peer_log=self.peer_log,
                limit=self.limits.connections,
                idle_s=self.limits.idle_ms / 1000,
            )
        server = await self.loop.create_server(lambda: Connection(self), host, port, backlog=1)
        for listening in server.sockets:
            with socket.socket(fileno=os.dup(listening.fileno())) as sock:
                sock.listen(ACCEPT_BACKLOG)
        return server

    async def _bind(self, host: str, port: int) -> list[socket.socket]:
        """Return a listening socket for each address of ``host``; OSError closes all of them."""
        infos = await self.loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        sockets: list[socket.socket] = []
        try:
            for family, _, _, _, address in dict.fromkeys(infos):
                sockets.append(
                    socket.create_server(address[:2], family=family, backlog=ACCEPT_BACKLOG)
                )
        except OSError:
            for sock in sockets:
                sock.close()
            raise
        return sockets

    def _fit_connections(self) -> None:
        """Lower the connection limit to fit the limit of open files."""
        wanted = self.limits.connections
        fitting = connections_that_fit(wanted)
        if fitting < wanted:
            self.limits = msgspec.structs.replace(self.limits, connections=fitting)
            log.warning(
                "%s: at most %d connections, not maxConnections=%d: the limit of open files"
                " (ulimit -n) leaves no more",
                *(self.name, fitting, wanted),
            )

    @property
    def addresses(self) -> list[str]:
        """Each listening address as "host:port", in the order of ``start``."""
        found = []
        for server in self._servers:
            for sock in server.sockets:
                host, port = sock.getsockname()[:2]
                found.append(format_address(host, port))
        return found

    @property
    def ports(self) -> list[int]:
        """Each listening port, in the order of ``start``."""
        return [int(address.rpartition(":")[2]) for address in self.addresses]

    async def close(self, drain_ms: float = 0) -> None:
        """Stop accepting, wait for requests in flight, close every connection."""
        servers, self._servers = self._servers, ()
        await self._stop_accepting(servers)
        await self.drain(drain_ms)
        await self.close_connections()

    async def _stop_accepting(self, servers: Sequence[asyncio.Server | TlsListener]) -> None:
        """Close the listeners once every accepted socket has reached connection_made().

        Server.close() does not track such sockets: asyncio leaks one accepted in the previous loop
        iteration, and both loops call connection_made() some iterations after the accept.
        """
        for server in servers:
            for sock in server.sockets:
                self.loop.remove_reader(sock.fileno())  # asyncio accepts no more; no-op on uvloop
        await _pass_turns()
        for server in servers:
            server.close()
        await _pass_turns()


async def _pass_turns() -> None:
    for _ in range(ACCEPT_TURNS):
        await asyncio.sleep(0)


def raise_file_limit(wanted: int) -> int:
    """Raise the soft limit of open files towards ``wanted``; returns the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        return target
    return soft


def connections_that_fit(wanted: int) -> int:
    """Return how many of ``wanted`` connections the limit of open files allows, at least 1.

    Open descriptors are subtracted, and a quarter of the rest (at most ``FILES_SPARE``) is
    reserved for files: each ConsumeQueue file created later needs one.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    try:
        left = soft - len(os.listdir("/dev/fd"))
    except OSError:  # listing needs a descriptor itself
        left = 0
    return max(1, min(wanted, left - min(FILES_SPARE, left // 4)))


_BIND_HINTS = {
    errno.EADDRINUSE: "is another process using the port?",
    errno.EACCES: "ports below 1024 need privileges: choose another one",
}


def _reason(error: OSError) -> str:
    """Return the system's error text; asyncio's text repeats the address."""
    known = error.errno in errno.errorcode and not isinstance(error, socket.gaierror)
    return os.strerror(error.errno or 0) if known else error.strerror or str(error)


def host_address(host: str) -> str:
    """Resolve ``host`` to an IP address, IPv4 first; ConfigError if it cannot be resolved."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"host {host!r}: {reason}", "use an IP address") from error
    ipv4 = [address for family, *_, address in found if family == socket.AF_INET]
    return str((ipv4 or [address for *_, address in found])[0][0])
