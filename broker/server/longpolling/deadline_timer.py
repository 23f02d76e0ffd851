"""One event-loop timer that fires at the earliest armed deadline.

The deadline is kept here and never read back from the event loop's handle: uvloop rounds delays
to whole milliseconds, and for a delay below 0.5 ms returns a plain handle without a time.
"""

import asyncio
import math
from collections.abc import Callable

from broker.common.clock import Clock


class DeadlineTimer:
    """Call ``call()`` once at the earliest armed deadline, at most 1 ms late; then it is disarmed.

    Deadlines are monotonic clock readings in ms. Requires a running event loop.
    """

    __slots__ = ("_call", "_clock", "_deadline_ms", "_handle")

    def __init__(self, clock: Clock, call: Callable[[], None]) -> None:
        self._clock = clock
        self._call = call
        self._deadline_ms = math.inf
        self._handle: asyncio.Handle | None = None

    def arm(self, deadline_ms: float) -> None:
        """Fire at ``deadline_ms``, immediately if it has passed; an earlier deadline is kept."""
        if self._deadline_ms <= deadline_ms:
            return
        if self._handle is not None:
            self._handle.cancel()
        self._deadline_ms = deadline_ms
        # Rounded up: a timer that fires early would be armed repeatedly until its deadline.
        wait_ms = max(0, math.ceil(deadline_ms - self._clock.monotonic_ms()))
        self._handle = asyncio.get_running_loop().call_later(wait_ms / 1000, self._fire)

    def cancel(self) -> None:
        """Disarm the timer."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None
        self._deadline_ms = math.inf

    def _fire(self) -> None:
        self._handle = None
        self._deadline_ms = math.inf
        self._call()
