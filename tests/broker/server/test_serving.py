"""A role between start and clean stop, and its ready line."""

import asyncio

import pytest

from broker.errors import ConnectError
from broker.remoting import daemon
from broker.server import serving
from broker.server.settings import Settings


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
