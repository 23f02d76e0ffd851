"""The listener: RemotingServer accepts peers and answers their requests.

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
import socket
from collections.abc import Sequence

from broker.common.address import format_address
from broker.errors import ConfigError, ConnectError
from broker.remoting.connection import Buffer, Connection, Frame
from broker.remoting.endpoint import Answer, Authorize, Endpoint, Handler
from broker.remoting.limits import ACCEPT_BACKLOG, LaneLimits, ServerLimits

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


class RemotingServer(Endpoint):
    """An endpoint that listens; see Endpoint for its parameters."""

    _servers: tuple[asyncio.Server, ...] = ()

    async def start(self, listen: Sequence[tuple[str, int]]) -> None:
        """Listen on each (host, port); port 0 takes a free one.

        Raises ConnectError naming the address that cannot be bound; then nothing listens.
        """
        servers: list[asyncio.Server] = []
        for host, port in listen:
            try:
                servers.append(
                    await self.loop.create_server(
                        lambda: Connection(self), host, port, backlog=ACCEPT_BACKLOG
                    )
                )
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
        """Stop accepting, wait for answers under way, close every connection."""
        servers, self._servers = self._servers, ()
        for server in servers:
            server.close()
        await self.drain(drain_ms)
        await self.close_connections()


def raise_file_limit(wanted: int) -> int:
    """Lift this process's limit of open files towards ``wanted``; returns what it is now."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        return target
    return soft


def own_address(towards: tuple[str, int] = ("192.0.2.1", 9)) -> str:
    """The IP address this machine uses towards a peer; 127.0.0.1 without a network.

    No packet is sent: a datagram socket is only connected.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(towards)
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


_BIND_HINTS = {
    errno.EADDRINUSE: "is another process using the port?",
    errno.EACCES: "ports below 1024 need privileges: choose another one",
}


def _reason(error: OSError) -> str:
    """What the system says; asyncio wraps it in a sentence that names the address again."""
    known = error.errno in errno.errorcode and not isinstance(error, socket.gaierror)
    return os.strerror(error.errno or 0) if known else error.strerror or str(error)


def host_address(host: str) -> str:
    """The IP address of ``host``, itself when it is one; ConfigError when nobody knows it."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"host {host!r}: {reason}", "use an IP address") from error
    ipv4 = [address for family, *_, address in found if family == socket.AF_INET]
    return str((ipv4 or [address for *_, address in found])[0][0])
