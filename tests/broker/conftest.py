"""Fixtures of the core's tests: the event loops of the daemons."""

import asyncio
import warnings
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker.remoting.process import loop

TIMEOUT_S = 20


@pytest.fixture(params=["uvloop", "asyncio"])
def event_loop_name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The event loop that daemons start in this test: each test that uses it runs on both.

    The loops differ: uvloop rounds timers to whole milliseconds and its handles are other types.
    """
    if request.param == "uvloop":
        pytest.importorskip("uvloop")
    monkeypatch.setenv(loop.LOOP_VARIABLE, request.param)
    return str(request.param)


@pytest.fixture
def run(event_loop_name: str) -> Callable[..., Any]:
    """Run a coroutine in each kind of loop a daemon may have; it must end in ``limit_s``."""

    def runner(main: Coroutine, limit_s: float = TIMEOUT_S) -> Any:
        async def limited() -> Any:
            async with asyncio.timeout(limit_s):
                return await main

        with asyncio.Runner(loop_factory=loop.loop_factory()) as loop_runner:
            try:
                return loop_runner.run(limited())
            except BaseException:
                # a failed test leaves connections open; as errors their warnings would stop
                # uvloop from closing them, and then it waits for them for ever
                warnings.simplefilter("ignore", ResourceWarning)
                raise

    return runner
