"""BatchConsumeQueue: queues of topics with ``queue.type=BatchCQ`` (5.x).

A unit refers to one record with one or more messages in it, so the unit of a queue offset is found
by binary search over the units' base offsets, not by arithmetic. Unit n is at byte 46 x n of the
files.

**Source:** RocketMQ BatchConsumeQueue.
"""

from collections.abc import Callable, Iterator
from typing import Final

from broker.store.consumequeue.consume_queue import ConsumeQueue, Topic, Unit
from broker.store.consumequeue.expiry import FILLER, first_live_unit
from broker.store.format.consumequeue import BATCH_UNIT_SIZE, BATCH_UNIT_STRUCT
from broker.store.logfile.mapped_file import MappedFile, MappedFileQueue

_UNPACK_FROM: Final = BATCH_UNIT_STRUCT.unpack_from
_PACK_INTO: Final = BATCH_UNIT_STRUCT.pack_into
_EVER: Final = 1 << 62
BatchUnit = tuple[int, int, int, int, int, int, int, int]
_PHYSICAL, _SIZE, _CODE, _STORED, _BASE, _COUNT = range(6)


class BatchConsumeQueue(ConsumeQueue):
    """A queue whose units cover several messages each; same interface as ConsumeQueue."""

    __slots__ = ("_units",)

    def __init__(
        self,
        topic: Topic,
        queue_id: int,
        files: MappedFileQueue,
        on_dirty: Callable[[ConsumeQueue], None],
    ) -> None:
        super().__init__(topic, queue_id, files, on_dirty)
        self._units = 0
        # A put cannot know the position of the unit: dispatch creates the file.
        self.reserved_offset = _EVER

    @property
    def first_offset(self) -> int:
        """Base offset of the first unit."""
        files = self.files.files
        unit = self._unit_at(files[0].start // BATCH_UNIT_SIZE) if files else None
        return unit[_BASE] if unit is not None else 0

    def append(self, queue_offset: int, physical_offset: int, size: int, tags_code: int) -> bool:
        """Add the unit of a record with one message."""
        return self.append_batch(queue_offset, physical_offset, size, tags_code, (0, 1))

    def append_batch(
        self,
        queue_offset: int,
        physical_offset: int,
        size: int,
        tags_code: int,
        time_and_count: tuple[int, int],
    ) -> bool:
        """Add a unit; False if the queue already has it.

        ``time_and_count``: storeTimestamp in ms and number of messages.

        **Source:** RocketMQ BatchConsumeQueue#putBatchMessagePositionInfo.
        """
        stored, count = time_and_count
        known = physical_offset + size <= self.max_physical_offset
        if (known or queue_offset < self.max_offset) and not self.restart_if_recreated(
            queue_offset, physical_offset
        ):
            return False
        start = self._units * BATCH_UNIT_SIZE
        files = self.files.files
        if not files or files[-1].start + self._size <= start:
            self.files.create(start // self._size * self._size)
            files = self.files.files
        file = files[-1]
        file.reserve_ahead(start - file.start + BATCH_UNIT_SIZE)
        _PACK_INTO(
            file.mapping,
            start - file.start,
            physical_offset,
            size,
            tags_code,
            stored,
            queue_offset,
            count,
            -1,
            0,
        )
        if self._units == 0:
            self.min_offset = queue_offset
        self._units += 1
        file.written = start - file.start + BATCH_UNIT_SIZE
        self.max_offset = queue_offset + count
        self.max_physical_offset = physical_offset + size
        if not self.dirty:
            self.dirty = True
            self._on_dirty(self)
        return True

    def read_batches(self, queue_offset: int, count: int) -> Iterator[BatchUnit]:
        """Up to ``count`` units, starting with the one that contains ``queue_offset``."""
        number = self._number_of(queue_offset)
        for position in range(number, min(number + count, self._units)):
            unit = self._unit_at(position)
            if unit is None:
                return
            yield unit

    def read(self, queue_offset: int, count: int) -> list[Unit]:
        """Up to ``count`` units as (physical offset, size, tags code), as ``read_batches``."""
        return [unit[:3] for unit in self.read_batches(queue_offset, count)]

    def unit(self, queue_offset: int) -> Unit | None:
        """The unit that contains ``queue_offset``, None outside the queue."""
        if not 0 <= queue_offset < self.max_offset:
            return None
        found = self._unit_at(self._number_of(queue_offset))
        return found[:3] if found is not None and found[_BASE] <= queue_offset else None

    def unit_base(self, queue_offset: int) -> int:
        """Base offset of the unit that contains ``queue_offset``."""
        unit = self._unit_at(self._number_of(queue_offset))
        return unit[_BASE] if unit is not None else queue_offset

    def unit_end(self, queue_offset: int) -> int:
        """Queue offset after the unit that contains ``queue_offset``."""
        unit = self._unit_at(self._number_of(queue_offset))
        return unit[_BASE] + unit[_COUNT] if unit is not None else queue_offset

    def next_file_offset(self, queue_offset: int) -> int:
        """Base offset of the first unit in the next file, or the queue's end."""
        per_file = self._size // BATCH_UNIT_SIZE
        number = self._number_of(queue_offset)
        unit = self._unit_at(number + per_file - number % per_file)
        return unit[_BASE] if unit is not None else self.max_offset

    def load(self, *, crashed: bool = False, notes: list[str] | None = None) -> None:
        """Find the files and the number of units, up to a corrupt one.

        The binary search needs ascending bases, and a count that is too large makes a pull skip the
        messages of the next units. Recovery adds the units again.
        """
        self._load_files(crashed, notes if notes is not None else [])
        files = self.files.files
        count = 0
        while files:
            count = self._count_units(files[-1])
            if count or len(files) == 1:
                break
            self.files.remove_last()
        self._set_units(files[-1].start // BATCH_UNIT_SIZE + count if files else 0)
        ordered = self._count_ordered()
        if ordered < self._units:
            self._cut_units(ordered)

    def _count_ordered(self, files_back: int = 3) -> int:
        """Number of units before the first corrupt one, or two that overlap: either is corrupt.

        As Java it reads the last files only.
        """
        before = 0
        for file in self.files.files[-files_back:]:
            number = file.start // BATCH_UNIT_SIZE
            count = min(self._units - number, self._size // BATCH_UNIT_SIZE)
            for unit in BATCH_UNIT_STRUCT.iter_unpack(file.view[: count * BATCH_UNIT_SIZE]):
                if not _whole(unit):
                    return number
                if unit[_BASE] < before:
                    return number - 1
                before = unit[_BASE] + unit[_COUNT]
                number += 1
        return self._units

    def scan_end(self, files_back: int = 3) -> None:
        """Find the end by reading every unit of the last ``files_back`` files."""
        files = self.files.files
        for file in files[max(0, len(files) - files_back) :]:
            stored = file.data_end() // BATCH_UNIT_SIZE
            for number in range(self._size // BATCH_UNIT_SIZE):
                if number >= stored or not _whole(
                    _UNPACK_FROM(file.mapping, number * BATCH_UNIT_SIZE)
                ):
                    # load() may have found an earlier end.
                    self._cut_units(min(self._units, file.start // BATCH_UNIT_SIZE + number))
                    return

    def truncate_to_log(self, physical_end: int) -> bool:
        """Drop units of records that end past ``physical_end``; return whether there were any."""
        end = self._units
        while end > 0:
            unit = self._unit_at(end - 1)
            if unit is None or unit[_PHYSICAL] + unit[_SIZE] <= physical_end:
                break
            end -= 1
        if end == self._units:
            return False
        self._cut_units(end)
        return True

    def truncate_units(self, queue_offset: int) -> None:
        """Drop the unit that contains ``queue_offset`` and all later ones."""
        if queue_offset < self.max_offset:
            number = self._number_of(queue_offset)
            unit = self._unit_at(number)
            # After a corrupt base the unit found may precede the offset: its record was read.
            precedes = unit is not None and unit[_BASE] + unit[_COUNT] <= queue_offset
            self._cut_units(number + precedes)

    def correct_min_offset(self, log_min: int) -> int:
        """Set ``min_offset`` to the first unit whose record is in the log; return its place."""
        files = self.files.files
        low = files[0].start // BATCH_UNIT_SIZE if files else self._units
        number = first_live_unit(low, self._units, log_min, self._physical_offset)
        unit = self._unit_at(number)
        self.min_offset = unit[_BASE] if unit is not None else self.max_offset
        return number * BATCH_UNIT_SIZE

    def _physical_offset(self, number: int) -> int:
        unit = self._unit_at(number)
        return unit[_PHYSICAL] if unit is not None else FILLER

    def mark_flushed(self) -> None:
        """Mark all units and folder entries as flushed, as they are after a clean stop."""
        self.flushed_bytes = self._units * BATCH_UNIT_SIZE
        self.named = True

    def exposed(self, log_min: int) -> bool:
        """Whether a power cut could lose units of records that are before ``log_min``."""
        if not self.named:
            return self._units > 0
        first = self._unit_at(self.flushed_bytes // BATCH_UNIT_SIZE)
        return first is not None and first[_PHYSICAL] < log_min

    def dirty_pages(self) -> int:
        """Pages of units added since the last sync."""
        return (self._units * BATCH_UNIT_SIZE - self.flushed_bytes) // 4096

    def sync(self) -> None:
        """Wait until the queue's units are on the disk; for the flushing thread."""
        self.dirty = False
        clears = self._clears
        end = self._units * BATCH_UNIT_SIZE
        for file in list(self.files.files):
            if file.start + file.size > self.flushed_bytes and file.start < end:
                file.sync()
        self._flushed = clears, end

    def clear(self) -> None:
        """Remove all units; the queue then starts at offset 0."""
        self._cut_units(0)
        self.min_offset = 0
        self._cleared()

    def destroy(self) -> None:
        """Remove the queue's folder."""
        super().destroy()
        self._units = 0
        self.reserved_offset = _EVER

    def _number_of(self, queue_offset: int) -> int:
        """Number of the unit that contains ``queue_offset``: the last with a base at most that."""
        files = self.files.files
        low = first = files[0].start // BATCH_UNIT_SIZE if files else self._units
        high = self._units
        while low < high:
            middle = (low + high) // 2
            unit = self._unit_at(middle)
            if unit is not None and unit[_BASE] <= queue_offset:
                low = middle + 1
            else:
                high = middle
        return max(low - 1, first)

    def _unit_at(self, number: int) -> BatchUnit | None:
        if not 0 <= number < self._units:
            return None
        start = number * BATCH_UNIT_SIZE
        file = self.files.find(start)
        if file is None:
            return None
        unit: BatchUnit = _UNPACK_FROM(file.mapping, start - file.start)
        return unit

    def _count_units(self, file: MappedFile) -> int:
        low, high = 0, file.search_end() // BATCH_UNIT_SIZE
        while low < high:
            middle = (low + high) // 2
            if _whole(_UNPACK_FROM(file.mapping, middle * BATCH_UNIT_SIZE)):
                low = middle + 1
            else:
                high = middle
        return low

    def _cut_units(self, units: int) -> None:
        end = units * BATCH_UNIT_SIZE
        files = self.files.files
        while files and files[-1].start >= end and (len(files) > 1 or end == 0):
            self.files.remove_last()
        if files:
            files[-1].clear_after(max(0, end - files[-1].start))
        self.flushed_bytes = min(self.flushed_bytes, end)
        self._set_units(units if files else 0)

    def _set_units(self, units: int) -> None:
        self._units = units
        files = self.files.files
        end = units * BATCH_UNIT_SIZE
        for file in files:
            file.written = max(0, min(self._size, end - file.start))
        last = self._unit_at(units - 1)
        if last is None:
            self.max_offset = self.next_offset = 0
            self.max_physical_offset = -1
        else:
            self.max_offset = self.next_offset = last[_BASE] + last[_COUNT]
            self.max_physical_offset = last[_PHYSICAL] + last[_SIZE]


def _whole(unit: BatchUnit) -> bool:
    """Whether the bytes are a stored unit (unused space is zeros).

    **Source:** RocketMQ BatchConsumeQueue#recover.
    """
    return unit[_PHYSICAL] >= 0 and unit[_SIZE] > 0 and unit[_BASE] >= 0 and unit[_COUNT] > 0
