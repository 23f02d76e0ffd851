"""RecordSlices: the records of a pull in slices of the mapped log.

In most pulls all records are in one file, intact, and within the limits. Every other pull is left
to the checks per message of :meth:`broker.store.reader.StoreReader.get_message`.

Units and file are found in :meth:`RecordSlices.read` itself: a pull of 32 messages evicts Python's
code and objects from the cache, so that a call more takes several times as long as in a loop.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, Protocol

from broker.store.commitlog import CommitLog
from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.format.commitlog import RECORD_LEAST
from broker.store.format.consumequeue import UNIT, UNIT_SIZE
from broker.store.logfile.mapped_file import MappedFile

Records = tuple[int, int, list[memoryview], ConsumeQueue]
"""Number of messages, their bytes, the records in slices of one or more, and their queue."""

PHYSICAL_OFFSET: Final = UNIT.packer("physicalOffset").unpack_from
"""``PHYSICAL_OFFSET(units, position)``: a tuple of the physical offset of the unit there."""

_PLACE: Final = UNIT.packer("physicalOffset", "size")
_PLACES: Final = Struct(f"{_PLACE.format}{UNIT_SIZE - _PLACE.size}x").iter_unpack


class Reader(Protocol):
    """The side of :class:`broker.store.reader.StoreReader` that ordinary pulls use."""

    log: CommitLog
    in_memory: tuple[int, int]
    memory_bytes: int
    unchecked_before: int

    def compared_before(self, queue: ConsumeQueue, start: int, count: int) -> int:
        """Physical offset before which these units' records must be compared, 0 for none."""
        ...

    def limits(self, physical_offset: int, max_count: int, max_bytes: int) -> tuple[int, int]:
        """Maximum messages and bytes of a pull whose first record is at ``physical_offset``."""
        ...


class RecordSlices:
    """The slices of a reader; ``end`` is the physical offset after the last record read."""

    def __init__(self, reader: Reader) -> None:
        self.end = 0
        self._log = reader.log
        self._reader = reader

    def read(
        self, queue: ConsumeQueue, start: int, max_count: int, max_bytes: int = 0
    ) -> Records | None:
        """Read at most so many messages from queue offset ``start`` on; None: one is unusual.

        ``start`` is not negative. ``max_bytes`` 0 means the configured limit.
        """
        reader, log, at = self._reader, self._log, start * UNIT_SIZE
        units = queue.file
        if units is None or at < units.start:
            units = queue.files.find(at)
            if units is None:
                return None
        position = at - units.start
        known = (units.size - position) // UNIT_SIZE
        behind = queue.max_offset - start
        if behind < known:
            known = behind
        if known < 1:
            return None
        packed = units.view
        (first,) = PHYSICAL_OFFSET(packed, position)
        count, limit = reader.in_memory
        if max_bytes or log.max_offset - first > reader.memory_bytes:
            count, limit = reader.limits(first, max_count, max_bytes)
        elif max_count < count:
            count = max_count
        if count > known:
            count = known
        file = log.files.find(first)
        if file is None or count < 1:
            return None
        if reader.unchecked_before and first < reader.compared_before(queue, start, count):
            return None
        next_unit = position + count * UNIT_SIZE
        places = _PLACES(packed[position:next_unit])
        view, base, end, total = file.view, file.start, -1, 0
        records: list[memoryview] = []
        for offset, size in places:
            offset -= base
            if size < RECORD_LEAST:
                return None
            if offset <= end:
                if offset < end:  # a filler unit
                    return None
                run = end - len(records.pop()), offset + size
                end, added = _slice_runs(records, run, places, file)
                total += size + added
                break
            end = offset + size
            records.append(view[offset:end])
            total += size
        if end < 0 or end > file.written or total > limit:
            return None
        end += base
        if count < known:
            (following,) = PHYSICAL_OFFSET(packed, next_unit)
        else:
            unit = queue.unit(start + count)
            following = unit[0] if unit is not None else end
        if following < end:  # a filler unit
            return None
        self.end = end
        return count, total, records, queue


def _slice_runs(
    records: list[memoryview],
    run: tuple[int, int],
    places: Iterator[tuple[int, int]],
    file: MappedFile,
) -> tuple[int, int]:
    """Add the records at ``places`` of a file, adjacent ones in one slice.

    ``run``: begin and end of the adjacent records before them, which are not in a slice. Returns
    the end of the last record, -1 if one is unusual, and the bytes of those at ``places``.
    """
    view, base = file.view, file.start
    begin, end = run
    total = 0
    for offset, size in places:
        offset -= base
        if offset != end:
            if offset < end:  # a filler unit
                return -1, 0
            records.append(view[begin:end])
            begin = offset
        if size < RECORD_LEAST:
            return -1, 0
        end = offset + size
        total += size
    records.append(view[begin:end])
    return end, total
