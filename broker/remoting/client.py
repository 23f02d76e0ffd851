"""The asyncio client: one connection per address, any number of concurrent calls on it.

::

    client = RemotingClient()
    answer = await client.call("127.0.0.1:9876", request(RequestCode.GET_ROUTEINFO_BY_TOPIC, ...))
    await client.close()

A call that gets GO_AWAY is repeated once on a new connection. After a timeout further calls use a
new connection if no bytes were received from the peer since the call started: the peer may be gone
without a sign. The old connection is closed after the last call on it, and a late response is
dropped. Java closes it after a synchronous call, which fails the other calls on it; a peer that
still responds to other calls is only slow.

**Source:** RocketMQ NettyRemotingClient (channelTables, getAndCreateChannel, invokeSync,
isCloseSocketIfTimeout, GO_AWAY since 5.3.1).
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping

from broker.common.address import connect_refused, lookup_name, parse_address
from broker.common.clock import Clock
from broker.errors import ConnectError, RequestTimeoutError, RocketMQError, SendRequestError
from broker.remoting.connection import Connection
from broker.remoting.endpoint import Endpoint, Handler
from broker.remoting.limits import CALL_TIMEOUT_MS, CONNECT_TIMEOUT_MS, EndpointLimits
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import RemotingCommand, next_opaque
from broker.remoting.security.access import AccessRules


class RemotingClient(Endpoint):
    """An endpoint that connects to servers; peers may send requests to its ``handlers``.

    ``signer`` may change each outgoing request (ACL). ``tls`` is the context for every connection.
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler] | None = None,
        *,
        limits: EndpointLimits | None = None,
        clock: Clock | None = None,
        name: str = "client",
        on_close: Callable[[Connection], None] | None = None,
        connect_timeout_ms: float = CONNECT_TIMEOUT_MS,
        signer: Callable[[RemotingCommand], None] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(
            handlers or {},
            limits=limits,
            clock=clock,
            name=name,
            on_close=on_close,
            access=AccessRules(allow_remote_admin=True),  # the peers were configured locally
        )
        self.connect_timeout_ms = connect_timeout_ms
        self.signer = signer
        self.tls = tls
        self.closed = False
        self._peers: dict[str, Connection] = {}
        self._dialling: dict[str, asyncio.Task[Connection]] = {}
        self._opening: set[str] = set()

    async def call(
        self, address: str, command: RemotingCommand, timeout_ms: float = CALL_TIMEOUT_MS
    ) -> RemotingCommand:
        """Send a request to ``address`` and wait for the response; connect first if needed.

        ``timeout_ms`` includes connecting. Raises ConnectError, SendRequestError,
        RequestTimeoutError or TooMuchRequestError; a response with an error code is returned.
        """
        deadline = self.loop.time() + timeout_ms / 1000
        if self.signer is not None:
            self.signer(command)
        answer = await self._call_once(address, command, deadline, timeout_ms)
        if answer.code == ResponseCode.GO_AWAY:
            self._forget(address)
            command.opaque = next_opaque()
            answer = await self._call_once(address, command, deadline, timeout_ms)
        return answer

    async def _call_once(
        self, address: str, command: RemotingCommand, deadline: float, timeout_ms: float
    ) -> RemotingCommand:
        connection = await self.connection(address, deadline)
        left_ms = (deadline - self.loop.time()) * 1000
        seen = connection.received
        try:
            return await connection.call(command, max(left_ms, 1.0))
        except SendRequestError as error:
            if not connection.received:
                error.hint = (
                    "does the peer accept TLS only?"
                    if self.tls is None
                    else "does the peer require a client certificate that it trusts?"
                )
            raise
        except RequestTimeoutError:
            if connection.received == seen:
                self._forget(address, connection)
            raise RequestTimeoutError(  # the connection knows only the time that was left
                f"{address}: no answer to request code {command.code} within {timeout_ms:.0f} ms",
                address=address,
                request_code=command.code,
            ) from None
        finally:
            if self._peers.get(address) is not connection and not connection.calls:
                connection.close("it was replaced, and its last call has ended")

    async def oneway(
        self, address: str, command: RemotingCommand, timeout_ms: float = CALL_TIMEOUT_MS
    ) -> None:
        """Send a one-way request; raises ConnectError if connecting fails."""
        if self.signer is not None:
            self.signer(command)
        connection = await self.connection(address, self.loop.time() + timeout_ms / 1000)
        connection.oneway(command)

    async def connection(self, address: str, deadline: float | None = None) -> Connection:
        """Return the open connection to ``address``; connect if there is none.

        Concurrent callers share one attempt. ``deadline`` is in loop time; the connect timeout
        applies as well.
        """
        connection = self._peers.get(address)
        if connection is not None and not connection.closed:
            return connection
        if self.closed:
            raise ConnectError(f"{address}: the client is closed", address=address)
        task = self._dialling.get(address)
        if task is None:
            task = self.loop.create_task(self._dial(address))
            self._dialling[address] = task
            task.add_done_callback(lambda _: self._dialling.pop(address, None))
        left_s = None if deadline is None else max(0.0, deadline - self.loop.time())
        done, _ = await asyncio.wait({task}, timeout=left_s)
        if not done:
            raise ConnectError(f"cannot connect to {address} in time", address=address)
        if task.cancelled():
            raise ConnectError(f"{address}: the client is closed", address=address)
        error = task.exception()
        if error is None:
            return task.result()
        if isinstance(error, ConnectError):
            # one exception object per caller: a shared one would collect all their tracebacks
            raise ConnectError(error.message, error.hint, address=address)
        raise error

    async def _dial(self, address: str) -> Connection:
        try:
            host, port = parse_address(address)
            async with asyncio.timeout(self.connect_timeout_ms / 1000):
                sock = await self._connect(host, port)
        except TimeoutError as error:
            raise ConnectError(
                f"cannot connect to {address} within {self.connect_timeout_ms:g} ms",
                address=address,
            ) from error
        except OSError as error:
            if isinstance(error.errno, int) and error.errno > 0:  # not one of getaddrinfo
                raise connect_refused(address, error.errno, address) from error
            reason = error.strerror or str(error)
            raise ConnectError(f"cannot connect to {address}: {reason}", address=address) from error
        except RocketMQError as error:
            raise ConnectError(
                f"cannot connect to {address!r}: {error.message}", error.hint, address=address
            ) from error
        # Not cancelled from here on: cancellation would leak an open transport.
        self._opening.add(address)
        try:
            _, connection = await self.loop.create_connection(
                lambda: Connection(self, address),
                sock=sock,
                ssl=self.tls,
                server_hostname=host if self.tls else None,
                ssl_handshake_timeout=self.connect_timeout_ms / 1000 if self.tls else None,
            )
        except OSError as error:
            raise ConnectError(f"{address}: {error}", address=address) from error
        finally:
            self._opening.discard(address)
        if self.closed:
            connection.close()
            raise ConnectError(f"{address}: the client is closed", address=address)
        self._peers[address] = connection
        return connection

    async def _connect(self, host: str, port: int) -> socket.socket:
        """Return a connected socket; try the host's addresses in order."""
        infos = await self.loop.getaddrinfo(lookup_name(host), port, type=socket.SOCK_STREAM)
        for place, (family, kind, protocol, _, target) in enumerate(infos):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await self.loop.sock_connect(sock, target)
            except OSError:
                sock.close()
                if place == len(infos) - 1:
                    raise
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        raise OSError(f"no address for {host}")

    def disconnected(self, connection: Connection) -> None:
        """Remove a lost connection; the next call opens a new one."""
        self._forget(connection.dialled, connection)
        super().disconnected(connection)

    def _forget(self, address: str, connection: Connection | None = None) -> None:
        if connection is None or self._peers.get(address) is connection:
            self._peers.pop(address, None)

    async def close(self) -> None:
        """Close every connection; calls in flight fail with SendRequestError."""
        self.closed = True
        dialling = dict(self._dialling)
        for address, task in dialling.items():
            if address not in self._opening:
                task.cancel()
        if dialling:
            await asyncio.wait(dialling.values())
        await self.close_connections()
