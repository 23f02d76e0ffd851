"""IndexFile: one file of the message index, a hash table from message keys to physical offsets.

Dispatch stores entries immediately and the header at the end of each batch
(:meth:`IndexFile.flush_header`). After a crash, slots may therefore point to entries that the
header does not count: see :func:`repair_slots`.

**Source:** RocketMQ IndexFile, IndexHeader.
"""

import sys
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Final

from broker.common.java import INT32_MAX
from broker.store.format.indexfile import (
    ENTRY_SIZE,
    ENTRY_STRUCT,
    HEADER_SIZE,
    HEADER_STRUCT,
    SLOT_SIZE,
    SLOT_STRUCT,
    IndexHeader,
    decode_header,
    key_hash,
    key_hashes,
    overlaps,
    time_diff_seconds,
)
from broker.store.format.property_columns import PropertyColumns
from broker.store.logfile.mapped_file import MappedFile

_READ_SLOT: Final = SLOT_STRUCT.unpack_from
_WRITE_SLOT: Final = SLOT_STRUCT.pack_into
_READ_ENTRY: Final = ENTRY_STRUCT.unpack_from
_WRITE_ENTRY: Final = ENTRY_STRUCT.pack_into


def _big_endian(values: Iterable[int]) -> "array[int]":
    """Ints of the file as ints of the machine, or the reverse: another order of their bytes."""
    slots = array("i", values)
    if sys.byteorder == "little":
        slots.byteswap()
    return slots


class IndexFile:
    """One index file; the header is kept in attributes and written by :meth:`flush_header`."""

    __slots__ = (
        "_entries_at",
        "_mapping",
        "begin_physical_offset",
        "begin_timestamp",
        "count",
        "end_physical_offset",
        "end_timestamp",
        "file",
        "header_flushed",
        "max_entries",
        "name",
        "slots",
        "synced",
        "used_slots",
    )

    def __init__(self, file: MappedFile, name: str, slots: int, max_entries: int) -> None:
        self.file = file
        self.name = name
        self.slots = slots
        self.max_entries = max_entries
        self._entries_at = HEADER_SIZE + slots * SLOT_SIZE
        self._mapping: Any = None
        self.header_flushed = True
        # Whether this process has synced the whole file since the last change.
        self.synced = False
        self.read_header(decode_header(file.mapping))

    def read_header(self, header: IndexHeader) -> None:
        """Set the attributes to the values of a header."""
        self.begin_timestamp = header.begin_timestamp
        self.end_timestamp = header.end_timestamp
        self.begin_physical_offset = header.begin_physical_offset
        self.end_physical_offset = header.end_physical_offset
        self.used_slots = header.hash_slot_count
        self.count = header.index_count

    @property
    def header(self) -> IndexHeader:
        """The current values as a header."""
        return IndexHeader(
            self.begin_timestamp,
            self.end_timestamp,
            self.begin_physical_offset,
            self.end_physical_offset,
            self.used_slots,
            self.count,
        )

    @property
    def full(self) -> bool:
        """Whether the file has no space for a further entry."""
        return self.count >= self.max_entries

    @property
    def sound(self) -> bool:
        """Whether the header agrees with the first and the last entry it counts.

        Slots and the entries between are not checked.
        """
        if self.count == 1:
            return True
        if not (1 < self.count <= self.max_entries and self.used_slots >= 0):
            return False
        if self.begin_timestamp <= 0 or self.end_timestamp <= 0:
            return False  # a query would end at this file
        mapping = self.file.mapping
        first = ENTRY_STRUCT.unpack_from(mapping, self._entries_at + ENTRY_SIZE)
        last_at = self._entries_at + (self.count - 1) * ENTRY_SIZE
        last = ENTRY_STRUCT.unpack_from(mapping, last_at)
        if first[1] != self.begin_physical_offset or last[1] != self.end_physical_offset:
            return False
        if self.count == 2 or first[1] == last[1]:
            return self.begin_timestamp == self.end_timestamp
        begin, end = self.begin_timestamp, self.end_timestamp
        return bool(last[2] == (min((end - begin) // 1000, INT32_MAX) if 0 < begin <= end else 0))

    def open_for_writing(self) -> None:
        """Reserve the file's disk space and map it; required before :meth:`put_keys`."""
        self.file.reserve()
        self._mapping = self.file.mapping

    def put_keys(
        self, prefix: int, keys: list[bytes], physical_offset: int, store_timestamp: int
    ) -> int:
        """Add an entry for each key of one message; return the number of entries that fitted.

        ``prefix`` is the unsigned hash of ``topic#``. Entry and slot are inlined instead of calling
        functions: this is the most expensive part of the dispatch of a single message.

        **Source:** RocketMQ IndexFile#putKey.
        """
        mapping, slots, begin = self._mapping, self.slots, self.begin_timestamp
        count = first = self.count
        entry_at = self._entries_at + count * ENTRY_SIZE
        seconds = (store_timestamp - begin) // 1000 if 0 < begin <= store_timestamp else 0
        if seconds > INT32_MAX:
            seconds = INT32_MAX
        last = self.max_entries
        for key in keys:
            if count >= last:
                break
            hashed = key_hash(prefix, key)
            slot_at = HEADER_SIZE + hashed % slots * SLOT_SIZE
            previous = _READ_SLOT(mapping, slot_at)[0]
            if previous <= 0 or previous >= count:
                previous = 0
                self.used_slots += 1
            _WRITE_ENTRY(mapping, entry_at, hashed, physical_offset, seconds, previous)
            _WRITE_SLOT(mapping, slot_at, count)
            entry_at += ENTRY_SIZE
            if count <= 1:
                # Set after the difference is computed, as in Java: the first entry of a rolled
                # file counts from the end of the previous file. Later keys do not.
                self.begin_physical_offset = physical_offset
                self.begin_timestamp = store_timestamp
                seconds = 0
            count += 1
        if count > first:
            self.count = count
            self.end_physical_offset = physical_offset
            self.end_timestamp = store_timestamp
            self.header_flushed = self.synced = False
        return count - first

    def put_batch(
        self,
        prefixes: Sequence[int],
        offsets: Sequence[int],
        columns: PropertyColumns,
        store_timestamps: Sequence[int],
    ) -> bool:
        """Add the entries of many messages, as :meth:`put_keys` for each; False without a change.

        Each message has one element in each argument; the physical offsets ascend. Nothing is
        written if the file has no entry yet, if it has no space for all, or if it knows the first
        message.
        """
        count, first = self.count, offsets[0]
        words: Sequence[bytes]
        if columns.words is not None and len(columns.words) == 1:
            (words,) = columns.words
        else:
            counts = list(map(len, columns.keys))
            words = list(chain.from_iterable(columns.keys))
            if counts.count(1) != len(counts):
                indexes = [number for number, many in enumerate(counts) for _ in range(many)]
                prefixes = [prefixes[number] for number in indexes]
                store_timestamps = [store_timestamps[number] for number in indexes]
                offsets = [offsets[number] for number in indexes]
        if count <= 1 or count + len(words) > self.max_entries or first <= self.end_physical_offset:
            return False
        if words:
            self._add_many(key_hashes(prefixes, words), offsets, store_timestamps)
        return True

    def put_entries(
        self, hashes: Sequence[int], offsets: Sequence[int], store_timestamps: Sequence[int]
    ) -> int:
        """Add entries by hash, as far as they fit; return their number.

        Each argument has one element per entry; the physical offsets ascend.
        """
        room = min(len(hashes), self.max_entries - self.count)
        if room <= 0:
            return 0
        first = 0
        if self.count <= 1:
            # As in put_keys: the first entry counts from the end of the previous file.
            self._add_many(hashes[:1], offsets[:1], store_timestamps[:1])
            self.begin_physical_offset = offsets[0]
            self.begin_timestamp = store_timestamps[0]
            first = 1
        if first < room:
            self._add_many(hashes[first:room], offsets[first:room], store_timestamps[first:room])
        return room

    def _add_many(
        self, hashes: Sequence[int], offsets: Sequence[int], store_timestamps: Sequence[int]
    ) -> None:
        """Add entries that fit, as columns: an entry is five ints, two of them its offset.

        All entries are written before the first slot refers to one of them.
        """
        mapping, slots, count = self._mapping, self.slots, self.count
        of_stamp = {stored: self._seconds(stored) for stored in set(store_timestamps)}
        numbers = [hashed % slots for hashed in hashes]
        with memoryview(mapping) as view, view[HEADER_SIZE : self._entries_at].cast("i") as table:
            # itemgetter takes half the time of map, and returns a tuple only for two or more.
            one = len(numbers) == 1
            previous = _big_endian([table[numbers[0]]] if one else itemgetter(*numbers)(table))
            if min(previous) < 0 or max(previous) >= count:  # slots of a damaged or killed file
                previous = array("i", [entry if 0 < entry < count else 0 for entry in previous])
            if len(set(numbers)) != len(numbers):  # chains of entries that are added now
                newest: dict[int, int] = {}
                for place, number in enumerate(numbers):
                    previous[place] = newest.get(number, previous[place])
                    newest[number] = count + place
            physical = array("q", offsets)
            if sys.byteorder == "little":
                physical.byteswap()
            words = array("i", physical.tobytes())
            packed = array("i", bytes(len(hashes) * ENTRY_SIZE))
            packed[0::5] = _big_endian(hashes)
            packed[1::5], packed[2::5] = words[0::2], words[1::2]
            packed[3::5] = _big_endian(map(of_stamp.__getitem__, store_timestamps))
            packed[4::5] = _big_endian(previous)
            begin = self._entries_at + count * ENTRY_SIZE
            mapping[begin : begin + len(hashes) * ENTRY_SIZE] = packed.tobytes()
            entries = _big_endian(range(count, count + len(hashes)))
            deque(map(table.__setitem__, numbers, entries), 0)
        self.used_slots += previous.count(0)
        self.count = count + len(hashes)
        self.end_physical_offset = offsets[-1]
        self.end_timestamp = store_timestamps[-1]
        self.header_flushed = self.synced = False

    def _seconds(self, store_timestamp: int) -> int:
        """timeDiffSeconds of an entry of a file that has one."""
        return time_diff_seconds(store_timestamp, self.begin_timestamp)

    def release(self) -> None:
        """Close the file without writing the header."""
        self._mapping = None
        self.file.close()

    def flush_header(self) -> None:
        """Write the header to the file if it has changed."""
        if not self.header_flushed:
            HEADER_STRUCT.pack_into(self._mapping, 0, *self.header)
            self.header_flushed = True

    def find(self, hashed: int, begin: int, end: int, limit: int) -> list[int]:
        """At most ``limit`` physical offsets of a hash within a time range (ms), newest first.

        **Source:** RocketMQ IndexFile#selectPhyOffset.
        """
        mapping, entries_at = self.file.mapping, self._entries_at
        count, steps, entries = self.count, self.count, self.max_entries
        begin_timestamp = self.begin_timestamp
        found: list[int] = []
        # Inlined walk_chain: most of the work of a query.
        number = _READ_SLOT(mapping, HEADER_SIZE + hashed % self.slots * SLOT_SIZE)[0]
        if number > count or count <= 1:
            return found
        while 0 < number < entries and steps > 0:
            entry_hash, physical_offset, seconds, previous = _READ_ENTRY(
                mapping, entries_at + number * ENTRY_SIZE
            )
            if seconds < 0:
                break
            time = begin_timestamp + seconds * 1000
            if entry_hash == hashed and begin <= time <= end:
                found.append(physical_offset)
                if len(found) >= limit:
                    break
            if previous > count or previous == number or time < begin:
                break
            number = previous
            steps -= 1
        return found

    def overlaps(self, begin: int, end: int) -> bool:
        """Return whether the file can contain entries of a time range (ms)."""
        return overlaps(self.begin_timestamp, self.end_timestamp, begin, end)

    def erase_after(self) -> None:
        """Erase all bytes after the last entry and sync the file.

        Otherwise old entries, each valid by itself, could follow new ones after the next power
        failure, with entries missing in between.
        """
        self.file.clear_after(self._entries_at + self.count * ENTRY_SIZE)
        self.synced = True
        self.file.sync()

    def sync(self) -> None:
        """Sync the file unless it has not changed since the last sync."""
        if not self.synced:
            self.synced = True  # set first: an entry added during the sync resets it
            try:
                self.file.sync()
            except BaseException:
                self.synced = False
                raise


def repair_slots(index: IndexFile) -> int:
    """Repair slots that point past the header's count; return their number.

    A process killed within a batch leaves entries, and slots that point to them, that the header
    does not count yet. Each such slot is set to the newest counted entry of its chain.
    """
    mapping = index.file.mapping
    first = index._entries_at + index.count * ENTRY_SIZE
    if index.full or not any(mapping[first : first + ENTRY_SIZE]):
        return 0
    index.open_for_writing()
    slots = array("i")
    slots.frombytes(mapping[HEADER_SIZE : index._entries_at])
    slots.byteswap()
    repaired = 0
    for slot, value in enumerate(slots):
        if value < index.count:
            continue
        while value >= index.count and value < index.max_entries:
            value = ENTRY_STRUCT.unpack_from(mapping, index._entries_at + value * ENTRY_SIZE)[3]
        if not 0 <= value < index.count:
            value = 0
        slots[slot] = value
        _WRITE_SLOT(mapping, HEADER_SIZE + slot * SLOT_SIZE, value)
        repaired += 1
    if repaired:
        index.used_slots = len(slots) - slots.count(0)
        index.header_flushed = index.synced = False
        index.flush_header()
    return repaired


def cut_entries(index: IndexFile, physical_end: int) -> bool:
    """Drop the entries of records at or after ``physical_end``; return whether there were any.

    The binary search relies on entries being in log order. Java keeps such entries and therefore
    does not index the records that replace the truncated ones.
    """
    mapping = index.file.mapping
    low, high = 1, index.count
    while low < high:
        middle = (low + high) // 2
        entry = ENTRY_STRUCT.unpack_from(mapping, index._entries_at + middle * ENTRY_SIZE)
        if entry[1] < physical_end:
            low = middle + 1
        else:
            high = middle
    if low == index.count:
        return False
    index.count = low
    if low > 1:
        last = ENTRY_STRUCT.unpack_from(mapping, index._entries_at + (low - 1) * ENTRY_SIZE)
        index.end_physical_offset = last[1]
        index.end_timestamp = index.begin_timestamp + last[2] * 1000
    index.header_flushed = False
    repair_slots(index)
    index.open_for_writing()
    index.flush_header()
    index.erase_after()
    return True
