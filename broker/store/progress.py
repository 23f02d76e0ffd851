"""Progress: long work says every few seconds how far it is and how long the rest will take.

**Source:** no Java counterpart.
"""

import logging
import time
from typing import Final, NamedTuple

_log = logging.getLogger(__name__)
_NOTE_SECONDS: Final = 5


class Unit(NamedTuple):
    """What is counted: its name, and how many make one of those that are shown."""

    name: str
    size: int = 1


MIB: Final = Unit("MiB", 1 << 20)


class Progress:
    """Tells the log how far ``what`` is between ``start`` and ``end``, and when it will be done."""

    def __init__(self, what: str, start: int, end: int, unit: Unit) -> None:
        self._what = what
        self._start = start
        self._end = end
        self._unit = unit
        self._began = self._noted = time.monotonic()

    def at(self, position: int) -> None:
        """The work has come to ``position``; a line every few seconds."""
        now = time.monotonic()
        if now - self._noted < _NOTE_SECONDS:
            return
        self._noted = now
        done, whole = position - self._start, max(1, self._end - self._start)
        rate = done / (now - self._began)
        name, size = self._unit
        _log.info(
            "%s: %d of %d %s (%d %%), %.0f %s/s, about %.0f s left",
            *(self._what, done // size, whole // size, name, min(100, done * 100 // whole)),
            *(rate / size, name, max(0, whole - done) / max(1.0, rate)),
        )
