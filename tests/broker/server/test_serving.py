"""A role between start and clean stop, and its ready line."""

import asyncio
import gc
import weakref

import pytest

from broker.errors import ConnectError
from broker.remoting.client import RemotingClient
from broker.remoting.process import daemon
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request, response
from broker.remoting.server import RemotingServer
from broker.server import serving
from broker.server.configuration.settings import Settings


class FakeRole:
    """Record the calls."""

    address = "127.0.0.1:20911"

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.calls: list[str] = []

    async def start(self) -> None:
        self.calls.append("start")
        if self.failure:
            raise self.failure

    async def close(self) -> None:
        self.calls.append("close")


def test_ready_line_is_javas() -> None:
    settings = Settings({"namesrvAddr": "127.0.0.1:9876"})
    assert serving.ready_line(settings, "127.0.0.1:10911") == (
        "The broker[broker-a, 127.0.0.1:10911] boot success. "
        "serializeType=JSON and name server is 127.0.0.1:9876"
    )
    assert serving.ready_line(Settings({}), "h:1").endswith("serializeType=JSON")


def test_the_ready_line_follows_the_start_and_close_follows_the_stop(
    monkeypatch, capsys, run
) -> None:
    monkeypatch.setattr(serving, "freeze_start_objects", lambda: None)
    role = FakeRole()

    async def serve() -> int:
        stop = asyncio.Event()
        work = asyncio.create_task(serving.serve_until(role, Settings({}), stop))
        await asyncio.sleep(0)
        assert role.calls == ["start"]
        stop.set()
        return await work

    assert run(serve()) == daemon.STATUS_OK
    assert role.calls == ["start", "close"]
    assert "127.0.0.1:20911] boot success" in capsys.readouterr().out


def test_a_failed_start_announces_nothing_and_closes_nothing(capsys, run) -> None:
    role = FakeRole(ConnectError("port in use"))
    with pytest.raises(ConnectError):
        run(serving.serve_until(role, Settings({}), asyncio.Event()))
    assert role.calls == ["start"]
    assert capsys.readouterr().out == ""


def test_the_survivors_of_a_full_collection_are_frozen() -> None:
    """A collection scans new objects, not every topic, group and client each time."""
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    try:
        serving.freeze_start_objects()
        serving.freeze_start_objects()
        assert gc.get_threshold() == serving.COLLECTED_AT_ONCE
        assert gc.callbacks.count(serving.freeze_survivors) == 1
        table = [[number] for number in range(10_000)]
        frozen = gc.get_freeze_count()
        gc.collect(1)
        assert gc.get_freeze_count() <= frozen
        gc.collect()
        assert gc.get_freeze_count() > frozen + len(table) * 0.9  # other objects come and go
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks[:] = callbacks
        gc.unfreeze()


def test_a_closed_connection_is_freed_without_a_collection(run) -> None:
    """Frozen objects are freed by their reference counts only: no cycle may hold them."""

    class Mark:
        """Lives as long as the connection that has it."""

    async def main() -> list[weakref.ref]:
        seen: list[weakref.ref] = []

        def connected(connection) -> None:
            connection.attrs["mark"] = Mark()
            seen.append(weakref.ref(connection.attrs["mark"]))

        server = RemotingServer(
            {RequestCode.HEART_BEAT: lambda connection, command: response(command)},
            on_connect=connected,
        )
        await server.start([("127.0.0.1", 0)])
        for _ in range(3):
            client = RemotingClient()
            await client.call(server.addresses[0], request(RequestCode.HEART_BEAT))
            await client.close()
        await server.close()
        await asyncio.sleep(0)
        return seen

    gc.disable()
    try:
        seen = run(main())
        assert len(seen) == 3
        assert [ref() for ref in seen] == [None, None, None]
    finally:
        gc.enable()
