"""Read the units of one ConsumeQueue again, to find those without a scanned record."""

from typing import Final, NamedTuple

from broker.store.format.consumequeue import (
    PRE_BLANK_SIZE,
    UNIT_SIZE,
    UNIT_STRUCT,
    ConsumeQueueUnit,
)
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.inspector.verify.queue_checks import UnitFile

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
        from mqadmin.inspector.verify.vectorized.unit_columns import classify

        found = classify(
            data,
            bytes(file.seen),
            start=self.start,
            before=self._before,
            started=self.units > 0,
        )
        self.odd += [Anomaly(file.first + at, unit, seen=good) for at, unit, good in found.strange]
        self.units += found.units
        self.seen += found.seen
        self.expired += found.expired
        if found.first_physical is not None and found.last_physical is not None:
            self.first_physical = min(self.first_physical, found.first_physical)
            self._before = found.last_physical
        if found.seen:
            self.last_seen = file.first + found.last_seen
            if self.first_seen < 0:
                self.first_seen = file.first + found.first_seen
        if found.expired:
            self.last_expired = file.first + found.last_expired
