"""Rebuild IndexFiles from the keys of a log.

**Source:** RocketMQ ``IndexFile#putKey``, ``IndexService#retryGetAndCreateIndexFile``.
"""

import time
from typing import TYPE_CHECKING, Any, Final

from broker.store.format.indexfile import (
    ENTRIES,
    ENTRY_SIZE,
    ENTRY_STRUCT,
    HEADER_SIZE,
    SLOT_SIZE,
    SLOTS,
    IndexHeader,
    encode_header,
    entry_position,
    file_size,
    slot_position,
    time_diff_seconds,
)
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.repair.files import Blocks, Output

if TYPE_CHECKING:
    from collections.abc import Sequence

# Entries per write.
_PART: Final = 8192


class IndexWriter:
    """Writes IndexFiles of one shape one after another; ``close`` completes the last.

    ``full_until`` is the endTimestamp (ms) of the last full file, the checkpoint's
    indexMsgTimestamp; 0 if no file is full.
    """

    def __init__(self, output: Output, slots: int = SLOTS, entries: int = ENTRIES) -> None:
        self.output = output
        self.slots = slots
        self.entries = entries
        self.files = 0
        self.keys = 0
        self.full_until = 0
        self._name = 0
        self._blocks: Blocks | None = None
        self._newest: Any = None
        self._used = 0
        self._next = 1
        self._begin: tuple[int, int] = (0, 0)
        self._end: tuple[int, int] = (0, 0)

    def add(self, physical: Any, hashes: Any, times: Any) -> None:
        """Add keys in the order of the log, as sequences of offset, hash and storeTimestamp."""
        at = 0
        while at < len(physical):
            if self._blocks is None:
                self._open(int(physical[at]), int(times[at]))
            room = self.entries - self._next
            end = min(at + room, at + _PART, len(physical))
            part = slice(at, end)
            if has_columns():
                self._put_columns(physical[part], hashes[part], times[part])
            else:
                self._put(physical[part], hashes[part], times[part])
            self._end = int(physical[end - 1]), int(times[end - 1])
            self._next += end - at
            self.keys += end - at
            at = end
            if self._next >= self.entries:
                self.full_until = self._end[1]
                self._finish()

    def _open(self, physical: int, timestamp: int) -> None:
        """Create a file, named after the time of its first message but after the previous name."""
        moment = time.strftime("%Y%m%d%H%M%S", time.gmtime(max(timestamp, 0) // 1000))
        self._name = max(int(f"{moment}{timestamp % 1000:03d}"), self._name + 1)
        size = file_size(self.slots, self.entries)
        self._blocks = self.output.create(f"index/{self._name:017d}", size)
        self._begin = self._end = (physical, timestamp)
        self._used = 0
        self._next = 1
        self.files += 1
        if has_columns():
            import numpy as np

            self._newest = np.zeros(self.slots, dtype=np.int32)
        else:
            self._newest = {}

    def _put(
        self, physical: "Sequence[int]", hashes: "Sequence[int]", times: "Sequence[int]"
    ) -> None:
        assert self._blocks is not None
        data = bytearray()
        for number, (place, value, moment) in enumerate(
            zip(physical, hashes, times, strict=True), self._next
        ):
            slot = value % self.slots
            previous = self._newest.get(slot, 0)
            self._used += previous == 0
            self._newest[slot] = number
            diff = time_diff_seconds(moment, self._begin[1])
            data += ENTRY_STRUCT.pack(value, place, diff, previous)
        self._blocks.put(entry_position(self._next, self.slots), bytes(data))

    def _put_columns(self, physical: Any, hashes: Any, times: Any) -> None:
        import numpy as np

        assert self._blocks is not None
        physical, hashes, times = (
            np.asarray(column, dtype=np.int64) for column in (physical, hashes, times)
        )
        count = len(physical)
        slot = hashes % self.slots
        numbers = np.arange(self._next, self._next + count)
        # The stable sort groups entries by slot in log order: the previous entry of each one is its
        # predecessor in the group; that of the first one is the newest entry of earlier parts.
        order = np.argsort(slot, kind="stable")
        ordered = slot[order]
        same = np.concatenate(([False], ordered[1:] == ordered[:-1]))
        older = np.where(same, np.concatenate(([0], numbers[order][:-1])), self._newest[ordered])
        previous = np.empty(count, dtype=np.int64)
        previous[order] = older
        self._used += int(((older == 0) & ~same).sum())
        self._newest[slot] = numbers
        kind = np.dtype([("h", ">i4"), ("p", ">i8"), ("t", ">i4"), ("b", ">i4")])
        entries = np.empty(count, dtype=kind)
        entries["h"], entries["p"], entries["b"] = hashes, physical, previous
        begin = self._begin[1]
        seconds = (times - begin) // 1000 if begin > 0 else np.zeros(count, dtype=np.int64)
        entries["t"] = np.clip(seconds, 0, (1 << 31) - 1)
        assert entries.itemsize == ENTRY_SIZE
        self._blocks.put(entry_position(self._next, self.slots), entries.tobytes())

    def _finish(self) -> None:
        if self._blocks is None:
            return
        if has_columns():
            self._blocks.put(HEADER_SIZE, self._newest.astype(">i4").tobytes())
        else:
            for slot, number in self._newest.items():
                self._blocks.put(slot_position(slot), number.to_bytes(SLOT_SIZE, "big"))
        header = IndexHeader(
            begin_timestamp=self._begin[1],
            end_timestamp=self._end[1],
            begin_physical_offset=self._begin[0],
            end_physical_offset=self._end[0],
            hash_slot_count=self._used,
            index_count=self._next,
        )
        self._blocks.put(0, encode_header(header))
        self._blocks.close()
        self._blocks = None

    def close(self) -> None:
        """Complete the current file."""
        self._finish()
