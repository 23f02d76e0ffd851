"""Start and stop by ``async with``."""

import asyncio

import pytest

from broker.client.lifecycle import AsyncStartable


class Client(AsyncStartable):
    def __init__(self) -> None:
        self.calls: list[str] = []

    async def start(self) -> None:
        self.calls.append("start")

    async def shutdown(self) -> None:
        self.calls.append("shutdown")


def test_the_end_of_the_block_stops_it_also_after_an_error() -> None:
    client = Client()

    async def main() -> None:
        async with client as entered:
            assert entered is client
            raise ValueError("in the block")

    with pytest.raises(ValueError, match="in the block"):
        asyncio.run(main())
    assert client.calls == ["start", "shutdown"]
