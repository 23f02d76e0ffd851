"""Fixtures of the core's tests: the event loops of the daemons."""

import asyncio
import gc
import traceback
import warnings
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker.remoting.client import RemotingClient
from broker.remoting.process import loop

TIMEOUT_S = 20
PATIENCE_MS = 60_000  # of clients whose test names no timeout: a busy machine decides no test


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
def patient_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the default timeouts of RemotingClient by ones that only a lost answer reaches."""
    monkeypatch.setitem(RemotingClient.__init__.__kwdefaults__, "connect_timeout_ms", PATIENCE_MS)
    monkeypatch.setattr(RemotingClient.call, "__defaults__", (PATIENCE_MS,))


@pytest.fixture
def run(event_loop_name: str, patient_clients: None) -> Callable[..., Any]:
    """Run a coroutine in each kind of loop a daemon may have; it must end in ``limit_s``."""

    def runner(main: Coroutine, limit_s: float = TIMEOUT_S) -> Any:
        async def limited() -> Any:
            async with asyncio.timeout(limit_s):
                return await main

        try:
            with asyncio.Runner(loop_factory=loop.loop_factory()) as loop_runner:
                try:
                    return loop_runner.run(limited())
                except BaseException as error:
                    # a failed test leaves connections open; as errors their warnings would stop
                    # uvloop from closing them, and then it waits for them for ever
                    warnings.simplefilter("ignore", ResourceWarning)
                    release_locals(error)
                    raise
        except BaseException:
            gc.collect()  # later, the warnings of these connections would fail another test
            raise

    return runner


def release_locals(error: BaseException | None) -> None:
    """Clear the variables of the functions that ``error`` and its causes ended."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__
