"""Time as a parameter: the Clock protocol, the system clock, and a manual clock for tests."""

import time
from typing import Protocol


class Clock(Protocol):
    """The source of time that is passed to components which need the time."""

    def now_ms(self) -> int:
        """Wall-clock time, milliseconds since 1970 UTC; may jump."""
        ...

    def monotonic_ms(self) -> float:
        """Milliseconds from an arbitrary start; never goes back. For waits and deadlines."""
        ...


class SystemClock:
    """The system's clocks."""

    __slots__ = ()

    def now_ms(self) -> int:
        """Wall-clock time, milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> float:
        """Milliseconds of the system's monotonic clock."""
        return time.monotonic() * 1000.0


class ManualClock:
    """A clock that changes only by :meth:`advance` (both readings) and :meth:`jump`."""

    __slots__ = ("_monotonic_ms", "_now_ms")

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = start_ms
        self._monotonic_ms = 0.0

    def now_ms(self) -> int:
        """Return the start time plus all advances and jumps."""
        return self._now_ms

    def monotonic_ms(self) -> float:
        """Return the sum of all advances."""
        return self._monotonic_ms

    def advance(self, ms: int) -> None:
        """Move both readings forward by ``ms`` >= 0."""
        if ms < 0:
            raise ValueError(f"time does not go back: {ms} ms (use jump for the wall clock)")
        self._now_ms += ms
        self._monotonic_ms += ms

    def jump(self, ms: int) -> None:
        """Change the wall clock only, forward or back, as an administrator or NTP does."""
        self._now_ms += ms
