"""The slave's end of the HA connection: kept and delivered bytes, pauses, errors and the end."""

import asyncio

import pytest

from broker.errors import StoreError
from broker.server.ha.link.master_stream import MAX_KEPT_BYTES, MasterStream


class Transport:
    """Notes the calls of a stream."""

    def __init__(self, stream: MasterStream) -> None:
        self.calls: list[str] = []
        self.stream = stream
        stream.connection = self

    def write(self, data: bytes) -> None:
        self.calls.append(f"write {len(data)}")

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")

    def is_closing(self) -> bool:
        return "abort" in self.calls

    def abort(self) -> None:
        self.calls.append("abort")
        asyncio.get_running_loop().call_soon(self.stream.connection_lost, None)


def test_bytes_are_kept_until_they_are_read(run) -> None:
    async def scenario() -> None:
        stream = MasterStream()
        Transport(stream)
        stream.data_received(b"one")
        stream.data_received(b"two")
        assert await stream.read() == b"onetwo"
        reading = asyncio.ensure_future(stream.read())
        await asyncio.sleep(0)
        assert not reading.done()
        stream.data_received(b"three")
        assert await reading == b"three"

    run(scenario())


def test_reading_pauses_while_too_many_bytes_are_kept(run) -> None:
    async def scenario() -> None:
        stream = MasterStream()
        transport = Transport(stream)
        stream.data_received(bytes(MAX_KEPT_BYTES - 1))
        assert transport.calls == []
        stream.data_received(b"x")
        stream.data_received(b"y")
        assert transport.calls == ["pause"]
        assert len(await stream.read()) == MAX_KEPT_BYTES + 1
        assert transport.calls == ["pause", "resume"]

    run(scenario())


def test_kept_bytes_and_later_ones_are_delivered_at_once(run) -> None:
    async def scenario() -> None:
        stream = MasterStream()
        Transport(stream)
        delivered: list[bytes] = []
        stream.data_received(b"one")
        stream.data_received(b"two")
        stream.deliver(delivered.append)
        assert delivered == [b"onetwo"]
        stream.data_received(b"three")
        assert delivered == [b"onetwo", b"three"]

    run(scenario())


def test_after_an_error_nothing_is_delivered_and_the_stream_has_ended_with_it(run) -> None:
    async def scenario() -> None:
        stream = MasterStream()
        transport = Transport(stream)
        delivered: list[bytes] = []

        def refuse(data: bytes) -> None:
            delivered.append(data)
            raise StoreError("an invalid record")

        stream.deliver(refuse)
        assert not stream.ended
        stream.data_received(b"one")
        stream.data_received(b"two")
        assert delivered == [b"one"]
        assert transport.calls == ["pause"]
        assert stream.changed.is_set()
        with pytest.raises(StoreError, match="an invalid record"):
            assert stream.ended

    run(scenario())


def test_bytes_received_before_the_end_are_read_before_it(run) -> None:
    async def scenario() -> None:
        stream = MasterStream()
        Transport(stream)
        stream.data_received(b"one")
        stream.eof_received()
        assert not stream.ended
        assert await stream.read() == b"one"
        assert stream.ended
        assert await stream.read() == b""

    run(scenario())


def test_a_lost_connection_ends_a_read_with_its_error(run) -> None:
    async def scenario() -> None:
        stream = MasterStream()
        Transport(stream)
        reading = asyncio.ensure_future(stream.read())
        await asyncio.sleep(0)
        stream.connection_lost(ConnectionResetError("reset"))
        with pytest.raises(ConnectionResetError):
            await reading

    run(scenario())


def test_close_aborts_the_connection_and_waits_for_its_end(run) -> None:
    async def scenario() -> None:
        stream = MasterStream()
        transport = Transport(stream)
        await stream.close()
        assert transport.calls == ["abort"]
        assert stream.ended
        stream.pause()
        stream.resume()
        assert transport.calls == ["abort"]

    run(scenario())
