"""Progress: log the state of a long operation and its remaining time every few seconds.

**Source:** no Java counterpart.
"""

import logging
import time
from typing import Final, NamedTuple

_log = logging.getLogger(__name__)
NOTE_SECONDS: Final = 5


class Unit(NamedTuple):
    """The unit of progress: displayed name, and counted items per displayed unit."""

    name: str
    size: int = 1


MIB: Final = Unit("MiB", 1 << 20)


class Progress:
    """Log progress of operation ``subject`` from ``start`` to ``end`` and its remaining time."""

    def __init__(self, subject: str, start: int, end: int, unit: Unit) -> None:
        self._subject = subject
        self._start = start
        self._end = end
        self._unit = unit
        self._began = self._noted = time.monotonic()

    def at(self, position: int) -> None:
        """Record that the operation reached ``position``; log at most one line per interval."""
        now = time.monotonic()
        if now - self._noted < NOTE_SECONDS:
            return
        self._noted = now
        done, whole = position - self._start, max(1, self._end - self._start)
        rate = done / (now - self._began)
        name, size = self._unit
        _log.info(
            "%s: %d of %d %s (%d %%), %.0f %s/s, about %.0f s left",
            *(self._subject, done // size, whole // size, name, min(100, done * 100 // whole)),
            *(rate / size, name, max(0, whole - done) / max(1.0, rate)),
        )
