"""The event loop of a daemon: uvloop if installed, else asyncio's default loop.

uvloop handles a request about three times as fast. ``ROCKETMQ_LOOP=asyncio`` selects asyncio's
loop, for comparison and debugging.
"""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

LOOP_VARIABLE = "ROCKETMQ_LOOP"


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the constructor of the loop to use; None means asyncio's default."""
    if os.environ.get(LOOP_VARIABLE, "") == "asyncio":
        return None
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run ``main`` in a new loop; returns its result."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)
