"""The choice of the event loop."""

import asyncio

import pytest

from broker.remoting.process import loop


def test_uvloop_is_taken_when_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    uvloop = pytest.importorskip("uvloop")
    monkeypatch.delenv(loop.LOOP_VARIABLE, raising=False)
    assert loop.loop_factory() is uvloop.new_event_loop


def test_the_environment_can_ask_for_asyncios_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(loop.LOOP_VARIABLE, "asyncio")
    assert loop.loop_factory() is None

    async def kind() -> str:
        return type(asyncio.get_running_loop()).__module__

    assert loop.run(kind()).startswith("asyncio")


def test_run_gives_back_the_result() -> None:
    async def main() -> int:
        return 42

    assert loop.run(main()) == 42
