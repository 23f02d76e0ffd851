"""ConsumeQueue: for each message queue, the physical offsets of its messages in the log.

A queue's units form an array: unit q is at byte 20 x q of its files. Only dispatch adds units.
``next_offset`` is the counter from which puts allocate queue offsets; it is ahead of
``max_offset`` by the number of messages that are not dispatched yet.

**Source:** RocketMQ ConsumeQueue, ConsumeQueueStore.
"""

from collections.abc import Callable
from typing import Final

from broker.common.topic import SCHEDULE_TOPIC
from broker.message.record import MAGIC_V1, MAGIC_V2, TOPIC_MAX_SIZE_V1
from broker.store.consumequeue.consume_queue_ext import NO_ADDRESS, ConsumeQueueExt
from broker.store.consumequeue.expiry import FILLER, first_live_unit
from broker.store.format.consumequeue import (
    NO_UNIT,
    PRE_BLANK_SIZE,
    UNIT_SIZE,
    UNIT_STRUCT,
    encode_fillers,
    ext_offset,
    is_ext_address,
    is_queue_name,
)
from broker.store.format.indexfile import topic_prefix
from broker.store.logfile.mapped_file import NOWHERE, PAGE, MappedFile, MappedFileQueue

_PACK_INTO: Final = UNIT_STRUCT.pack_into
UNPACK_FROM: Final = UNIT_STRUCT.unpack_from
_ITER_UNPACK: Final = UNIT_STRUCT.iter_unpack
_NO_UNITS: Final = memoryview(b"")
Unit = tuple[int, int, int]


class Topic:
    """State of one topic in the engine: its encoded name, its key hash, its queues."""

    __slots__ = (
        "batch",
        "data",
        "key_prefix",
        "magic",
        "name",
        "on_recreated",
        "queues",
        "scheduled",
        "special",
        "stored",
        "stored_size",
        "usable",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.data = name.encode("utf-8", "replace")
        if len(self.data) > TOPIC_MAX_SIZE_V1:
            self.magic = MAGIC_V2
            self.stored = len(self.data).to_bytes(2, "big") + self.data
        else:
            self.magic = MAGIC_V1
            self.stored = bytes((len(self.data),)) + self.data
        self.stored_size = len(self.stored)
        self.key_prefix = topic_prefix(name)
        # The schedule topic has delivery times in place of tags codes; a batch topic (attribute
        # queue.type=BatchCQ) has BatchConsumeQueues. ``special``: scheduled, batch or not usable;
        # dispatch then leaves its fast path.
        self.scheduled = name == SCHEDULE_TOPIC
        self.batch = False
        # Only a damaged or foreign record has a topic that is not a valid folder name.
        self.usable = is_queue_name(self.data)
        self.special = self.scheduled or not self.usable
        self.queues: dict[int, ConsumeQueue] = {}
        self.on_recreated: Callable[[ConsumeQueue, int], None] | None = None


class ConsumeQueue:
    """One queue's units.

    ``max_offset`` is the queue offset after the last unit, ``min_offset`` the queue offset of the
    first message still in the log, ``max_physical_offset`` the end of the last unit's record (-1:
    none). From queue offset ``reserved_offset`` on, a put must call :meth:`ensure_capacity` first.
    ``file`` is the current file, which gets the next unit, or None.
    """

    __slots__ = (
        "_clears",
        "_flushed",
        "_limit",
        "_on_dirty",
        "_position",
        "_size",
        "checked",
        "dirty",
        "ext",
        "file",
        "files",
        "max_offset",
        "max_physical_offset",
        "min_offset",
        "named",
        "next_offset",
        "queue_id",
        "reserved_offset",
        "topic",
    )

    def __init__(
        self,
        topic: Topic,
        queue_id: int,
        files: MappedFileQueue,
        on_dirty: Callable[["ConsumeQueue"], None],
    ) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.files = files
        self.min_offset = 0
        self.max_offset = 0
        self.next_offset = 0
        self.reserved_offset = 0
        self.max_physical_offset = -1
        self.dirty = False
        # Number of times that the queue was cleared; that number at the start of the last sync, and
        # the bytes flushed then: a sync of files that are removed meanwhile does not count.
        self._clears = 0
        self._flushed = 0, 0
        self.named = False
        # Queue offsets (begin, end) whose records pulls have compared with their position.
        self.checked = (0, 0)
        # The tags codes of units may be addresses of extension units; None: never.
        self.ext: ConsumeQueueExt | None = None
        self._on_dirty = on_dirty
        self._size = files.file_size
        self.file: MappedFile | None = None
        # In the current file: position of the next unit, and end of the space reserved for units.
        self._position = self._limit = self._size

    @property
    def flushed_bytes(self) -> int:
        """Bytes of units that are on the disk."""
        clears, end = self._flushed
        return end if clears == self._clears else 0

    @flushed_bytes.setter
    def flushed_bytes(self, end: int) -> None:
        self._flushed = self._clears, end

    def note_checked(self, begin: int, end: int) -> None:
        """Note that the records of these queue offsets are at their position, or hidden."""
        low, high = self.checked
        self.checked = (low, max(high, end)) if low <= begin <= high else (begin, end)

    @property
    def first_offset(self) -> int:
        """Queue offset of the first unit in the oldest file; 0 without files."""
        return self.files.files[0].start // UNIT_SIZE if self.files.files else 0

    def ensure_capacity(self, queue_offset: int) -> None:
        """Reserve file space for the unit of ``queue_offset``, before its message is stored.

        So an acknowledged message can be dispatched even when the disk is full. DiskFullError if
        there is no space for the unit. For a queue without files whose first offset is past the
        first file, the file is created with the first unit.
        """
        files = self.files
        if not files.files and queue_offset >= self._size // UNIT_SIZE:
            return
        room = max(self.reserved_offset, self.next_offset)
        while room <= queue_offset:
            start = room * UNIT_SIZE
            file = files.find(start) or files.create(start // self._size * self._size)
            last = min((queue_offset + 1) * UNIT_SIZE, file.start + self._size)
            file.reserve_ahead(last - file.start)
            if file.start >= self.max_offset * UNIT_SIZE:  # also one left by a put that failed here
                file.mapping[: len(NO_UNIT)] = NO_UNIT
            room = self.reserved_offset = (file.start + file.reserved) // UNIT_SIZE

    def append(self, queue_offset: int, physical_offset: int, size: int, tags_code: int) -> bool:
        """Add the unit of one record; False if the queue already has it.

        DiskFullError or StoreError if a file cannot be created or grown.

        **Source:** RocketMQ ConsumeQueue#putMessagePositionInfo.
        """
        position = self._position
        # Fast path: the next unit in order, with reserved space for it.
        if queue_offset != self.max_offset or position >= self._limit:
            if not self._place(queue_offset, (physical_offset, size, tags_code)):
                return False
            position = self._position
        file = self.file
        assert file is not None
        _PACK_INTO(file.mapping, position, physical_offset, size, tags_code)
        self._position = position + UNIT_SIZE
        self.max_offset = queue_offset + 1
        self.max_physical_offset = physical_offset + size
        if not self.dirty:
            self.dirty = True
            self._on_dirty(self)
        return True

    def append_units(self, data: bytes, physical_end: int) -> None:
        """Add packed units after the last one; the record of the last ends at ``physical_end``.

        DiskFullError if a further file cannot be created; units that fitted stay.
        """
        done = 0
        while done < len(data):
            file = self._ensure(len(data) - done)
            position = self._position
            room = min(len(data) - done, self._limit - position)
            file.mapping[position : position + room] = data[done : done + room]
            self._position = position + room
            self.max_offset += room // UNIT_SIZE
            done += room
        self.max_physical_offset = physical_end
        self.mark_dirty()

    def mapped(self, queue_offset: int, count: int) -> tuple[MappedFile | None, int, int]:
        """The file with this unit, position in it, units from there on, at most ``count``."""
        left = self.max_offset - queue_offset
        if left <= 0 or queue_offset < 0:
            return None, 0, 0
        start = queue_offset * UNIT_SIZE
        file = self.file
        if file is None or start < file.start:
            file = self.files.find(start)
            if file is None:
                return None, 0, 0
        position = start - file.start
        in_file = (self._size - position) // UNIT_SIZE
        if left > in_file:
            left = in_file
        return file, position, count if count < left else left

    def packed(self, queue_offset: int, count: int) -> memoryview:
        """At most ``count`` packed units from ``queue_offset`` on, from one file only."""
        file, position, count = self.mapped(queue_offset, count)
        end = position + count * UNIT_SIZE
        return file.view[position:end] if file is not None else _NO_UNITS

    def mark_flushed(self) -> None:
        """Mark all units and folder entries as flushed, as they are after a clean stop."""
        self.flushed_bytes = self.max_offset * UNIT_SIZE
        self.named = True

    def exposed(self, log_min: int) -> bool:
        """Whether a power cut could lose units of records that are before ``log_min``."""
        if not self.named:
            return self.max_offset > 0
        first = self.unit(self.flushed_bytes // UNIT_SIZE)
        return first is not None and first[0] < log_min

    def mark_dirty(self) -> None:
        """Schedule the queue for the next flush."""
        if not self.dirty:
            self.dirty = True
            self._on_dirty(self)

    def read(self, queue_offset: int, count: int) -> list[Unit]:
        """Up to ``count`` units from ``queue_offset`` on, from one file only.

        Each is (physical offset, size, tags code); filler units are included. The tags code is an
        address (:func:`is_ext_address`) only if its extension unit is lost.
        """
        units = self.read_raw(queue_offset, count)
        return units if self.ext is None else self.ext.resolve(units)

    def read_raw(self, queue_offset: int, count: int) -> list[Unit]:
        """As :meth:`read`, with the tags codes as stored."""
        return list(_ITER_UNPACK(self.packed(queue_offset, count)))

    def unit(self, queue_offset: int) -> Unit | None:
        """The unit of one queue offset, None outside the queue."""
        if not 0 <= queue_offset < self.max_offset:
            return None
        start = queue_offset * UNIT_SIZE
        file = self.files.find(start)
        if file is None:
            return None
        unit: Unit = UNPACK_FROM(file.mapping, start - file.start)
        if self.ext is not None:
            return self.ext.resolve([unit])[0]
        return unit

    def unit_base(self, queue_offset: int) -> int:
        """First queue offset of the unit that contains ``queue_offset``: here each has its own."""
        return queue_offset

    def unit_end(self, queue_offset: int) -> int:
        """Queue offset after the unit that contains ``queue_offset``: here each has its own."""
        return queue_offset + 1

    def next_file_offset(self, queue_offset: int) -> int:
        """Queue offset of the first unit of the file after the one that contains ``queue_offset``.

        **Source:** RocketMQ ConsumeQueue#rollNextFile.
        """
        per_file = self._size // UNIT_SIZE
        return queue_offset + per_file - queue_offset % per_file

    def load(self, *, crashed: bool = False, notes: list[str] | None = None) -> None:
        """Find the files and the end of the units: the last unit before the first empty one.

        Units are written in order, so binary search finds the end; recovery compares the units
        with the log. The queue ends at the first file that is missing or was too short; recovery
        rebuilds the units after it from the log.

        **Source:** RocketMQ ConsumeQueue#recover (scans the last three files).
        """
        self._load_files(crashed, notes if notes is not None else [])
        files = self.files.files
        while files:
            count = self._count_units(files[-1])
            if count or len(files) == 1:
                break
            self.files.remove_last()
        self._set_end(files[-1].start // UNIT_SIZE + count if files else 0)

    def _load_files(self, crashed: bool, notes: list[str]) -> None:
        """Open the files up to the first one that is missing or was too short."""
        files = self.files
        files.load(crashed=crashed, notes=notes)
        gap = files.cut_at_gap()
        if gap:
            notes.append(f"{gap}: missing, the queue is rebuilt from the log from there")
        short = files.short_from < NOWHERE
        while short and len(files.files) > 1 and files.files[-1].start > files.short_from:
            files.remove_last()

    def scan_end(self, files_back: int = 3) -> None:
        """Find the end by reading every unit of the last ``files_back`` files, after a crash.

        Unlike binary search this detects a page of zeros in the middle, which a power cut can
        leave; the queue is truncated there.
        """
        files = self.files.files
        if not files:
            return
        first = max(0, len(files) - files_back)
        for file in files[first:]:
            stored = file.data_end() // UNIT_SIZE
            number = 0
            for physical_offset, size, _ in _ITER_UNPACK(file.view[: stored * UNIT_SIZE]):
                if physical_offset < 0 or size <= 0:
                    break
                number += 1
            if number < self._size // UNIT_SIZE:
                self.truncate_units(file.start // UNIT_SIZE + number)
                return
        self._set_end((files[-1].start + self._size) // UNIT_SIZE)

    def truncate_to_log(self, physical_end: int) -> bool:
        """Drop units of records that end past ``physical_end``; return whether there were any.

        **Source:** RocketMQ ConsumeQueue#truncateDirtyLogicFiles.
        """
        first, high = self.first_offset, self.max_offset
        low = first if self._ends_past(high - 1, physical_end) else high
        while low < high:
            middle = (low + high) // 2
            # One of the three may be corrupt.
            places = (max(first, middle - 1), middle, middle + 1)
            if sum(self._ends_past(place, physical_end) for place in places) > 1:
                high = middle
            else:
                low = middle + 1
        if low == self.max_offset:
            return False
        self.truncate_units(low)
        return True

    def _ends_past(self, queue_offset: int, physical_end: int) -> bool:
        unit = self.unit(queue_offset)
        return unit is None or (unit[1] != PRE_BLANK_SIZE and unit[0] + unit[1] > physical_end)

    def truncate_units(self, queue_offset: int) -> None:
        """Make ``queue_offset`` the end of the queue.

        Units past it are erased: the next load would find those that are not overwritten.
        """
        end = queue_offset * UNIT_SIZE
        files = self.files.files
        while files and files[-1].start >= end and (len(files) > 1 or end == 0):
            self.files.remove_last()
        if files:
            files[-1].clear_after(max(0, end - files[-1].start))
        self.flushed_bytes = min(self.flushed_bytes, end)
        self._set_end(queue_offset if files else 0)

    def correct_min_offset(self, log_min: int) -> int:
        """Set ``min_offset`` to the first unit whose record is still in the log; return its place.

        That is the position of the unit in the bytes of the queue. Binary search over all files;
        Java searches the first file only, and reports 0 if all records of that file are before the
        start of the log.

        **Source:** RocketMQ ConsumeQueue#correctMinOffset.
        """
        low = min(self.first_offset, self.max_offset)
        self.min_offset = first_live_unit(low, self.max_offset, log_min, self._physical_offset)
        return self.min_offset * UNIT_SIZE

    def _physical_offset(self, queue_offset: int) -> int:
        unit = self.unit(queue_offset)
        return unit[0] if unit is not None and unit[1] != PRE_BLANK_SIZE else FILLER

    def delete_expired(self, log_min: int) -> int:
        """Correct ``min_offset`` and remove the files before it; never the last file.

        **Source:** RocketMQ MappedFileQueue#deleteExpiredFileByOffset.
        """
        removed = 0
        files = self.files.files
        live_at = self.correct_min_offset(log_min)
        while len(files) > 1 and files[1].start <= live_at:
            self.files.remove_first()
            removed += 1
        if removed and self.ext is not None:
            self.ext.delete_before(UNPACK_FROM(files[0].mapping)[2])
        return removed

    def load_ext(self, *, crashed: bool, notes: list[str]) -> None:
        """Open the extension units, once recovery has found the end of the queue."""
        if self.ext is not None:
            self.ext.load(self._last_ext_offset(), crashed=crashed, notes=notes)

    def _last_ext_offset(self) -> int:
        """Byte offset of the extension unit that the last unit with an address refers to."""
        for file in reversed(self.files.files):
            units = list(_ITER_UNPACK(file.view[: file.written // UNIT_SIZE * UNIT_SIZE]))
            for unit in reversed(units):
                if is_ext_address(unit[2]):
                    return ext_offset(unit[2])
        return NO_ADDRESS

    def dirty_pages(self) -> int:
        """Pages of units added since the last sync."""
        return (self.max_offset * UNIT_SIZE - self.flushed_bytes) // PAGE

    def sync(self) -> None:
        """Wait until the queue's units are on the disk; for the flushing thread."""
        self.dirty = False
        clears = self._clears
        if self.ext is not None:
            self.ext.sync()  # before the units that refer to it
        end = self.max_offset * UNIT_SIZE
        for file in list(self.files.files):
            if file.start + file.size > self.flushed_bytes and file.start < end:
                file.sync()
        self._flushed = clears, end

    def close(self) -> None:
        """Close the files."""
        self.file = None
        self._position = self._limit = self._size
        self.files.close()
        if self.ext is not None:
            self.ext.close()

    def release_mappings(self) -> None:
        """Unmap the files until their next use."""
        for file in list(self.files.files):
            file.release_mapping()

    def restart_if_recreated(self, queue_offset: int, physical_offset: int) -> bool:
        """Empty the queues of the topic if a record has offset 0 after later ones; return whether.

        The topic was deleted and recreated on the master while this slave did not see it. As in
        recovery, the later record wins.
        """
        if queue_offset or physical_offset < self.max_physical_offset:
            return False
        if self.topic.on_recreated is not None:
            self.topic.on_recreated(self, physical_offset)
        return self.max_offset == 0

    def clear(self) -> None:
        """Remove all units; the queue then starts at offset 0."""
        self.truncate_units(0)
        self.min_offset = self.reserved_offset = 0
        self._cleared()

    def _cleared(self) -> None:
        self.checked = (0, 0)
        self._clears += 1

    def destroy(self) -> None:
        """Remove the queue's folder."""
        self.close()
        self.files.destroy()
        if self.ext is not None:
            self.ext.destroy()
        self.max_offset = self.min_offset = self.next_offset = self.reserved_offset = 0
        self.max_physical_offset = -1

    def _place(self, queue_offset: int, unit: Unit) -> bool:
        """Advance the end of the queue to ``queue_offset``; False if its unit is already stored."""
        known = unit[0] + unit[1] <= self.max_physical_offset or queue_offset < self.max_offset
        if known and not self.restart_if_recreated(queue_offset, unit[0]):
            return False
        if self.max_offset == 0 and queue_offset > 0 and not self.files.find(0):
            self._begin_at(queue_offset)
        while self.max_offset < queue_offset:
            # A gap left by corruption: later units must keep their queue offsets (Java appends
            # without a gap, which shifts them). Filler units are copies of the unit after the gap:
            # physical offsets never decrease, and a Java broker that reads them gets a message.
            file = self._ensure(UNIT_SIZE)
            position = self._position
            _PACK_INTO(file.mapping, position, *unit)
            self._position = position + UNIT_SIZE
            self.max_offset += 1
        self._ensure(UNIT_SIZE)
        return True

    def _ensure(self, size: int) -> MappedFile:
        """Reserve space for the next unit; if the file must grow, for up to ``size`` bytes.

        Return the file.
        """
        if self._position == self._size:
            self._next_file()
        file = self.file
        assert file is not None
        if self._position >= self._limit:
            file.reserve_ahead(min(self._position + size, self._size))
            self._limit = file.reserved // UNIT_SIZE * UNIT_SIZE
        return file

    def _begin_at(self, queue_offset: int) -> None:
        """Start an empty queue above 0: filler units from the start of the file to the offset.

        If this fails, the queue stays empty; the next unit tries again.
        """
        start = queue_offset * UNIT_SIZE // self._size * self._size
        file = self.files.find(start) or self.files.create(start)
        fillers = (queue_offset * UNIT_SIZE - start) // UNIT_SIZE
        file.reserve_ahead(fillers * UNIT_SIZE)
        file.mapping[: fillers * UNIT_SIZE] = encode_fillers(fillers)
        self.min_offset = self.max_offset = queue_offset
        self.next_offset = max(self.next_offset, queue_offset)
        self._enter_file(file)

    def _next_file(self) -> None:
        """Continue in the file of the next unit, without a look at the file before it.

        That file may have to be mapped again, which can fail.
        """
        files = self.files
        end = self.max_offset * UNIT_SIZE
        file = files.find(end) or files.create(end // self._size * self._size)
        if self.file is not None:
            self.file.written = self._size
        self._enter_file(file)

    def _enter_file(self, file: MappedFile) -> None:
        """Make ``file`` the current one, which gets the next unit; that unit reserves its space."""
        self.file = file
        self._position = file.written = self.max_offset * UNIT_SIZE - file.start
        self._limit = 0

    def _set_end(self, queue_offset: int) -> None:
        """Make ``queue_offset`` the end: set current file, position and end of the last record."""
        files = self.files.files
        self.max_offset = self.next_offset = queue_offset
        self.file = None
        self._position = self._limit = self._size
        end = queue_offset * UNIT_SIZE
        file = self.files.find(end)
        if file is not None:
            self.file = file
            self._position = end - file.start
            self._limit = 0  # the next put reserves space
        for file in files:
            file.written = max(0, min(self._size, end - file.start))
        self.max_physical_offset = self._last_record_end(queue_offset)

    def _last_record_end(self, queue_offset: int) -> int:
        while queue_offset > 0:
            unit = self.unit(queue_offset - 1)
            if unit is None:
                break
            if unit[1] != PRE_BLANK_SIZE:
                return unit[0] + unit[1]
            queue_offset -= 1
        return -1

    def _count_units(self, file: MappedFile) -> int:
        mapping = file.mapping
        low, high = 0, file.search_end() // UNIT_SIZE
        while low < high:
            middle = (low + high) // 2
            physical_offset, size, _ = UNPACK_FROM(mapping, middle * UNIT_SIZE)
            if physical_offset >= 0 and size > 0:
                low = middle + 1
            else:
                high = middle
        return low
