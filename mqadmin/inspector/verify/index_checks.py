"""Check IndexFiles: each file for consistency, and each entry against a key of its record.

:class:`IndexFileCheck` compares the header with the first and last entry, and slots and chains
with the entries. :class:`IndexChecks` receives the keys of the log in parts, in the order of the
log. The entries of a file have the same order, so both are compared as arrays, and entry by entry
only where they differ.

Not every deviation is corruption. After a crash a Java broker drops the newest file and rebuilds
it from a part of the log only: the keys in between are missing permanently and reported once per
gap. A duplicate entry for the last message before a restart is harmless.
"""

from array import array
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from broker.errors import StoreError
from broker.store.format.indexfile import (
    ENTRY_SIZE,
    HEADER_SIZE,
    HEADER_STRUCT,
    IndexHeader,
    entry_position,
    time_diff_seconds,
)
from mqadmin.inspector.damage import NOTICE, WARNING
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.files import file_length, open_bytes
from mqadmin.inspector.index import is_blank
from mqadmin.inspector.verify.index_chains import Entries, chain_problems, shape_of
from mqadmin.inspector.verify.report import Findings

if TYPE_CHECKING:
    from mqadmin.inspector.verify.record_checks import Key

# Findings reported per file: a broken chain breaks every chain that depends on it.
MAX_PER_FILE: Final = 20
_NO_COUNT: Final = 1 << 31
# Entries kept in memory between the consistency check and the comparison, of all files together,
# 20 bytes each with numpy; files beyond the limit are read twice, one at a time.
MAX_KEPT: Final = 1 << 21


class IndexFileCheck:
    """One IndexFile: its consistency, and the data for its comparison with the log.

    ``first`` and ``last`` are the least and greatest physical offset of its entries, -1 without
    entries; ``slots`` is 0 if the slot count is unknown.
    """

    def __init__(self, path: Path, findings: Findings, slots: int) -> None:
        self.path = path
        self.findings = findings
        self.slots = slots
        self.count = 0
        self.entries: Entries | None = None
        self.first = self.last = -1
        self.begin_timestamp = 0
        self.reported = 0
        self.ordered = False
        self.reported_times = False
        # Positions of the first and the last entry, once their records were scanned.
        self.ends_met: set[int] = set()
        self.header = IndexHeader()
        self.previous_end: int | None = None
        self.follows_unknown = False

    def read(self, data: bytes) -> bool:
        """Read and validate the header; False if entries cannot be read."""
        if len(data) < HEADER_SIZE:
            self._tell("index", f"the file has {len(data)} bytes, too few for a header")
            return False
        self.header = IndexHeader._make(HEADER_STRUCT.unpack_from(data))
        self.count = max(self.header.index_count - 1, 0)
        self.begin_timestamp = self.header.begin_timestamp
        if self.slots == 0:
            if self.count or any(data[HEADER_SIZE : HEADER_SIZE + (1 << 16)]):
                self._tell("index", "header, slots and entries do not fit together")
            return False
        room = (len(data) - entry_position(0, self.slots)) // ENTRY_SIZE - 1
        if not 0 <= self.count <= room or self.header.index_count < 1:
            self._tell(
                "index", f"the header counts {self.header.index_count - 1} entries, {room} fit"
            )
            self.count = 0
            return False
        return True

    def check_chains(self, data: bytes, *, moving: bool, running: bool) -> None:
        """Check header, slots and chains.

        ``moving``: a broker is running, or crashed and may have left an entry that the header
        does not count. ``running``: a broker is writing to this file.
        """
        entries = Entries(data, self.slots, self.count)
        if not running:
            self._unlisted(data, moving=moving)
        if not len(entries):
            return
        self.first, self.last = entries.bounds()
        self.reported_times = running
        if not running:
            self._header(entries)
        self.entries = entries
        count = _NO_COUNT if running else self.count + moving
        for problem in chain_problems(data, entries, self.slots, count):
            self._tell("indexChain", problem.detail, problem.position, problem.length)

    def _unlisted(self, data: bytes, *, moving: bool) -> None:
        """Report entries after the last counted one; ``moving`` allows one uncounted entry."""
        at = entry_position(self.count + 1 + moving, self.slots)
        if any(data[at : at + ENTRY_SIZE]):
            self._tell(
                "index",
                f"the header counts {self.count} entries, but there are more",
                at,
                ENTRY_SIZE,
            )

    def _header(self, entries: Entries) -> None:
        header = self.header
        problems = []
        if header.begin_physical_offset != int(entries.physical[0]):
            problems.append(
                f"begins at physical offset {header.begin_physical_offset}, its first entry at"
                f" {int(entries.physical[0])}"
            )
        if header.end_physical_offset != int(entries.physical[-1]):
            problems.append(
                f"ends at physical offset {header.end_physical_offset}, its last entry at"
                f" {int(entries.physical[-1])}"
            )
        if header.begin_timestamp <= 0 or header.end_timestamp <= 0:
            problems.append(self.times())
        if not 0 < header.hash_slot_count <= self.count:
            problems.append(f"{header.hash_slot_count} slots used by {self.count} entries")
        for problem in problems:
            self._tell("index", f"header: {problem}", 0, HEADER_SIZE)

    def times(self) -> str:
        """Describe the header's time range."""
        return f"spans the times {self.header.begin_timestamp} to {self.header.end_timestamp}"

    def check_times(self) -> None:
        """Report beginTimestamp > endTimestamp, unless both records confirm it (a clock step)."""
        if self.header.begin_timestamp <= self.header.end_timestamp or self.reported_times:
            return
        if not {0, self.count - 1} <= self.ends_met and self.header.end_timestamp > 0:
            self.report_header(self.times())

    def load(self, data: bytes) -> Entries:
        """Return the entries, ordered by physical offset."""
        self.entries = self.entries or Entries(data, self.slots, self.count)
        if not self.ordered:
            self.ordered = True
            if not self.entries.rise():
                self._order(self.entries)
                self.entries.sort()
        return self.entries

    def _order(self, entries: Entries) -> None:
        places = entries.physical
        for at in range(1, len(entries)):
            if places[at] < places[at - 1]:
                self.report_entry(
                    at,
                    f"points back, to physical offset {int(places[at])}",
                    entries,
                    is_place=False,
                )
                return

    def drop(self) -> None:
        """Release the columns."""
        self.entries = None
        self.ordered = False

    def report_entry(
        self, place: int, detail: str, entries: Entries, *, is_place: bool = True
    ) -> None:
        """Report one entry; ``place`` is a position in the ordered columns if ``is_place``."""
        number = entries.number_of(place) if is_place else place + 1
        self._tell(
            "indexEntry",
            f"entry {number} {detail}",
            entry_position(number, self.slots),
            ENTRY_SIZE,
        )

    def report_header(self, detail: str) -> None:
        """Report the header."""
        self._tell("index", f"header: {detail}", 0, HEADER_SIZE)

    def time_of(self, place: int, store_timestamp: int, entries: Entries) -> tuple[int, set[int]]:
        """Return the seconds stored in an entry, and the values that are valid for its record.

        The first entry of a file that follows a full one is relative to the endTimestamp of the
        full one, which is unknown if that file has expired.

        **Source:** RocketMQ ``IndexFile#putKey``.
        """
        allowed = {time_diff_seconds(store_timestamp, self.begin_timestamp)}
        if entries.number_of(place) == 1:
            allowed.add(0)
            if self.previous_end is None and self.follows_unknown:
                allowed.add(max(int(entries.diff[place]), 0))
            if self.previous_end is not None:
                allowed.add(time_diff_seconds(store_timestamp, self.previous_end))
        return int(entries.diff[place]), allowed

    def _tell(
        self, kind: str, detail: str, position: int | None = None, length: int | None = None
    ) -> None:
        self.reported += 1
        if self.reported <= MAX_PER_FILE:
            self.findings.add(kind, self.path, detail, file_position=position, length=length)
        elif self.reported == MAX_PER_FILE + 1:
            self.findings.add(kind, self.path, "there is more that is wrong in this file")


class Uncovered(NamedTuple):
    """Keys of consecutive records without an entry."""

    first: int
    last: int
    keys: int
    position: int  # of the last key, counted over all keys of the log


class IndexChecks:
    """Compares all IndexFiles with the keys of the log, passed in parts in log order."""

    def __init__(
        self,
        store: StoreDirectory,
        findings: Findings,
        *,
        moving: bool,
        running: bool,
        topic: str | None,
    ) -> None:
        self.findings = findings
        self.moving = moving
        self.running = running
        self.whole = topic is None
        self.files: list[IndexFileCheck] = []
        self.present = 0
        self.entries = 0
        self.entries_checked = 0
        self.keys = 0
        self.keys_indexed = 0
        self.uncovered: list[Uncovered] = []
        self.damaged: list[tuple[int, int]] = []  # damaged regions of the log
        self.unreadable = False
        logs = store.log_files()
        # Whether there may have been a file before the first one.
        self._expired = store.path.is_file() or (bool(logs) and logs[0].start > 0)
        self._read(store.index_files())

    def _read(self, paths: list[Path]) -> None:
        shapes: dict[int, int] = {}
        lengths = Counter(file_length(path) for path in paths if path.name.isdecimal())
        del lengths[None], lengths[0]  # a file that a broker is creating has no bytes
        usual = max(lengths, key=lambda length: (lengths[length], -(length or 0)), default=0) or 0
        previous: IndexFileCheck | None = None
        kept = 0
        newest = max((path.name for path in paths if path.name.isdecimal()), default="")
        for path in paths:
            if not path.name.isdecimal():
                self.findings.add("name", path, "not named after a time", severity=WARNING)
                continue
            self.present += 1
            live = self.running and path.name == newest
            try:
                with open_bytes(path) as file:
                    if live and not any(file.data[: HEADER_SIZE + 1]):
                        continue  # the broker is creating it
                    if is_blank(file):
                        continue  # a power cut before the first entry; Java reads no entries
                    slots = shape_of(file.data, shapes.get(len(file), 0))
                    check = IndexFileCheck(path, self.findings, slots)
                    if not check.read(file.data):
                        continue
                    if len(file) > usual:  # a broker does not start with it
                        detail = f"the file has {len(file)} bytes, the others have {usual}"
                        self.findings.add("index", path, detail)
                    shapes[len(file)] = slots
                    check.check_chains(file.data, moving=self.moving, running=live)
                    kept += check.count
                    if kept > MAX_KEPT:
                        kept -= check.count
                        check.drop()
            except StoreError as error:
                self.findings.add("unreadable", path, error.message)
                self.unreadable = True
                continue
            if check.first < 0:
                continue
            self.entries += check.count
            check.follows_unknown = self._expired
            if previous is not None:
                check.previous_end = previous.header.end_timestamp
                if check.first < previous.last:
                    self.findings.add(
                        "indexOverlap",
                        path,
                        f"covers the log from {check.first} on, {previous.path.name} up to"
                        f" {previous.last}",
                        severity=WARNING,
                    )
            previous = check
            self.files.append(check)

    def compare(self, columns: Any, begin: int, end: int) -> None:
        """Compare the keys of the records in ``[begin, end)`` of the log with all files.

        ``columns`` are arrays (physical offset, hash, storeTimestamp in ms) in index order.
        """
        physical = columns[0]
        count = len(physical)
        covered = bytearray(count)
        for file in self.files:
            if file.last < begin or file.first >= end:
                if file.last < begin:
                    file.drop()
                continue
            entries = self._entries(file)
            if entries is None:
                continue
            low, high = entries.span(begin, end)
            self.entries_checked += high - low
            if not _same(file, entries, (low, high), columns, covered):
                self._one_by_one(file, entries, (low, high), columns, covered)
        self.keys_indexed += sum(covered) if 0 in covered else count
        if 0 in covered:
            self._not_covered(physical, covered)
        self.keys += count

    def _entries(self, file: IndexFileCheck) -> Entries | None:
        if file.entries is not None and file.ordered:
            return file.entries
        try:
            with open_bytes(file.path) as opened:
                return file.load(opened.data)
        except StoreError as error:
            self.findings.add("unreadable", file.path, error.message)
            return None

    def _is_damaged(self, physical_offset: int) -> bool:
        """Whether the log is damaged there, so that the key is unknown."""
        return any(start <= physical_offset < end for start, end in self.damaged)

    def _one_by_one(
        self,
        file: IndexFileCheck,
        entries: Entries,
        span: tuple[int, int],
        columns: Any,
        covered: bytearray,
    ) -> None:
        physical, hashes, times = ([int(value) for value in column] for column in columns)
        wanted: dict[tuple[int, int], list[int]] = {}
        for at, pair in enumerate(zip(physical, hashes, strict=True)):
            wanted.setdefault(pair, []).append(at)
        met: Counter[tuple[int, int]] = Counter()
        self._ends(file, entries, span, dict(zip(physical, times, strict=True)))
        for place in range(*span):
            pair = (int(entries.physical[place]), int(entries.hashes[place]))
            places = wanted.get(pair)
            if places is None:
                if self.whole and not self._is_damaged(pair[0]):
                    file.report_entry(
                        place, f"is for no key of a record at physical offset {pair[0]}", entries
                    )
                continue
            at = places[min(met[pair], len(places) - 1)]
            met[pair] += 1
            covered[at] = 1
            has, allowed = file.time_of(place, times[at], entries)
            if has not in allowed:
                file.report_entry(
                    place,
                    f"is {has} s after the file's begin, expected {min(allowed)}",
                    entries,
                )

    def _ends(
        self, file: IndexFileCheck, entries: Entries, span: tuple[int, int], times: dict[int, int]
    ) -> None:
        """Compare the header's timestamps with those of the first and the last record."""
        if file.reported_times or not len(entries):
            return
        ends = (
            (0, "beginTimestamp", file.header.begin_timestamp),
            (len(entries) - 1, "endTimestamp", file.header.end_timestamp),
        )
        for place, name, recorded in ends:
            time = times.get(int(entries.physical[place]))
            if not span[0] <= place < span[1] or time is None:
                continue
            file.ends_met.add(place)
            if time != recorded:
                file.reported_times = True
                file.report_header(f"{name} is {recorded}, the record's storeTimestamp is {time}")

    def _not_covered(self, physical: Any, covered: bytearray) -> None:
        at = covered.find(0)
        while at >= 0:
            end = covered.find(1, at)
            end = len(covered) if end < 0 else end
            place = self.keys + end - 1
            run = Uncovered(int(physical[at]), int(physical[end - 1]), end - at, place)
            last = self.uncovered[-1] if self.uncovered else None
            if last is not None and last.position + run.keys == place:
                run = Uncovered(last.first, run.last, last.keys + run.keys, place)
                self.uncovered[-1] = run
            else:
                self.uncovered.append(run)
            at = covered.find(0, end)

    def finish(self, start: int, end: int, *, folder: Path, enabled: bool | None) -> None:
        """Report keys without an entry, and entries that point past the end of the log."""
        for file in self.files:
            file.check_times()
            self._behind(file, end)
        last = max((file.last for file in self.files), default=-1)
        for run in self.uncovered:
            if enabled is False or (run.first >= last and self.moving):
                continue  # indexing is disabled, or the keys are not indexed yet
            inside = [
                file for file in self.files if file.first <= run.first and run.last <= file.last
            ]
            if not inside and self.unreadable:
                continue  # the entries may be in the unreadable file
            where = inside[0].path if inside else folder
            detail = f"{run.keys} keys of records from physical offset {run.first} to {run.last}"
            detail += " have no entry" if inside else " are in no IndexFile"
            self.findings.add(
                "indexMissing",
                where,
                detail,
                physical_offset=run.first,
                severity="error" if inside else WARNING,
            )

    def _behind(self, file: IndexFileCheck, end: int) -> None:
        if file.last < end:
            return
        entries = self._entries(file)
        if entries is None:
            return
        low, _ = entries.span(end, 1 << 62)
        count = len(entries) - low
        file.drop()
        if count > 0 and not self.moving:
            self.findings.add(
                "stale",
                file.path,
                f"{count} entries point past the end of the log at {end}",
                file_position=entry_position(entries.number_of(low), file.slots),
                severity=NOTICE,
            )


def _same(
    file: IndexFileCheck,
    entries: Entries,
    span: tuple[int, int],
    columns: Any,
    covered: bytearray,
) -> bool:
    """Whether entries and keys are equal; if so, mark the keys in ``covered`` (fast path)."""
    low, high = span
    physical, hashes, times = columns
    if isinstance(entries.hashes, array) or isinstance(physical, (list, array)):
        return low == high and not len(physical)
    import numpy as np

    begin = int(np.searchsorted(physical, file.first))
    end = int(np.searchsorted(physical, file.last, side="right"))
    if end - begin != high - low:
        return False
    if low == 0 and end > begin and times[begin] != file.header.begin_timestamp:
        return False
    if (
        not file.reported_times
        and high == len(entries)
        and end > begin
        and times[end - 1] != file.header.end_timestamp
    ):
        return False
    if not (
        np.array_equal(physical[begin:end], entries.physical[low:high])
        and np.array_equal(hashes[begin:end], entries.hashes[low:high])
    ):
        return False
    diff = np.clip((times[begin:end] - file.begin_timestamp) // 1000, 0, (1 << 31) - 1)
    wrong = np.flatnonzero(diff != entries.diff[low:high])
    for at in wrong[:1000].tolist():
        has, allowed = file.time_of(low + at, int(times[begin + at]), entries)
        if has not in allowed:
            return False
    covered[begin:end] = b"\1" * (end - begin)
    if end > begin:
        file.ends_met |= {0, len(entries) - 1} & {low, high - 1}
    return True


def plain_columns(keys: "list[Key]") -> tuple[list[int], list[int], list[int]]:
    """Return keys of the slow path as columns."""
    return (
        [key[0] for key in keys],
        [key[1] for key in keys],
        [key[2] for key in keys],
    )
