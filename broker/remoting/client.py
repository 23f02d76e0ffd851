"""The asyncio client: one connection per address, any number of calls on it.

::

    client = RemotingClient()
    answer = await client.call("127.0.0.1:9876", request(RequestCode.GET_ROUTEINFO_BY_TOPIC, ...))
    await client.close()

A call that gets GO_AWAY is repeated once on a new connection. After a timeout the connection is
closed when nothing at all has come from the peer since the call began (Java always closes it; a
peer that still answers others is merely slow, and closing would break their calls).

**Source:** RocketMQ NettyRemotingClient (channelTables, getAndCreateChannel, invokeSync,
isCloseSocketIfTimeout, GO_AWAY since 5.3.1).
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping

from broker.common.address import parse_address
from broker.common.clock import Clock
from broker.errors import ConnectError, RequestTimeoutError, RocketMQError
from broker.remoting.connection import Connection
from broker.remoting.endpoint import Endpoint, Handler
from broker.remoting.limits import CALL_TIMEOUT_MS, CONNECT_TIMEOUT_MS, EndpointLimits
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import RemotingCommand, next_opaque


class RemotingClient(Endpoint):
    """An endpoint that dials; peers may send requests to its ``handlers``.

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
            allow_remote_admin=True,  # who is dialled was chosen by the configuration
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
        """Ask the peer at ``address`` and wait for its answer, connecting first if needed.

        ``timeout_ms`` covers connecting too. Raises ConnectError, SendRequestError,
        RequestTimeoutError or TooMuchRequestError; an answer with an error code is returned.
        """
        deadline = self.loop.time() + timeout_ms / 1000
        if self.signer is not None:
            self.signer(command)
        answer = await self._call_once(address, command, deadline)
        if answer.code == ResponseCode.GO_AWAY:
            self._forget(address)
            command.opaque = next_opaque()
            answer = await self._call_once(address, command, deadline)
        return answer

    async def _call_once(
        self, address: str, command: RemotingCommand, deadline: float
    ) -> RemotingCommand:
        connection = await self.connection(address, deadline)
        left_ms = (deadline - self.loop.time()) * 1000
        seen = connection.received
        try:
            return await connection.call(command, max(left_ms, 1.0))
        except RequestTimeoutError:
            if connection.received == seen:
                connection.close("a call timed out and nothing was heard")
                self._forget(address, connection)
            raise

    async def oneway(
        self, address: str, command: RemotingCommand, timeout_ms: float = CALL_TIMEOUT_MS
    ) -> None:
        """Send a request nobody answers; raises ConnectError when there is no connection."""
        if self.signer is not None:
            self.signer(command)
        connection = await self.connection(address, self.loop.time() + timeout_ms / 1000)
        connection.oneway(command)

    async def connection(self, address: str, deadline: float | None = None) -> Connection:
        """The open connection to ``address``, made if there is none (one attempt for all callers).

        ``deadline`` in loop time, at most the connect timeout from now.
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
            # one exception object per waiter, or their tracebacks grow into each other
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
            reason = error.strerror or str(error)
            raise ConnectError(f"cannot connect to {address}: {reason}", address=address) from error
        except RocketMQError as error:
            raise ConnectError(
                f"cannot connect to {address!r}: {error.message}", error.hint, address=address
            ) from error
        # From here on nothing may be cancelled: it would leave a transport nobody owns.
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
        """A connected socket: the host's addresses are tried in order."""
        infos = await self.loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
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
        """Forget a connection that was lost; the next call dials anew."""
        self._forget(connection.dialled, connection)
        super().disconnected(connection)

    def _forget(self, address: str, connection: Connection | None = None) -> None:
        if connection is None or self._peers.get(address) is connection:
            self._peers.pop(address, None)

    async def close(self) -> None:
        """Close every connection; calls under way fail with SendRequestError."""
        self.closed = True
        dialling = dict(self._dialling)
        for address, task in dialling.items():
            if address not in self._opening:
                task.cancel()
        if dialling:
            await asyncio.wait(dialling.values())
        await self.close_connections()
