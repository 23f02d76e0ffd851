"""LoopLag: how long the event loop was blocked, and by which request.

One slow handler delays every client. A timer (the probe) is therefore set when bytes arrive; its
lateness equals the delay of a client's request. An idle loop sets no timer. ``ran`` reports
single requests that take longer than the limit, with their code.

::

    bytes arrive ─ arm() ─── … the loop works … ─── probe: lateness = now - when it was due
                    └ ran(command, seconds) after a request that took longer than the limit
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

from broker.remoting.protocol.codes import request_name

LAG_LIMIT_S: Final = 0.05
"""A request or other code that blocks the loop for longer than this is logged."""

PROBE_S: Final = 0.05
"""Delay of the probe."""

WINDOW_S: Final = 60
"""Period that ``longest_ms`` covers."""

LOG_PERIOD_S: Final = 1.0
"""At most one log line per period: a loop that is always late must not fill the log."""

log = logging.getLogger("broker.remoting")


class LoopLag:
    """The delays of one loop; ``now_s`` is a monotonic clock."""

    __slots__ = ("_due_s", "_last_code", "_logged_s", "_now_s", "_seconds", "armed", "name")

    def __init__(self, name: str, now_s: Callable[[], float]) -> None:
        self.name = name
        self._now_s = now_s
        self.armed = False
        self._due_s = 0.0
        self._last_code: int | None = None
        self._logged_s = -LOG_PERIOD_S
        self._seconds: deque[tuple[int, float]] = deque()  # (second, longest delay in it)

    def arm(self, loop: asyncio.AbstractEventLoop) -> None:
        """Set the probe unless already set; called when bytes arrive, before they are handled."""
        if not self.armed:
            self.armed = True
            self._last_code = None
            self._due_s = self._now_s() + PROBE_S
            loop.call_later(PROBE_S, self.probe)

    def began(self, code: int) -> None:
        """Record a request whose handler awaits: code that runs next may belong to it."""
        self._last_code = code

    def probe(self) -> None:
        """Record how late the timer fired."""
        self.armed = False
        late_s = self._now_s() - self._due_s
        self._note(late_s)
        if late_s > LAG_LIMIT_S:
            code = self._last_code
            suspect = "" if code is None else f", last: {request_name(code)} ({code})"
            self._log(f"the loop was held up for {late_s * 1000:.0f} ms{suspect}")

    def ran(self, code: int, seconds: float) -> None:
        """Record and log a request that blocked the loop for longer than the limit."""
        self._note(seconds)
        self._log(f"{request_name(code)} ({code}) held up the loop for {seconds * 1000:.0f} ms")

    @property
    def longest_ms(self) -> float:
        """The longest delay of the last minute."""
        self._drop_old(int(self._now_s()))
        return max((delay for _, delay in self._seconds), default=0.0) * 1000

    def _note(self, delay_s: float) -> None:
        second = int(self._now_s())
        delay_s = max(0.0, delay_s)
        if self._seconds and self._seconds[-1][0] == second:
            delay_s = max(delay_s, self._seconds.pop()[1])
        self._seconds.append((second, delay_s))
        self._drop_old(second)

    def _drop_old(self, second: int) -> None:
        while self._seconds and self._seconds[0][0] <= second - WINDOW_S:
            self._seconds.popleft()

    def _log(self, text: str) -> None:
        now_s = self._now_s()
        if now_s - self._logged_s >= LOG_PERIOD_S:
            self._logged_s = now_s
            log.warning("%s: %s", self.name, text)
