"""A rate limit: the time at which the next unit is due."""

from broker.common.clock import Clock

BURST_S = 0.05
"""A late sender may catch up this much, so that short pauses do not lower the rate."""


class Pace:
    """Spaces units at ``rate`` per second; None: no limit."""

    def __init__(self, rate: float | None, clock: Clock) -> None:
        self._rate = rate
        self._clock = clock
        self._due_ms = clock.monotonic_ms()

    def delay_s(self, units: int = 1) -> float:
        """Take ``units`` and return the seconds to wait before the first of them is sent."""
        if self._rate is None:
            return 0.0
        now_ms = self._clock.monotonic_ms()
        begin_ms = max(self._due_ms, now_ms - BURST_S * 1000)
        self._due_ms = begin_ms + units * 1000 / self._rate
        return max(0.0, begin_ms - now_ms) / 1000
