"""Survey a damaged log: the extents of good bytes, and the correct start of each file.

A file may have the wrong name. Files are therefore first arranged by the physical offsets in their
records, without renaming them, and the log is then scanned in that order.
"""

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.errors import StoreError
from broker.store.format.commitlog import LogRecord, check_record, own_offset
from mqadmin.inspector.damage import LAST_MS
from mqadmin.inspector.directory import LogFile, StoreDirectory, without_overlaps
from mqadmin.inspector.files import FileBytes, open_bytes
from mqadmin.inspector.log import LogWalk, torn_record
from mqadmin.inspector.store_manifest import read_queue_ends
from mqadmin.inspector.verify.config_checks import read_settings
from mqadmin.inspector.verify.log_walk import ColumnWalk, has_columns

if TYPE_CHECKING:
    from broker.store.format.vectorized.columns import ScanBatch

DEFAULT_FILE: Final = 1 << 30
# Number of records at the start of a file that must agree on its start.
_MAX_RECORDS: Final = 3
_NOT_ZERO: Final = re.compile(rb"[^\0]")


class _Home(NamedTuple):
    """The start of a file: by its records if ``records`` of them agree, else by its name."""

    start: int
    records: int


class Arrangement(NamedTuple):
    """The log's files with their correct starts; ``moved`` are those with a wrong name.

    ``doubles`` are files whose records another file already contains. ``size`` is the file length.
    """

    files: list[LogFile]
    size: int
    moved: list[LogFile]
    doubles: list[LogFile]

    @property
    def paths(self) -> set[Path]:
        """The paths of all files, duplicates included."""
        return {file.path for file in (*self.files, *self.doubles)}


class ReorderedQueue(StoreDirectory):
    """A store whose CommitLog files have the starts of an :class:`Arrangement`."""

    def __init__(self, store: StoreDirectory, files: list[LogFile]) -> None:
        self.path = store.path
        self.root = store.root
        self.kind = store.kind
        self._reorder = files

    def log_files(self) -> list[LogFile]:
        """Return the arranged files."""
        return self._reorder

    __slots__ = ("_reorder",)


def arrange(store: StoreDirectory) -> Arrangement:
    """Determine the correct start of each CommitLog file, and the file length."""
    files = store.log_files()
    lengths = [file.length for file in files]
    size = max(lengths, key=lambda length: (lengths.count(length), length), default=DEFAULT_FILE)
    # Files are named after their start: distances between starts are multiples of the length.
    steps = math.gcd(*(file.start - files[0].start for file in files)) if files else 0
    if lengths.count(size) < 2 or (size and steps % size):
        # A single file, or no two of one length, or too short a length: files may be truncated.
        configured = read_settings(store).number("mappedFileSizeCommitLog")
        configured = configured or read_queue_ends(store).file_sizes[0]
        size = max(size, configured or steps or (size if _is_usual(size) else DEFAULT_FILE))
    homes = {file: _home(file, size) for file in files}
    placed: dict[int, LogFile] = {}
    strangers: list[tuple[int, LogFile]] = []
    for file, home in homes.items():
        if home.start == file.start or (home.records == 1 and _keeps_name(file, size, homes)):
            placed[file.start] = file
        else:
            strangers.append((home.start, file))
    strangers += [(file.start, file) for file in _unnamed(store, placed, size)]
    moved: list[LogFile] = []
    doubles: list[LogFile] = []
    for start, file in strangers:
        if start in placed and not _is_blank(placed[start]):
            doubles.append(file)
            continue
        placed[start] = file._replace(start=start)
        moved.append(file)
    files = without_overlaps([placed[start] for start in sorted(placed)], size)
    return Arrangement(files, size, moved, doubles)


def _unnamed(store: StoreDirectory, placed: dict[int, LogFile], size: int) -> list[LogFile]:
    """Return the files that have no offset as their names, but records of this log.

    They adjoin a file with a right name, or lie between two.
    """
    first, last = min(placed, default=0) - size, max(placed, default=math.inf) + size
    found = []
    for path in store.unexpected_log_names():
        home = _home(LogFile(path, -1, path.stat().st_size), size)
        if home.records and first <= home.start <= last:
            found.append(LogFile(path, home.start, path.stat().st_size))
    return found


def _is_blank(file: LogFile) -> bool:
    """Whether a file has zeros only, as one that was made in advance."""
    if file.length == 0:
        return True
    with open_bytes(file.path) as opened:
        return _NOT_ZERO.search(opened.data) is None


def _is_usual(length: int) -> bool:
    """Whether a length is likely a configured one: a power of two, at least 4096."""
    return length >= 4096 and length & (length - 1) == 0


def _keeps_name(file: LogFile, size: int, homes: dict[LogFile, _Home]) -> bool:
    """Whether a file keeps the start of its name although its only record has another one.

    The record may be damaged. It counts only if the name cannot be right, or if the file closes a
    gap between the others or is a copy of another one.
    """
    others = {home.start: other for other, home in homes.items() if other != file}
    if file.start in others or file.start % size:
        return False
    start = homes[file].start
    if start in others:
        return not _same_record(file, others[start])
    return not min(others, default=start) < start < max(others, default=start)


def _same_record(one: LogFile, other: LogFile) -> bool:
    """Whether the first records of two files are equal."""
    with open_bytes(one.path) as mine, open_bytes(other.path) as theirs:
        length = check_record(mine.data, 0, check_crc=False)
        return bool(mine.data[:length] == theirs.data[:length])


def _home(file: LogFile, size: int) -> _Home:
    """Return the start that the first records of a file show, else that of its name."""
    by_name = _Home(file.start, 0)
    if file.length == 0:
        return by_name
    try:
        return _reported_home(file, size) or by_name
    except StoreError:
        return by_name  # the scan reports the unreadable file


def _reported_home(file: LogFile, size: int) -> _Home | None:
    with open_bytes(file.path) as opened:
        position = records = 0
        start = -1
        for _ in range(_MAX_RECORDS):
            length = check_record(opened.data, position, check_crc=False)
            if length <= 0:
                break
            recorded = own_offset(opened.data, position) - position
            if start not in (-1, recorded):
                return None
            start = recorded
            records += 1
            position += length
    return _Home(start, records) if start >= 0 and start % size == 0 else None


class Survey:
    """One scan of an arranged log, including the CRC of bodies.

    ``good`` are the extents of complete records and valid blank records, merged and in order;
    ``times`` maps the end of each extent to the storeTimestamp (ms) of its last record. ``end`` is
    the end of the last extent. ``torn`` are records before a damaged region whose own end is
    missing. ``timeless`` are records with an invalid storeTimestamp: physical offset -> time of
    the preceding record, or of the first valid one after it.
    """

    def __init__(self, store: StoreDirectory) -> None:
        self.good: list[tuple[int, int]] = []
        self.times: dict[int, int] = {}
        self.records = 0
        self._bad: set[int] = set()
        self._last_time = 0
        self.timeless: dict[int, int] = {}
        self._walk(store)
        self.torn: list[LogRecord] = []
        self._leave_out_torn(store)
        self.end = self.good[-1][1] if self.good else 0

    def _walk(self, store: StoreDirectory) -> None:
        walk = ColumnWalk(store, self._take) if has_columns() else LogWalk(store)
        for item in walk:
            if item.damage is not None and item.damage.physical_offset is not None:
                self._bad.add(item.damage.physical_offset)
            elif item.blank is not None:
                begin = item.blank.physical_offset
                self._add(begin, begin + item.blank.length)
            elif item.record is not None and item.ok:
                record = item.record
                self.records += 1
                self._note_time(record.physical_offset, record.store_timestamp)
                self._add(record.physical_offset, record.physical_offset + record.total_size)

    def _leave_out_torn(self, store: StoreDirectory) -> None:
        ends = {last: number for number, (_, last) in enumerate(self.good)}
        for file in store.log_files():
            mine = [end for end in ends if file.start < end <= file.start + file.length]
            if not mine:
                continue
            with open_bytes(file.path) as opened:
                for end in mine:
                    record = torn_record(opened.data, file.start, end - file.start)
                    if record is not None:
                        self.torn.append(record)
                        first = self.good[ends[end]][0]
                        self.good[ends[end]] = (first, record.physical_offset)
                        self.times.pop(end, None)
                        self.times[record.physical_offset] = record.store_timestamp
        self.records -= len(self.torn)
        self.good = [extent for extent in self.good if extent[0] < extent[1]]

    def _take(self, file: FileBytes, batch: "ScanBatch", untrusted: frozenset[int]) -> None:
        import numpy as np

        begins = batch.physical_offset
        ends = begins + batch.column("total_size")
        times = batch.column("store_timestamp")
        if batch.damaged_regions:
            kept = ~np.isin(begins, list(self._bad))
            begins, ends, times = begins[kept], ends[kept], times[kept]
        if not len(begins):
            return
        self.records += len(begins)
        if not self._last_time or times.min() < 0 or times.max() > LAST_MS:
            for begin, moment in zip(begins.tolist(), times.tolist(), strict=True):
                self._note_time(begin, moment)
            times = np.where((times < 0) | (times > LAST_MS), self._last_time, times)
        cuts = (np.flatnonzero(begins[1:] != ends[:-1]) + 1).tolist()
        for first, last in zip([0, *cuts], [*cuts, len(begins)], strict=True):
            self._last_time = int(times[last - 1])
            self._add(int(begins[first]), int(ends[last - 1]))

    def _note_time(self, physical_offset: int, moment: int) -> None:
        if not 0 <= moment <= LAST_MS:
            self.timeless[physical_offset] = self._last_time
            return
        if not self._last_time:
            self.timeless.update({at: moment for at, time in self.timeless.items() if not time})
        self._last_time = moment

    def _add(self, begin: int, end: int) -> None:
        if self.good and self.good[-1][1] == begin:
            self.times.pop(begin, None)
            self.good[-1] = (self.good[-1][0], end)
        else:
            self.good.append((begin, end))
        self.times[end] = self._last_time

    def time_before(self, physical_offset: int) -> int:
        """Return the storeTimestamp of the last good extent that ends before an offset.

        If there is none, return the least one of all extents.
        """
        before = [end for end in self.times if end <= physical_offset]
        if before:
            return self.times[max(before)]
        return min(self.times.values(), default=0)

    def bad_parts(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of ``[begin, end)`` that are not in good extents."""
        parts = []
        at = begin
        for first, last in self.good:
            if last <= at or first >= end:
                continue
            if first > at:
                parts.append((at, first))
            at = max(at, last)
        if at < end:
            parts.append((at, end))
        return parts
