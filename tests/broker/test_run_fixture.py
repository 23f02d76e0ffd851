"""The fixture ``run``: neither a busy machine nor an earlier failure decides a test."""

import asyncio
import weakref
from collections.abc import Callable

import pytest

from broker.remoting.client import RemotingClient


def test_a_failed_test_leaves_no_open_connection(run: Callable[..., object]) -> None:
    """Collected during a later test, its warning would fail that one."""
    opened: list[weakref.ref[asyncio.StreamWriter]] = []

    async def main() -> None:
        server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        async with server:
            address = server.sockets[0].getsockname()
            reader, writer = await asyncio.open_connection(*address)
            opened.append(weakref.ref(writer))
            assert not reader.at_eof()
            raise ValueError("the test fails")

    with pytest.raises(ValueError, match="the test fails"):
        run(main())
    assert [reference() for reference in opened] == [None]


def test_clients_without_a_timeout_of_their_own_are_patient(run: Callable[..., object]) -> None:
    async def main() -> None:
        client = RemotingClient()
        limit_ms = client.connect_timeout_ms
        await client.close()
        assert limit_ms > 30_000

    run(main())
