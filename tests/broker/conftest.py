"""Fixtures of the core's tests."""

import asyncio
import warnings
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker.remoting import loop

TIMEOUT_S = 20


@pytest.fixture
def run() -> Callable[[Coroutine], Any]:
    """Run a coroutine in the daemon's kind of loop; it must end soon."""

    def runner(main: Coroutine) -> Any:
        async def limited() -> Any:
            async with asyncio.timeout(TIMEOUT_S):
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
