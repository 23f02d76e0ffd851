"""Transport: how the client reaches its peers, as a constructor argument.

``RemotingTransport`` uses TCP; tests pass one that connects client and server cores in memory.

**Source:** RocketMQ ``RemotingClient``, ``MixAll#brokerVIPChannel``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Protocol

from broker.client.config import ClientConfig
from broker.common.address import format_address, parse_address
from broker.remoting.client import RemotingClient
from broker.remoting.connection import Connection
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand

BrokerRequestHandler = Callable[[str, RemotingCommand], Awaitable[RemotingCommand | None]]
"""Handles a request of a broker: (address of the broker, request) to response or None."""

_FAST_PORT_CODES = frozenset(
    {
        RequestCode.SEND_MESSAGE,
        RequestCode.SEND_MESSAGE_V2,
        RequestCode.SEND_BATCH_MESSAGE,
        RequestCode.CONSUMER_SEND_MSG_BACK,
    }
)


class Transport(Protocol):
    """Requests to addresses; each error is a RemotingError."""

    async def call(
        self, address: str, command: RemotingCommand, timeout_ms: float
    ) -> RemotingCommand:
        """Send a request and wait for the response."""
        ...

    async def oneway(self, address: str, command: RemotingCommand, timeout_ms: float) -> None:
        """Send a one-way request."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...


TransportFactory = Callable[[ClientConfig, Mapping[int, BrokerRequestHandler]], Transport]


class RemotingTransport:
    """TCP, with TLS, signatures, address map and VIP channel as configured."""

    def __init__(
        self, config: ClientConfig, handlers: Mapping[int, BrokerRequestHandler] | None = None
    ) -> None:
        self._map = dict(config.address_map)
        self._vip = config.vip_channel
        self._client = RemotingClient(
            {code: partial(_handle, handler) for code, handler in (handlers or {}).items()},
            name="client",
            connect_timeout_ms=config.connect_timeout_ms,
            signer=config.credentials.sign if config.credentials is not None else None,
            tls=config.tls,
        )

    async def call(
        self, address: str, command: RemotingCommand, timeout_ms: float
    ) -> RemotingCommand:
        """Send a request and wait for the response."""
        return await self._client.call(self.reachable(address, command.code), command, timeout_ms)

    async def oneway(self, address: str, command: RemotingCommand, timeout_ms: float) -> None:
        """Send a one-way request."""
        await self._client.oneway(self.reachable(address, command.code), command, timeout_ms)

    def reachable(self, address: str, code: int) -> str:
        """Return the address to connect to for a request to ``address``."""
        if self._vip and code in _FAST_PORT_CODES:
            host, port = parse_address(address)
            address = format_address(host, port - 2)
        return self._map.get(address, address)

    async def close(self) -> None:
        """Close all connections; calls in flight fail."""
        await self._client.close()
        await asyncio.sleep(0)  # lets the transports report their end before the loop is closed


async def _handle(
    handler: BrokerRequestHandler, connection: Connection, command: RemotingCommand
) -> RemotingCommand | None:
    return await handler(connection.dialled or connection.remote_address, command)
