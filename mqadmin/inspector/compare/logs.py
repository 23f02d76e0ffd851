"""Compare the logs of two stores, such as those of a master and its slave: same bytes up to where.

Both stores are read-only and may be live: a log that grows during the comparison is compared up to
the end found at its start.
"""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from broker.errors import StorePathError
from mqadmin.inspector.directory import LogFile, StoreDirectory
from mqadmin.inspector.files import open_bytes
from mqadmin.inspector.log import LogWalk

PART_BYTES: Final = 1 << 20


class RecordPlace(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The record at an offset of one log: its physical offset, size in bytes, and queue."""

    physical_offset: int
    store_size: int
    topic: str
    queue_id: int
    queue_offset: int
    store_timestamp: int


class StoreDiff(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where two logs A and B differ; offsets are physical offsets.

    ``verdict``: "equal"; "shorter", one log is the beginning of the other (it lacks
    ``missing_bytes``); "different", the bytes differ from ``first_difference`` on; "disjoint", no
    offset is in both. Compared are the bytes from ``compared_from`` to ``same_until``;
    ``record_a`` and ``record_b`` are the records at ``first_difference``, None without a valid one.
    """

    verdict: Literal["equal", "shorter", "different", "disjoint"]
    path_a: str
    path_b: str
    min_offset_a: int
    min_offset_b: int
    max_offset_a: int
    max_offset_b: int
    compared_from: int
    same_until: int
    missing_bytes: int
    first_difference: int | None = None
    record_a: RecordPlace | None = None
    record_b: RecordPlace | None = None


class _Log:
    """The log of one store: bounds and bytes."""

    def __init__(self, store: StoreDirectory) -> None:
        self.store = store
        self.files = store.log_files()
        if not self.files:
            raise StorePathError(f"no CommitLog in {store.path}", "is the path right?")
        walk = LogWalk(store, check_crc=False, counting=True)
        for _ in walk:
            pass
        self.start, self.end = walk.min_offset, walk.end

    def parts(self, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """Yield (physical offset, bytes) of a range; a gap between files ends it."""
        offset = start
        for file in self.files:
            if not file.start <= offset < file.start + file.length:
                continue
            with open_bytes(file.path, sequential=True) as opened:
                limit = min(stop - file.start, len(opened))
                while offset - file.start < limit:
                    position = offset - file.start
                    part = bytes(opened.data[position : min(position + PART_BYTES, limit)])
                    yield offset, part
                    offset += len(part)

    def record(self, physical_offset: int) -> RecordPlace | None:
        """Return the record that contains an offset; None without a valid one."""
        file = self._file(physical_offset)
        if file is None or physical_offset >= self.end:
            return None
        for item in LogWalk(self.store, start=file.start, stop=physical_offset + 1):
            record = item.record
            if record is None or not item.ok:
                continue
            if 0 <= physical_offset - record.physical_offset < record.total_size:
                return RecordPlace(
                    physical_offset=record.physical_offset,
                    store_size=record.total_size,
                    topic=record.topic.decode(errors="replace"),
                    queue_id=record.queue_id,
                    queue_offset=record.queue_offset,
                    store_timestamp=record.store_timestamp,
                )
        return None

    def _file(self, physical_offset: int) -> LogFile | None:
        for file in self.files:
            if file.start <= physical_offset < file.start + file.length:
                return file
        return None


def diff(store_a: StoreDirectory, store_b: StoreDirectory) -> StoreDiff:
    """Compare the logs of two stores byte by byte over the offsets that both have.

    StoreError if a file cannot be read or a store has no CommitLog.
    """
    a, b = _Log(store_a), _Log(store_b)
    start, stop = max(a.start, b.start), min(a.end, b.end)
    same_until = _same_until(a, b, start, stop) if start < stop else start
    differs = start < stop and same_until < stop
    verdict: Literal["equal", "shorter", "different", "disjoint"] = "equal"
    if differs:
        verdict = "different"
    elif start > stop or (start == stop and a.start != b.start):
        verdict = "disjoint"
    elif a.end != b.end:
        verdict = "shorter"
    return StoreDiff(
        verdict=verdict,
        path_a=str(store_a.path),
        path_b=str(store_b.path),
        min_offset_a=a.start,
        min_offset_b=b.start,
        max_offset_a=a.end,
        max_offset_b=b.end,
        compared_from=start,
        same_until=same_until,
        missing_bytes=abs(a.end - b.end) if verdict in ("equal", "shorter") else 0,
        first_difference=same_until if differs else None,
        record_a=a.record(same_until) if differs else None,
        record_b=b.record(same_until) if differs else None,
    )


def _same_until(a: _Log, b: _Log, start: int, stop: int) -> int:
    """Return the offset of the first different byte, ``stop`` without one.

    The files of the two logs may have different lengths.
    """
    parts_b = b.parts(start, stop)
    offset_b, part_b = start, b""
    for offset, part in a.parts(start, stop):
        position = 0
        while position < len(part):
            at = offset + position - offset_b
            if at >= len(part_b):
                offset_b, part_b = next(parts_b, (stop, b""))
                at = offset + position - offset_b
                if at < 0 or not part_b:
                    return offset + position
            size = min(len(part) - position, len(part_b) - at)
            one, other = part[position : position + size], part_b[at : at + size]
            if one != other:
                return offset + position + _common_prefix(one, other)
            position += size
    return stop


def _common_prefix(one: bytes, other: bytes) -> int:
    """Return the length of the common prefix of two different byte strings of one length."""
    low, high = 0, len(one)
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low
