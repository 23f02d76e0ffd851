"""NameServers: one current name server, another one when it cannot be reached.

The first is chosen at random, so that clients spread; the following ones in turn.

**Source:** RocketMQ ``NettyRemotingClient#getAndCreateNameserverChannel``,
``DefaultTopAddressing#fetchNSAddr``.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from importlib import import_module

from broker.client.config import ClientConfig
from broker.client.instance.transport import Transport
from broker.common.clock import Clock
from broker.errors import ClientError, RemotingError
from broker.remoting.protocol.command import RemotingCommand, next_opaque
from broker.remoting.rpc.caller import NameServerOrder, parse_namesrv

log = logging.getLogger("broker.client")

Fetch = Callable[[str], str]


class NameServers:
    """The known name servers; ``fetch`` reads a URL (blocking, called in a thread)."""

    def __init__(
        self,
        config: ClientConfig,
        transport: Transport,
        clock: Clock,
        *,
        fetch: Fetch | None = None,
    ) -> None:
        self._order = _random_order(config.namesrv_addresses())
        self._url = _discovery_url(config)
        self._transport = transport
        self._clock = clock
        self._fetch = fetch
        self.discovers = bool(self._url) and not self.addresses

    @property
    def addresses(self) -> tuple[str, ...]:
        """The known name servers."""
        return self._order.addresses

    @property
    def current(self) -> str:
        """The address asked first; ClientError while none is known."""
        self._check_known()
        return self._order.current

    def _check_known(self) -> None:
        if not self.addresses:
            raise ClientError(
                f"no name server is known: {self._url} has not been read yet",
                "is the address server running?",
            )

    async def discover(self) -> bool:
        """Read the list over HTTP; returns whether it changed. Errors are logged, the list kept."""
        if self._fetch is None:  # HTTP costs 50 ms to import, and few clients discover addresses
            self._fetch = import_module("broker.remoting.rpc.address_server").fetch_text
        try:
            text = await asyncio.get_running_loop().run_in_executor(None, self._fetch, self._url)
            addresses = parse_namesrv(text.strip())
        except (OSError, ValueError, ClientError) as error:
            log.warning("name servers from %s: %s", self._url, error)
            return False
        if not addresses or addresses == self.addresses:
            return False
        log.info("name servers are now %s", ";".join(addresses))
        self._order = _random_order(addresses)
        return True

    async def call(self, command: RemotingCommand, timeout_ms: float) -> RemotingCommand:
        """Ask the current name server; after a failure the others in turn, within the timeout.

        One that does not answer costs its share of the time. Raises the last RemotingError.
        """
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        self._check_known()
        order = self._order
        last: RemotingError | None = None
        for address, attempts_left in order.attempts():
            share_ms = (deadline_ms - self._clock.monotonic_ms()) / attempts_left
            if share_ms <= 0:
                break
            try:
                return await self._transport.call(address, command, share_ms)
            except RemotingError as error:
                last = error
                order.failed(address)
                command.opaque = next_opaque()
        raise last or RemotingError(f"no name server answered within {timeout_ms:g} ms")


def _random_order(addresses: tuple[str, ...]) -> NameServerOrder:
    return NameServerOrder(addresses, random.randrange(max(1, len(addresses))))


def _discovery_url(config: ClientConfig) -> str:
    """Return the URL of the list; a unit has a list that only its clients use."""
    if config.namesrv_url and config.unit_name:
        return f"{config.namesrv_url}-{config.unit_name}?nofix=1"
    return config.namesrv_url
