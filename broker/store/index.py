"""IndexService: from a message's keys to its place in the log.

Entries are stored as dispatch comes by; a file's header is brought up to date at the end of each
batch (:meth:`IndexService.settle`). Behind a crash the header tells how far the file can be
trusted: see :func:`repair_slots`.

**Source:** RocketMQ IndexService, IndexFile, IndexHeader.
"""

import os
import time
from array import array
from collections.abc import Callable
from typing import Any, Final

from broker.common.java import extend_hash
from broker.errors import DiskFullError, StoreError
from broker.store.files import Disk
from broker.store.format.indexfile import (
    ENTRY_SIZE,
    ENTRY_STRUCT,
    HEADER_SIZE,
    HEADER_STRUCT,
    SLOT_SIZE,
    SLOT_STRUCT,
    IndexHeader,
    decode_header,
    file_size,
    guess_slots,
    overlaps,
    walk_chain,
)
from broker.store.mapped_file import MappedFile

_NAME_DIGITS: Final = 17  # yyyyMMddHHmmssSSS
_MOST: Final = (1 << 31) - 1
_EVER: Final = (1 << 63) - 1
_MASK: Final = 0xFFFFFFFF
_READ_SLOT: Final = SLOT_STRUCT.unpack_from
_WRITE_SLOT: Final = SLOT_STRUCT.pack_into
_WRITE_ENTRY: Final = ENTRY_STRUCT.pack_into

# The hash is a number in base 31 whose digits are the characters. int() reads numbers in base 31
# at C speed if digits are below 31, so each character c is split into c // 31 and c % 31:
# hash = 31 * int(quotients) + int(remainders). Three to four times quicker than sum(map(mul)).
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstu"
_QUOTIENTS: Final = bytes(_DIGITS[c // 31] for c in range(256))
_REMAINDERS: Final = bytes(_DIGITS[c % 31] for c in range(256))
_LONGEST_DIRECT: Final = 1024  # int() refuses more than 4300 digits
_POWERS: Final = tuple(pow(31, n, 1 << 32) for n in range(_LONGEST_DIRECT + 1))


def key_hash(prefix: int, key: bytes) -> int:
    """Index hash of a topic's key: ``prefix`` is the unsigned hash of ``topic#``; never negative.

    **Source:** RocketMQ IndexFile#indexKeyHashMethod.
    """
    size = len(key)
    if 0 < size <= _LONGEST_DIRECT and key.isascii():
        value = (
            prefix * _POWERS[size]
            + 31 * int(key.translate(_QUOTIENTS), 31)
            + int(key.translate(_REMAINDERS), 31)
        ) & _MASK
    else:
        value = extend_hash(prefix, key) & _MASK
    if value > _MOST:
        value = _MASK + 1 - value
        if value > _MOST:
            return 0  # the one int that has no absolute value
    return value


class IndexFile:
    """One index file; the header's values are kept here and stored by :meth:`settle`."""

    __slots__ = (
        "_entries_at",
        "_mapping",
        "begin_physical_offset",
        "begin_timestamp",
        "count",
        "end_physical_offset",
        "end_timestamp",
        "file",
        "max_entries",
        "name",
        "settled",
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
        self.settled = True
        # False until this process has seen a sync of everything in the file.
        self.synced = False
        self.read_header(decode_header(file.mapping))

    def read_header(self, header: IndexHeader) -> None:
        """Take over a header's values."""
        self.begin_timestamp = header.begin_timestamp
        self.end_timestamp = header.end_timestamp
        self.begin_physical_offset = header.begin_physical_offset
        self.end_physical_offset = header.end_physical_offset
        self.used_slots = header.hash_slot_count
        self.count = header.index_count

    @property
    def header(self) -> IndexHeader:
        """The header's values now."""
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
        """True when no further entry fits."""
        return self.count >= self.max_entries

    def open_for_writing(self) -> None:
        """Reserve the file's space before the first put."""
        self.file.reserve()
        self._mapping = self.file.mapping

    def put_keys(
        self, prefix: int, keys: list[bytes], physical_offset: int, store_timestamp: int
    ) -> int:
        """Add an entry for each key of one message; how many fitted.

        ``prefix`` is the unsigned hash of ``topic#``. Hash, entry and slot are written out here
        and not in functions of their own: this loop is the dearest part of a dispatch.

        **Source:** RocketMQ IndexFile#putKey.
        """
        mapping = self._mapping
        count = self.count
        most = self.max_entries
        slots = self.slots
        entry_at = self._entries_at + count * ENTRY_SIZE
        begin = self.begin_timestamp
        seconds = (store_timestamp - begin) // 1000 if 0 < begin <= store_timestamp else 0
        if seconds > _MOST:
            seconds = _MOST
        first = count
        for key in keys:
            if count >= most:
                break
            size = len(key)
            if size <= _LONGEST_DIRECT and key.isascii():
                hashed = (
                    prefix * _POWERS[size]
                    + 31 * int(key.translate(_QUOTIENTS), 31)
                    + int(key.translate(_REMAINDERS), 31)
                ) & _MASK
                if hashed > _MOST:
                    hashed = _MASK + 1 - hashed
                    if hashed > _MOST:
                        hashed = 0
            else:
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
                # After the difference: Java's first entry of a rolled file is late by this, ours
                # too; the second key of that message is not.
                self.begin_physical_offset = physical_offset
                self.begin_timestamp = begin = store_timestamp
                seconds = 0
            count += 1
        if count > first:
            self.count = count
            self.end_physical_offset = physical_offset
            self.end_timestamp = store_timestamp
            self.settled = self.synced = False
        return count - first

    def settle(self) -> None:
        """Store the header."""
        if not self.settled:
            HEADER_STRUCT.pack_into(self._mapping, 0, *self.header)
            self.settled = True

    def find(self, hashed: int, begin: int, end: int, limit: int) -> list[int]:
        """Physical offsets under a hash within a time range, newest first.

        **Source:** RocketMQ IndexFile#selectPhyOffset.
        """
        self.settle()
        found = []
        for entry in walk_chain(self.file.mapping, hashed, self.slots, begin=begin, end=end):
            found.append(entry.physical_offset)
            if len(found) >= limit:
                break
        return found

    def overlaps(self, begin: int, end: int) -> bool:
        """Whether the file can hold entries of a time range (ms)."""
        return overlaps(self.header, begin, end)

    def sync(self) -> None:
        """Wait until the file is on the disk."""
        if not self.synced:
            self.synced = True
            self.file.sync()


def repair_slots(index: IndexFile) -> int:
    """Make slots that point behind the header's count point at what the header covers.

    A process that is killed within a batch leaves entries, and slots that lead to them, which the
    header does not count yet. Each such slot is led back along its chain. Returns their number.
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
        index.settled = index.synced = False
        index.settle()
    return repaired


def cut_entries(index: IndexFile, physical_end: int) -> bool:
    """Drop the entries of records at or behind ``physical_end``; whether there were any.

    Entries stand in the order of the log. Java leaves them, and then takes no key of the records
    that come in their place.
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
    index.settled = False
    repair_slots(index)
    return True


# Unsigned hash of "topic#", keys, physical offset, storeTimestamp.
_Waiting = tuple[int, list[bytes], int, int]


class IndexService:
    """All index files, oldest first; puts go to the last one.

    ``on_full(file)`` is told of a file that became full: it must be flushed and noted in the
    checkpoint, on another thread.
    """

    def __init__(self, disk: Disk, folder: str, slots: int, entries: int) -> None:
        self.disk = disk
        self.folder = folder
        self.slots = slots
        self.entries = entries
        self.files: list[IndexFile] = []
        # Number of files before the first one that was lost, None if none is known to be.
        self.whole_files: int | None = None
        self.removed = False
        self.on_full: Callable[[IndexFile], None] | None = None
        # Told when there is no space for a file; entries wait here until there is.
        self.on_no_space: Callable[[DiskFullError], None] | None = None
        self.waiting: list[_Waiting] = []
        self.now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
        self._current: IndexFile | None = None

    def load(self, *, sizes_are_default: bool, crashed: bool, notes: list[str]) -> None:
        """Open the index files; a file with a strange name is left alone and noted.

        Sizes left at their defaults are worked out from a file of another length. An empty file,
        and after a power cut a short one, is removed: recovery fills the index again.

        **Source:** RocketMQ IndexService#load.
        """
        size = file_size(self.slots, self.entries)
        for name, is_folder in self.disk.list(self.folder):
            path = os.path.join(self.folder, name)
            if is_folder or not name.isdigit():
                notes.append(f"{path}: not the name of an index file, left alone")
                continue
            length = self.disk.size(path)
            if length == 0 or (crashed and length < size and not sizes_are_default):
                notes.append(f"{path}: {length} bytes long, removed")
                self.removed = True
                if self.whole_files is None:
                    self.whole_files = len(self.files)
                self.disk.unlink(path)
                continue
            if length != size and sizes_are_default and not self.files and length > HEADER_SIZE:
                self._guess(path, length)
                size = file_size(self.slots, self.entries)
            if length != size:
                raise StoreError(
                    f"{path}: {length} bytes long, maxHashSlotNum={self.slots} and"
                    f" maxIndexNum={self.entries} make {size}",
                    "set both to what wrote the file, or move the index folder away",
                    path=path,
                )
            self.files.append(self._open(name, size))
        self._current = None

    def put_keys(
        self, topic_prefix: int, keys: list[bytes], physical_offset: int, store_timestamp: int
    ) -> None:
        """Index one message under its keys, rolling to a new file as often as it takes.

        A message below the last one indexed is there already, and so is that one. Where a file
        cannot be made for want of space the entries wait, and those of all later messages: puts
        are refused from then on, so they are few.

        **Source:** RocketMQ IndexService#buildIndex, #putKey.
        """
        if self.waiting:
            self.waiting.append((topic_prefix, keys, physical_offset, store_timestamp))
            return
        current = self._current
        if current is None:
            try:
                current = self._for_writing()
            except DiskFullError as error:
                self._wait((topic_prefix, keys, physical_offset, store_timestamp), error)
                return
        if physical_offset <= current.end_physical_offset:
            keys = self._unknown(current, topic_prefix, keys, physical_offset)
            if not keys:
                return
        done = current.put_keys(topic_prefix, keys, physical_offset, store_timestamp)
        while done < len(keys):
            keys = keys[done:]
            try:
                current = self._roll(current)
            except DiskFullError as error:
                self._wait((topic_prefix, keys, physical_offset, store_timestamp), error)
                return
            done = current.put_keys(topic_prefix, keys, physical_offset, store_timestamp)

    def _wait(self, entry: _Waiting, error: DiskFullError) -> None:
        if self.on_no_space is None:
            raise error
        self.waiting.append(entry)
        self.on_no_space(error)

    def catch_up(self) -> None:
        """Store the entries that wait for a file; DiskFullError when it cannot be made yet."""
        waiting = self.waiting
        stored = 0
        try:
            while stored < len(waiting):
                prefix, keys, physical_offset, store_timestamp = waiting[stored]
                current = self._current or self._for_writing()
                if current.full:
                    current = self._roll(current)
                done = current.put_keys(prefix, keys, physical_offset, store_timestamp)
                if done < len(keys):
                    waiting[stored] = (prefix, keys[done:], physical_offset, store_timestamp)
                else:
                    stored += 1
        finally:
            del waiting[:stored]
            self.settle()

    def _unknown(
        self, current: IndexFile, topic_prefix: int, keys: list[bytes], physical_offset: int
    ) -> list[bytes]:
        """Those keys of a message not beyond the last one that are not in the files yet.

        A file just rolled to holds nothing, and ends where the full one before it does: the
        message there may be in that one in part or as a whole.
        """
        if physical_offset < current.end_physical_offset or current.count > 1:
            return []
        if len(self.files) == 1:
            return keys
        full = self.files[-2]
        return [
            key
            for key in keys
            if physical_offset not in full.find(key_hash(topic_prefix, key), 0, _EVER, _MOST)
        ]

    def settle(self) -> None:
        """Bring the header of the current file up to date; at the end of a batch."""
        current = self._current
        if current is not None and not current.settled:
            current.settle()

    def query(
        self, topic_prefix: int, key: bytes, limit: int, begin: int, end: int
    ) -> tuple[list[int], int, int]:
        """Physical offsets under a key, and time and offset of the newest entry of the index.

        **Source:** RocketMQ IndexService#queryOffset.
        """
        hashed = key_hash(topic_prefix, key)
        found = [
            physical_offset
            for prefix, keys, physical_offset, stored in reversed(self.waiting)
            if begin <= stored <= end and hashed in [key_hash(prefix, word) for word in keys]
        ][:limit]
        last_timestamp = last_offset = 0
        for number in range(len(self.files) - 1, -1, -1):
            index = self.files[number]
            if number == len(self.files) - 1:
                last_timestamp = index.end_timestamp
                last_offset = index.end_physical_offset
            if len(found) < limit and index.overlaps(begin, end):
                found += index.find(hashed, begin, end, limit - len(found))
            if index.begin_timestamp < begin or len(found) >= limit:
                break
        return found, last_timestamp, last_offset

    def delete_expired(self, log_min: int) -> int:
        """Remove files whose messages are all gone from the log, never the last file.

        **Source:** RocketMQ IndexService#deleteExpiredFile.
        """
        removed = 0
        while len(self.files) > 1 and self.files[0].end_physical_offset < log_min:
            self.files.pop(0).file.destroy()
            removed += 1
        return removed

    def cut(self, physical_end: int) -> list[str]:
        """Forget what lies at or behind the log's end; paths of files that held nothing else."""
        first = next(
            (n for n, f in enumerate(self.files) if f.end_physical_offset >= physical_end), None
        )
        if first is None:
            return []
        if self.files[first].begin_physical_offset >= physical_end:
            return self.drop_from(first)
        cut_entries(self.files[first], physical_end)
        return self.drop_from(first + 1)

    def settle_removed(self) -> None:
        """See to it that removed files do not come back with a power cut."""
        self.removed = False
        if self.disk.exists(self.folder):
            self.disk.sync_folder(self.folder)

    @property
    def end_physical_offset(self) -> int:
        """Physical offset of the last record indexed, -1 without any."""
        files = self.files
        return files[-1].end_physical_offset if files and files[-1].count > 1 else -1

    def full_until(self) -> int:
        """End time of the last full file, 0 if there is none."""
        return max((index.end_timestamp for index in self.files if index.full), default=0)

    def drop_from(self, number: int) -> list[str]:
        """Remove the files from position ``number`` on; their paths."""
        gone = self.files[number:]
        del self.files[number:]
        self.removed = self.removed or bool(gone)
        self._current = None
        for index in gone:
            index.file.destroy()
        return [index.file.path for index in gone]

    def sync(self) -> None:
        """Store the last header and wait until all files are on the disk."""
        self.settle()
        for index in list(self.files):
            index.sync()

    def close(self) -> None:
        """Let go of the files."""
        self.settle()
        self._current = None
        for index in self.files:
            index._mapping = None
            index.file.close()

    def _guess(self, path: str, length: int) -> None:
        data = self.disk.read(path)
        slots = guess_slots(data)
        if slots:
            self.slots = slots
            self.entries = (length - HEADER_SIZE - slots * SLOT_SIZE) // ENTRY_SIZE

    def _open(self, name: str, size: int) -> IndexFile:
        file = MappedFile(self.disk, self.folder, 0, size)
        file.path = os.path.join(self.folder, name)
        file.written = size
        return IndexFile(file, name, self.slots, self.entries)

    def _for_writing(self) -> IndexFile:
        if not self.files:
            self.disk.make_folder(self.folder)
            self._create(IndexHeader())
        elif self.files[-1].full:
            return self._roll(self.files[-1])
        current = self.files[-1]
        current.open_for_writing()
        self._current = current
        return current

    def _roll(self, full: IndexFile) -> IndexFile:
        """Go on in a new file, whose header begins with the full one's end, as Java's does."""
        full.settle()
        current = self._create(
            IndexHeader(
                full.end_timestamp,
                full.end_timestamp,
                full.end_physical_offset,
                full.end_physical_offset,
                0,
                1,
            )
        )
        current.open_for_writing()
        self._current = current
        if self.on_full is not None:
            self.on_full(full)
        return current

    def _create(self, header: IndexHeader) -> IndexFile:
        file = MappedFile(self.disk, self.folder, 0, file_size(self.slots, self.entries))
        name = self._new_name()
        file.path = os.path.join(self.folder, name)
        file.create()
        file.written = file.size
        index = IndexFile(file, name, self.slots, self.entries)
        index.read_header(header)
        self.files.append(index)
        return index

    def _new_name(self) -> str:
        """Local time as yyyyMMddHHmmssSSS, later than the last file's name in any case."""
        now = self.now_ms()
        last = self.files[-1].name if self.files else ""
        name = ""
        while not name or (name <= last and len(last) == _NAME_DIGITS):
            seconds, millis = divmod(now, 1000)
            name = time.strftime("%Y%m%d%H%M%S", time.localtime(seconds)) + f"{millis:03d}"
            now += 1
        return name
