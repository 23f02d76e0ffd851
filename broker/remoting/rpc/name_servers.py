"""The name servers of a client and the order in which they are asked; no I/O, no clock.

Both transports use it: the blocking caller of the toolkit and the asyncio client.

**Source:** RocketMQ ``NettyRemotingClient#getAndCreateNameserverChannel``.
"""

from collections.abc import Iterator, Sequence

from broker.common.address import parse_address
from broker.errors import ClientError, LocalProtocolError


def parse_namesrv(given: str | Sequence[str]) -> tuple[str, ...]:
    """Split ``a:1;b:2`` into addresses, without duplicates; ClientError for an invalid one."""
    texts = given.replace(",", ";").split(";") if isinstance(given, str) else given
    addresses = tuple(dict.fromkeys(text.strip() for text in texts if text.strip()))
    for address in addresses:
        try:
            parse_address(address)
        except LocalProtocolError as error:
            raise ClientError(f"name server {address!r}: {error.message}", error.hint) from error
    return addresses


class NameServerOrder:
    """Stays with the name server that answered; after a failure the next one is asked first.

    >>> order = NameServerOrder(["a:1", "b:2"])
    >>> order.failed("a:1")
    >>> order.current, [address for address, _ in order.attempts()]
    ('b:2', ['b:2', 'a:1'])
    """

    def __init__(self, addresses: Sequence[str], first: int = 0) -> None:
        self.addresses = tuple(addresses)
        self._first = first

    @property
    def current(self) -> str:
        """The address that is asked first; there must be one."""
        return self.addresses[self._first % len(self.addresses)]

    def attempts(self) -> Iterator[tuple[str, int]]:
        """Yield each address once, from the current one on, with the number of attempts left."""
        count, first = len(self.addresses), self._first
        for step in range(count):
            yield self.addresses[(first + step) % count], count - step

    def answered(self, address: str) -> None:
        """Ask this address first from now on."""
        self._first = self.addresses.index(address)

    def failed(self, address: str) -> None:
        """Ask the next one first, if this one was."""
        if self.current == address:
            self._first += 1
