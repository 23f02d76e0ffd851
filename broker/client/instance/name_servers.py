"""NameServers: one current name server, another one when it cannot be reached.

The first is chosen at random, so that clients spread; the following ones in turn.

**Source:** RocketMQ ``NettyRemotingClient#getAndCreateNameserverChannel``,
``DefaultTopAddressing#fetchNSAddr``.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from importlib import import_module

from broker.client.config import ClientConfig, parse_namesrv
from broker.client.instance.transport import Transport
from broker.common.clock import Clock
from broker.errors import ClientError, RemotingError
from broker.remoting.protocol.command import RemotingCommand, next_opaque

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
        self.addresses: Sequence[str] = config.namesrv_addresses()
        self._url = _discovery_url(config)
        self._transport = transport
        self._clock = clock
        self._fetch = fetch
        self._current = random.randrange(max(1, len(self.addresses)))
        self.discovers = bool(self._url) and not self.addresses

    @property
    def current(self) -> str:
        """The address asked first; ClientError while none is known."""
        if not self.addresses:
            raise ClientError(
                f"no name server is known: {self._url} has not been read yet",
                "is the address server running?",
            )
        return self.addresses[self._current % len(self.addresses)]

    async def discover(self) -> bool:
        """Read the list over HTTP; returns whether it changed. Errors are logged, the list kept."""
        if self._fetch is None:  # HTTP costs 50 ms to import, and few clients discover addresses
            self._fetch = import_module("broker.client.instance.address_server").fetch_text
        try:
            text = await asyncio.get_running_loop().run_in_executor(None, self._fetch, self._url)
            addresses = parse_namesrv(text.strip())
        except (OSError, ValueError, ClientError) as error:
            log.warning("name servers from %s: %s", self._url, error)
            return False
        if not addresses or addresses == tuple(self.addresses):
            return False
        log.info("name servers are now %s", ";".join(addresses))
        self.addresses = addresses
        self._current = random.randrange(len(addresses))
        return True

    async def call(self, command: RemotingCommand, timeout_ms: float) -> RemotingCommand:
        """Ask the current name server; after a failure the others in turn, within the timeout.

        One that does not answer costs its share of the time. Raises the last RemotingError.
        """
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        count = len(self.addresses)
        last: RemotingError | None = None
        for attempt in range(max(1, count)):
            address = self.current
            left_ms = deadline_ms - self._clock.monotonic_ms()
            share_ms = left_ms / max(1, count - attempt)
            if share_ms <= 0:
                break
            try:
                return await self._transport.call(address, command, share_ms)
            except RemotingError as error:
                last = error
                self._current += 1
                command.opaque = next_opaque()
        raise last or RemotingError(f"no name server answered within {timeout_ms:g} ms")


def _discovery_url(config: ClientConfig) -> str:
    """Return the URL of the list; a unit has a list that only its clients use."""
    if config.namesrv_url and config.unit_name:
        return f"{config.namesrv_url}-{config.unit_name}?nofix=1"
    return config.namesrv_url
