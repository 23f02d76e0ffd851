"""Scan the CommitLog over all its files, across corruption, up to the end of the log."""

from bisect import bisect_right
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import structs

from broker.errors import StoreError
from broker.store.format.commitlog import (
    BLANK_SIZE,
    MAGIC_AT,
    MAGIC_PREFIX,
    Blank,
    Damage,
    LogRecord,
    Unwritten,
    check_record,
    file_name,
    is_plausible,
    own_offset,
    read_record,
    scan_commitlog,
    store_timestamp,
)
from broker.store.format.lost_sectors import LOST_PROPERTIES, find_lost_part
from broker.store.format.state import COMMITLOG_DIR
from broker.store.format.vectorized.record_count import Tally, walk_compiled, walk_plain
from mqadmin.inspector.damage import WARNING, damage_row, found
from mqadmin.inspector.directory import LogFile, StoreDirectory
from mqadmin.inspector.files import RELEASE_BYTES, FileBytes, open_bytes
from mqadmin.inspector.rows import DamageRow

_NOWHERE: Final = (LogFile(Path(), 0, 0), None)
# Bound of the backward search for the start of a record.
_LONGEST: Final = 16 << 20


def torn_record(data: bytes, base_offset: int, position: int) -> LogRecord | None:
    """Return the record that ends at ``position`` if a part of its properties is zeros, else None.

    If no valid record follows, a sector of such a record never reached the disk or was lost with a
    page. Its body may be intact; the properties are not covered by bodyCRC. Recovery drops it too.
    """
    if not 0 < position <= len(data):
        return None
    least = max(position - _LONGEST, 0)
    at = position
    while (at := data.rfind(MAGIC_PREFIX, least, at)) >= least + MAGIC_AT:
        begin = at - MAGIC_AT
        size = position - begin
        whole = check_record(data, begin, check_crc=False) == size
        if whole and own_offset(data, begin) == base_offset + begin:
            record = read_record(data, begin, base_offset)
            lost = find_lost_part(data, begin, size) == LOST_PROPERTIES
            return record if lost or record.properties.endswith(b"\0") else None
    return None


class LogItem(NamedTuple):
    """An item of the log: a record (``ok`` False if damaged), a blank record, or corruption.

    An item with a file only carries no data.
    """

    file: FileBytes
    record: LogRecord | None = None
    ok: bool = True
    damage: DamageRow | None = None
    blank: Blank | None = None


class LogWalk:
    """One scan of the log.

    ``start`` skips records and corruption below that physical offset; ``stop`` is the offset of a
    record where the scan ends. With ``counting`` plain records are counted in ``tallies`` and not
    yielded (without ``check_crc``); only corruption, blank records and other records are yielded.
    ``compiled`` counts them in compiled code, which needs numba.
    After the scan, ``end`` is the end of the last complete record or blank record; ``reached``
    includes corruption after it. ``first_timestamp`` and ``last_timestamp`` (ms) are set only when
    counting.
    """

    def __init__(
        self,
        store: StoreDirectory,
        *,
        start: int = 0,
        stop: int | None = None,
        check_crc: bool = True,
        counting: bool = False,
        compiled: bool = False,
    ) -> None:
        self._store = store
        self._files = store.log_files()
        lengths = [file.length for file in self._files]
        self._usual_length = max(lengths, key=lengths.count, default=0)
        self._start = start
        self._stop = stop
        self._check_crc = check_crc
        self.tallies: list[Tally] = []
        self._counting = counting
        self._walk_records = walk_compiled if compiled else walk_plain
        self.min_offset = self._files[0].start if self._files else 0
        self.end = self.min_offset
        self.reached = self.min_offset
        self._torn_end = -1  # end of the damaged region at the end of a file
        self.first_timestamp: int | None = None
        self.last_timestamp: int | None = None

    def __iter__(self) -> Iterator[LogItem]:
        """Scan; corruption of a file itself (name, gap, length) precedes its records."""
        for path in self._store.unexpected_log_names() if self._start == 0 else ():
            row = found("name", str(path), "not named after a physical offset", severity=WARNING)
            yield LogItem(FileBytes(path, b"", 0), damage=row)
        for number, file in enumerate(self._files):
            if file.start + file.length <= self._start and number + 1 < len(self._files):
                continue
            if self._is_stopped(file.start):
                return
            if file.start >= self._start:
                yield from self._around(number)
            if file.length == 0:
                continue
            continues = followed = False
            scanning = True
            while scanning:
                try:
                    with open_bytes(file.path, sequential=True, overlap=file.overlap) as opened:
                        continues = yield from self._opened(file, opened, number)
                except StoreError as error:
                    yield LogItem(FileBytes(file.path, b"", 0), damage=_unreadable(file, error))
                    continues = True
                # A broker may have filled this file and created the next one during the scan.
                followed = not continues and self.is_followed(number)
                scanning = followed and self.is_moving(file)
            if self._is_stopped(self.reached):
                return
            if continues:
                continue
            if not followed:
                yield from self._behind(number)
                return
            end = max(self.end, file.start)
            row = found(
                "unfinished",
                str(file.path),
                "the file holds no more records, but the next one does",
                physical_offset=end,
                length=file.start + file.length - end,
            )
            yield LogItem(FileBytes(file.path, b"", 0), damage=row)

    def _is_stopped(self, physical_offset: int) -> bool:
        return self._stop is not None and physical_offset >= self._stop

    def _around(self, number: int) -> Iterator[LogItem]:
        """Report a gap before this file, and a length that differs from the usual one."""
        file = self._files[number]
        whole = self._usual_length
        if number:
            before = self._files[number - 1]
            gap = file.start - before.start - max(before.length, whole)
            if gap > 0:
                row = found(
                    "gap",
                    str(file.path),
                    f"no file holds the {gap} bytes before this one",
                    physical_offset=file.start - gap,
                    length=gap,
                )
                yield LogItem(FileBytes(file.path, b"", 0), damage=row)
        length = file.length + file.overlap
        if length != whole or not length:
            shown = f"has {length} bytes" if length else "is empty"
            row = found(
                "fileSize",
                str(file.path),
                f"the file {shown}, the others have {whole}" if whole else "the file is empty",
                physical_offset=file.start + min(length, whole),
                length=abs(whole - length),
                severity=WARNING,
            )
            yield LogItem(FileBytes(file.path, b"", 0), damage=row)

    def is_followed(self, number: int) -> bool:
        """Whether a later file starts with a record."""
        return any(map(_has_record, self._files[number + 1 :]))

    def _behind(self, number: int) -> Iterator[LogItem]:
        """Report files past the end of the log whose first record has another physical offset."""
        for file in self._files[number + 1 :]:
            recorded = _foreign_record(file)
            if recorded is None or recorded != _foreign_record(file):
                continue  # no such record, or a broker is writing to the file
            row = found(
                "position",
                str(file.path),
                "the file is past the end of the log and not empty: its first record has"
                f" physical offset {recorded}",
                physical_offset=file.start,
                length=file.length,
                severity=WARNING,
            )
            yield LogItem(FileBytes(file.path, b"", 0), damage=row)

    def _opened(
        self, file: LogFile, opened: FileBytes, number: int
    ) -> Generator[LogItem, None, bool]:
        """Yield the items of one file; returns whether the log continues after it."""
        tally = Tally()
        if self._counting:
            self.tallies.append(tally)
        limit = opened.data_end
        if self._stop is not None:
            limit = min(limit, self._stop - file.start)
        position = self._begin(file, opened)
        while position < limit:
            if self._counting and not self._check_crc:
                position = self._count_plain(file, opened, position, (limit, tally))
            for item in scan_commitlog(
                opened.data,
                file.start,
                position,
                opened.data_end,
                check_crc=self._check_crc,
                decode=False,
            ):
                if position >= limit or isinstance(item, Unwritten):
                    return False
                if isinstance(item, Blank):
                    self.end = self.reached = file.start + file.length
                    yield LogItem(opened, blank=item)
                    return True
                if isinstance(item, Damage) and item.at_end:
                    if self._is_rest(opened, item.physical_offset - file.start):
                        # The torn record before these zeros has been reported.
                        return self.is_followed(number)
                    if item.kind != "blank" and self.is_moving(file):
                        return False
                    self._torn_end = _end_of(item)
                    if self.is_followed(number):
                        item = structs.replace(item, at_end=False)
                yield from self._found(opened, item)
                self.reached = _end_of(item)
                position = self.reached - file.start
                if self._counting and not self._check_crc:
                    break
            else:
                break
        return position >= len(opened)

    def _is_rest(self, opened: FileBytes, position: int) -> bool:
        """Whether a reported torn end is followed only by zeros, fewer than BLANK_SIZE bytes."""
        rest = opened.data[position : opened.data_end]
        return self._torn_end == self.reached and len(rest) < BLANK_SIZE and not any(rest)

    def _found(self, opened: FileBytes, item: LogRecord | Damage) -> Iterator[LogItem]:
        record = item if isinstance(item, LogRecord) else item.record
        if isinstance(item, Damage):
            yield LogItem(opened, damage=damage_row(item, str(opened.path)))
        if record is not None:
            self.end = record.physical_offset + record.total_size
            if self._counting:
                self._note_time(record.store_timestamp)
            yield LogItem(opened, record=record, ok=record is item)

    def _begin(self, file: LogFile, opened: FileBytes) -> int:
        """Return the position in the file at which the scan begins; it is ``reached`` then."""
        self.reached = max(file.start + self._skip(file, opened), self.reached)
        return self.reached - file.start

    def _skip(self, file: LogFile, opened: FileBytes) -> int:
        """Return the position in the file of the first record at or after ``start``."""
        target = min(self._start - file.start, opened.data_end)
        if target <= 0:
            return 0
        if is_plausible(opened.data, target, file.start):
            return target
        position, _ = walk_plain(opened.data, 0, file.start, Tally(), target)
        if position >= target:
            return position
        for item in scan_commitlog(
            opened.data, file.start, position, opened.data_end, check_crc=False, decode=False
        ):
            if item.physical_offset - file.start >= target:
                return item.physical_offset - file.start
            if not isinstance(item, (LogRecord, Damage)):
                return item.physical_offset - file.start
            position = _end_of(item) - file.start
        return position

    def _count_plain(
        self, file: LogFile, opened: FileBytes, position: int, into: tuple[int, Tally]
    ) -> int:
        """Count plain records from ``position`` to a limit; returns the position after them."""
        data = opened.data
        limit, tally = into
        while True:
            block = min(limit, position + RELEASE_BYTES)
            after, last = self._walk_records(data, position, file.start, tally, block)
            if last < 0:
                return after
            self.end = self.reached = file.start + after
            self._note_time(store_timestamp(data, position))
            self._note_time(store_timestamp(data, last))
            opened.release(after)
            if block == limit:
                return after
            position = after

    def _note_time(self, timestamp: int) -> None:
        if self.first_timestamp is None:
            self.first_timestamp = timestamp
        self.last_timestamp = timestamp

    def is_moving(self, file: LogFile) -> bool:
        """Whether a broker has written a record where the scan ended."""
        position = max(self.reached, file.start) - file.start
        if self._is_stopped(file.start + position):
            return False
        with open_bytes(file.path) as now:
            if position >= len(now):
                return False
            return check_record(now.data, position, check_crc=self._check_crc) >= 0


def _end_of(item: LogRecord | Damage) -> int:
    if isinstance(item, LogRecord):
        return item.physical_offset + item.total_size
    return item.physical_offset + item.length


def _has_record(file: LogFile) -> bool:
    if file.length == 0:
        return False
    try:
        with open_bytes(file.path) as opened:
            return is_plausible(opened.data, 0, file.start)
    except StoreError:
        return False


def _foreign_record(file: LogFile) -> int | None:
    """Return the physical offset in a file's first record, None without one or if it is right."""
    if file.length == 0:
        return None
    try:
        with open_bytes(file.path) as opened:
            if check_record(opened.data, 0, check_crc=False) <= 0:
                return None
            recorded = own_offset(opened.data, 0)
    except StoreError:
        return None
    return None if recorded == file.start else recorded


class LogReader:
    """Reads single records by physical offset; files stay open until :meth:`close`."""

    # Bound of open files; the one opened first is closed first.
    FILES = 64

    def __init__(self, store: StoreDirectory) -> None:
        self._store = store
        self._folder = store.folder(COMMITLOG_DIR) or store.path
        self._open: dict[int, tuple[FileBytes, ExitStack]] = {}  # by start
        self._list()
        self.min_offset = self._starts[0] if self._starts else None

    def __enter__(self) -> "LogReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record(self, physical_offset: int) -> tuple[FileBytes, LogRecord] | None:
        """Return the record with that physical offset, in its header too; None if there is none."""
        (_, start, *_), file = self.place(physical_offset) or _NOWHERE
        if file is None or not is_plausible(file.data, physical_offset - start, start):
            return None
        return file, read_record(file.data, physical_offset - start, start)

    def place(self, physical_offset: int) -> tuple[LogFile, FileBytes | None] | None:
        """Return the file that contains an offset, and its bytes (None if unreadable)."""
        file = self._file(physical_offset)
        if file is None and physical_offset >= self._end and self._is_continued():
            self._list()
            file = self._file(physical_offset)
        return None if file is None else (file, self._opened(file))

    def _list(self) -> None:
        self._files = self._store.log_files()
        self._starts = [file.start for file in self._files]
        self._end = max((file.start + file.length for file in self._files), default=0)

    def _is_continued(self) -> bool:
        """Whether a broker has created the file after the last one."""
        try:
            return (self._folder / file_name(self._end)).stat().st_size > 0
        except OSError:
            return False

    def _file(self, physical_offset: int) -> LogFile | None:
        number = bisect_right(self._starts, physical_offset) - 1
        if number < 0 or physical_offset >= self._starts[number] + self._files[number].length:
            return None
        return self._files[number]

    def _opened(self, file: LogFile) -> FileBytes | None:
        known = self._open.get(file.start)
        if known is not None:
            return known[0]
        if len(self._open) >= self.FILES:
            _, stack = self._open.pop(next(iter(self._open)))
            stack.close()
        stack = ExitStack()
        try:
            opened = stack.enter_context(open_bytes(file.path, follow=True, overlap=file.overlap))
        except StoreError:
            return None
        self._open[file.start] = opened, stack
        return opened

    def close(self) -> None:
        """Close the files."""
        for _, stack in self._open.values():
            stack.close()
        self._open.clear()


def _unreadable(file: LogFile, error: StoreError) -> DamageRow:
    return found(
        "unreadable",
        str(file.path),
        error.message,
        physical_offset=file.start,
        length=file.length,
    )
