"""Read the units of one ConsumeQueue again, to find those without a scanned record."""

from typing import Any, Final, NamedTuple

from broker.store.format.consumequeue import (
    PRE_BLANK_SIZE,
    UNIT_SIZE,
    UNIT_STRUCT,
    ConsumeQueueUnit,
)
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.inspector.verify.queue_checks import UnitFile, unit_array

# A physical offset that no unit has.
NO_UNIT: Final = 1 << 62


class Anomaly(NamedTuple):
    """A unit that deviates from the log or from the order of the queue.

    ``seen``: its record was scanned or has expired; ``followed``: a seen unit comes after it.
    """

    queue_offset: int
    unit: ConsumeQueueUnit
    seen: bool
    followed: bool = False


class UnitView:
    """Statistics and anomalies of a queue's units, accumulated file by file.

    A unit is good if its record was scanned, or has expired (is below ``start``). ``odd`` collects
    all others, good units that do not increase in physical offset, and empty and pre-blank units
    between written ones.
    """

    def __init__(self, start: int) -> None:
        self.start = start
        self.odd: list[Anomaly] = []
        # Queue offsets [first, end) between the last unit of a file and the start of the next.
        self.holes: list[tuple[int, int]] = []
        self._end = -1
        self.units = 0
        self.seen = 0
        self.expired = 0
        self.first_physical = NO_UNIT  # least one of all good units
        self.first_seen = -1
        self.last_seen = -1
        self.last_expired = -1
        self._before = -1  # physical offset of the last good unit

    def look(self, data: bytes, file: UnitFile) -> None:
        """Add the next file of the queue."""
        if self._end < 0:
            self._end = file.first
        if not file.count:
            return
        if file.first > self._end:
            self.holes.append((self._end, file.first))
        self._end = file.first + file.count
        if has_columns():
            self._by_columns(data, file)
        else:
            self._plainly(data, file)

    def _plainly(self, data: bytes, file: UnitFile) -> None:
        units = UNIT_STRUCT.iter_unpack(bytes(data[: file.count * UNIT_SIZE]))
        for at, values in enumerate(units):
            unit = ConsumeQueueUnit._make(values)
            offset = file.first + at
            is_seen = bool(file.seen[at])
            if unit == (0, 0, 0) or unit[:2] == (0, PRE_BLANK_SIZE):
                if self.units or unit.size == 0:
                    self.odd.append(Anomaly(offset, unit, seen=False))
                continue
            self.units += 1
            expired = not is_seen and 0 <= unit.physical_offset < self.start and unit.size > 0
            if not (is_seen or expired):
                self.odd.append(Anomaly(offset, unit, seen=False))
                continue
            if unit.physical_offset <= self._before:
                self.odd.append(Anomaly(offset, unit, seen=True))
            self._before = unit.physical_offset
            self.first_physical = min(self.first_physical, unit.physical_offset)
            if is_seen:
                self.seen += 1
                self.last_seen = offset
                self.first_seen = offset if self.first_seen < 0 else self.first_seen
            else:
                self.expired += 1
                self.last_expired = offset

    def _by_columns(self, data: bytes, file: UnitFile) -> None:
        import numpy as np

        units = unit_array(data)[: file.count]
        physical, size = units["physical"].astype(np.int64), units["size"].astype(np.int64)
        empty = (physical == 0) & (size == 0) & (units["tags"] == 0)
        filler = (physical == 0) & (size == PRE_BLANK_SIZE)
        real = ~(empty | filler)
        seen = np.frombuffer(file.seen, dtype=np.uint8) != 0
        expired = real & ~seen & (physical >= 0) & (physical < self.start) & (size > 0)
        good = real & (seen | expired)
        # For each unit, the position of the last good unit before it.
        numbers = np.arange(len(units))
        latest = np.maximum.accumulate(np.where(good, numbers, -1))
        earlier = np.concatenate(([-1], latest[:-1]))
        before = np.where(earlier >= 0, physical[earlier], self._before)
        started = np.logical_or.accumulate(real) if not self.units else np.ones(len(units), bool)
        strange = (real & ~good) | (good & (physical <= before)) | empty | (filler & started)
        for at in np.flatnonzero(strange).tolist():
            unit = ConsumeQueueUnit(int(physical[at]), int(size[at]), int(units["tags"][at]))
            self.odd.append(Anomaly(file.first + at, unit, seen=bool(good[at])))
        self._count(file.first, physical, (real, seen & real, expired, good))

    def _count(self, first: int, physical: Any, masks: tuple[Any, ...]) -> None:
        import numpy as np

        real, seen, expired, good = (np.flatnonzero(mask) for mask in masks)
        self.units += len(real)
        self.seen += len(seen)
        self.expired += len(expired)
        if len(good):
            self.first_physical = min(self.first_physical, int(physical[good].min()))
            self._before = int(physical[good[-1]])
        if len(seen):
            self.last_seen = first + int(seen[-1])
            self.first_seen = first + int(seen[0]) if self.first_seen < 0 else self.first_seen
        if len(expired):
            self.last_expired = first + int(expired[-1])
