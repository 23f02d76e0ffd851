"""IndexService: manages the index files, oldest first; adds entries, queries them, expires files.

If the disk has no space for a new file, entries are queued in memory, and the store refuses
messages until there is space.

**Source:** RocketMQ IndexService.
"""

import os
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Final

from broker.common.java import INT32_MAX
from broker.errors import DiskFullError, StoreError
from broker.store.format.indexfile import (
    ENTRY_SIZE,
    HEADER_SIZE,
    SLOT_SIZE,
    IndexHeader,
    file_size,
    key_hash,
    probe_slot_count,
)
from broker.store.format.property_columns import PropertyColumns
from broker.store.index.index_file import IndexFile, cut_entries
from broker.store.logfile.disk import Disk, list_files, make_durable_folder
from broker.store.logfile.mapped_file import MappedFile

_EVER: Final = (1 << 63) - 1

# Unsigned hash of "topic#", keys, physical offset, storeTimestamp.
_Waiting = tuple[int, list[bytes], int, int]


class IndexService:
    """All index files, oldest first; new entries are added to the last one.

    ``on_full(file)`` is called when a file has become full: the callee must sync it and update the
    checkpoint on another thread.
    """

    def __init__(self, disk: Disk, folder: str, slots: int, entries: int) -> None:
        self.disk = disk
        self.folder = folder
        self.slots = slots
        self.entries = entries
        self.files: list[IndexFile] = []
        # Number of files before the first lost one, None if no file is known to be lost.
        self.whole_files: int | None = None
        # Position of the first file that must be validated because it was truncated.
        self.doubtful = INT32_MAX
        self.removed = False
        self._survey: list[tuple[str, int]] | None = None
        self.on_full: Callable[[IndexFile], None] | None = None
        # Called if there is no space for a new file; entries then queue up in `waiting`.
        self.on_no_space: Callable[[DiskFullError], None] | None = None
        self.waiting: list[_Waiting] = []
        self._no_space: DiskFullError | None = None
        # Called when a file has been created.
        self.on_new: Callable[[], None] | None = None
        self.now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
        self._current: IndexFile | None = None

    def survey(
        self, *, sizes_are_default: bool, crashed: bool = False, noted: Sequence[int] = ()
    ) -> None:
        """Read the names and lengths of the files for :meth:`load`, without changes on disk.

        With ``sizes_are_default`` the numbers of slots and entries are taken from ``noted``, if
        present, or derived from a file. StoreError for a file that is too long, and for one that is
        too short unless it was truncated: after a crash, or if the configured size is confirmed, or
        if it is the only file, nothing is noted, and it does not show other slots.
        """
        lengths = {
            name: self.disk.size(os.path.join(self.folder, name))
            for name in list_files(self.disk, self.folder)
            if name.isdecimal()
        }
        if sizes_are_default and len(noted) == 2 and noted[0] > 0 and noted[1] > 0:
            self.slots, self.entries = noted
        size = file_size(self.slots, self.entries)
        if sizes_are_default and size not in lengths.values():
            for name, length in lengths.items():
                if length > HEADER_SIZE and self._probe_layout(
                    os.path.join(self.folder, name), length
                ):
                    size = file_size(self.slots, self.entries)
                    break
        known = (
            size in lengths.values()
            or list(noted) == [self.slots, self.entries]
            or (not noted and len(lengths) == 1 and self._may_be_truncated(*lengths))
        )
        self._survey = []
        for name, length in lengths.items():
            short = 0 < length < size
            if length and length != size and not (short and (known or crashed)):
                path = os.path.join(self.folder, name)
                raise StoreError(
                    f"{path}: {length} bytes long, maxHashSlotNum={self.slots} and"
                    f" maxIndexNum={self.entries} make {size}",
                    "set both as when the file was written, or move the index folder away",
                    path=path,
                )
            self._survey.append((name, length))

    def load(
        self,
        *,
        sizes_are_default: bool = False,
        crashed: bool = False,
        notes: list[str],
        noted_names: Sequence[str] = (),
    ) -> None:
        """Open the index files; a file with another kind of name is ignored and added to ``notes``.

        A file without entries is removed. A truncated file is extended with zeros, and recovery
        rebuilds it (see :mod:`broker.store.recovery.index_repairer`).
        ``whole_files`` and ``doubtful`` record from which file on recovery must refill the index;
        ``noted_names`` are the expected files.

        **Source:** RocketMQ IndexService#load.
        """
        if self._survey is None:
            self.survey(sizes_are_default=sizes_are_default, crashed=crashed)
        assert self._survey is not None
        size = file_size(self.slots, self.entries)
        for name, is_folder in self.disk.list(self.folder):
            if is_folder or not name.isdecimal():
                path = os.path.join(self.folder, name)
                notes.append(f"{path}: not the name of an index file, ignored")
        lengths = dict(self._survey)
        for name in sorted({*lengths, *noted_names}):
            path = os.path.join(self.folder, name)
            length = lengths.get(name, 0)
            if length <= HEADER_SIZE + self.slots * SLOT_SIZE:
                # Without entries the file has no content that the log could confirm.
                state = f"{length} bytes long, removed" if name in lengths else "missing"
                notes.append(f"{path}: {state}: rebuilt from the log")
                self.disk.unlink(path)
                self.removed = True
                if self.whole_files is None:
                    self.whole_files = len(self.files)
                continue
            if length < size:
                notes.append(f"{path}: {length} bytes long, filled up with zeros to {size}")
                self.doubtful = min(self.doubtful, len(self.files))
            self.files.append(self._open(name, size, fill_up=length < size))
        self._survey = None
        self._current = None

    def put_keys(
        self, topic_prefix: int, keys: list[bytes], physical_offset: int, store_timestamp: int
    ) -> None:
        """Index one message under its keys, rolling to new files as needed.

        Messages up to the last indexed one are skipped. If a file cannot be created because the
        disk is full, these entries and those of all later messages are queued; they are few,
        because the store then refuses messages.

        **Source:** RocketMQ IndexService#buildIndex, #putKey.
        """
        if self._no_space is not None:
            self._wait((topic_prefix, keys, physical_offset, store_timestamp), self._no_space)
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

    def put_batch(
        self,
        prefixes: Sequence[int],
        offsets: Sequence[int],
        columns: PropertyColumns,
        store_timestamps: Sequence[int],
    ) -> None:
        """Index many messages, whose physical offsets ascend, as :meth:`put_keys` for each."""
        current = self._current
        if (
            self._no_space is None
            and current is not None
            and current.put_batch(prefixes, offsets, columns, store_timestamps)
        ):
            return
        for message in zip(prefixes, columns.keys, offsets, store_timestamps, strict=True):
            if message[1]:
                self.put_keys(*message)

    def put_entries(
        self, hashes: Sequence[int], offsets: Sequence[int], store_timestamps: Sequence[int]
    ) -> None:
        """Add entries by hash: each argument has one element per entry, and offsets ascend.

        For recovery, which has no messages to queue: DiskFullError if a further file cannot be
        created; entries added before remain. All entries are of records after the last indexed one.
        """
        done = 0
        while done < len(hashes):
            done += self.writable().put_entries(
                hashes[done:], offsets[done:], store_timestamps[done:]
            )

    def _wait(self, entry: _Waiting, error: DiskFullError) -> None:
        if self.on_no_space is None:
            raise error
        self._no_space = error
        self.waiting.append(entry)
        self.on_no_space(error)

    def ends_before(self, physical_offset: int) -> bool:
        """Whether entries of that record follow all others, with space for them on the disk."""
        if self._no_space is not None:
            return False
        return not self.files or physical_offset > self.files[-1].end_physical_offset

    def writable(self) -> IndexFile:
        """The file for the next entry; DiskFullError if it has to be created and cannot be."""
        current = self._current or self._for_writing()
        return self._roll(current) if current.full else current

    def catch_up(self) -> None:
        """Store the queued entries; DiskFullError if a file still cannot be created."""
        waiting = self.waiting
        stored = 0
        try:
            while stored < len(waiting):
                prefix, keys, physical_offset, store_timestamp = waiting[stored]
                current = self.writable()
                done = current.put_keys(prefix, keys, physical_offset, store_timestamp)
                if done < len(keys):
                    waiting[stored] = (prefix, keys[done:], physical_offset, store_timestamp)
                else:
                    stored += 1
            self._no_space = None
        finally:
            del waiting[:stored]
            self.flush_header()

    def _unknown(
        self, current: IndexFile, topic_prefix: int, keys: list[bytes], physical_offset: int
    ) -> list[bytes]:
        """The keys, of a message up to the last indexed one, that are not in the files yet.

        A full file may contain some keys of the last message only: the next file could not be
        created, or a kill preceded it. The same holds for the file before one that was just
        created: the new file has no entries and its end offset is that of the full file.
        """
        if physical_offset < current.end_physical_offset:
            return []
        if current.full:
            full = current
        elif current.count > 1:
            return []
        elif len(self.files) == 1:
            return keys
        else:
            full = self.files[-2]
        return [
            key
            for key in keys
            if physical_offset not in full.find(key_hash(topic_prefix, key), 0, _EVER, INT32_MAX)
        ]

    def flush_header(self) -> None:
        """Write the header of the current file; called at the end of a batch."""
        current = self._current
        if current is not None and not current.header_flushed:
            current.flush_header()

    def query(
        self, topic_prefix: int, key: bytes, limit: int, begin: int, end: int
    ) -> tuple[list[int], int, int]:
        """Physical offsets of a key, and timestamp and offset of the newest entry of the index.

        **Source:** RocketMQ IndexService#queryOffset.
        """
        hashed = key_hash(topic_prefix, key)
        found: list[int] = []
        if self.waiting:
            found = [
                physical_offset
                for prefix, keys, physical_offset, stored in reversed(self.waiting)
                if begin <= stored <= end and hashed in [key_hash(prefix, word) for word in keys]
            ][:limit]
        files = self.files
        for index in reversed(files):
            if len(found) < limit and index.overlaps(begin, end):
                found += index.find(hashed, begin, end, limit - len(found))
            if index.begin_timestamp < begin or len(found) >= limit:
                break
        if not files:
            return found, 0, 0
        return found, files[-1].end_timestamp, files[-1].end_physical_offset

    def delete_expired(self, log_min: int) -> int:
        """Remove files whose messages have all expired from the log, except the last file.

        **Source:** RocketMQ IndexService#deleteExpiredFile.
        """
        removed = 0
        while len(self.files) > 1 and self.files[0].end_physical_offset < log_min:
            self.files[0].file.destroy()
            self.files.pop(0)
            removed += 1
        return removed

    def cut(self, physical_end: int) -> list[str]:
        """Drop entries at or after the end of the log; return the paths of removed files."""
        first = next(
            (n for n, f in enumerate(self.files) if f.end_physical_offset >= physical_end), None
        )
        if first is None:
            return []
        if self.files[first].begin_physical_offset >= physical_end:
            return self.drop_from(first)
        cut_entries(self.files[first], physical_end)
        return self.drop_from(first + 1)

    def finalise_removed(self) -> None:
        """Sync the directory so that removed files do not reappear after a power failure."""
        self.removed = False
        if self.disk.exists(self.folder):
            self.disk.sync_folder(self.folder)

    @property
    def end_physical_offset(self) -> int:
        """Physical offset of the last indexed record, -1 if the last file has no entries."""
        files = self.files
        return files[-1].end_physical_offset if files and files[-1].count > 1 else -1

    def first_unverified(self) -> int | None:
        """Position of the first file that must be validated, None if there is none.

        The file was truncated, its header does not match its entries, or a file before it is lost.
        Only the last file may have space: the next one is created when a file is full.
        """
        last = len(self.files) - 1
        for number, index in enumerate(self.files):
            if number in (self.whole_files, self.doubtful) or not index.sound:
                return number
            if number < last and not index.full:
                return number
        return self.whole_files

    def full_until(self) -> int:
        """Latest end timestamp (ms) of the full files, 0 if there is none."""
        return max((index.end_timestamp for index in self.files if index.full), default=0)

    def drop_from(self, number: int) -> list[str]:
        """Remove the files from position ``number`` on; return their paths."""
        gone = self.files[number:]
        del self.files[number:]
        self.removed = self.removed or bool(gone)
        self._current = None
        for index in gone:
            index.file.destroy()
        return [index.file.path for index in gone]

    def sync(self) -> None:
        """Write the last header and sync all files."""
        self.flush_header()
        for index in list(self.files):
            index.sync()

    def close(self) -> None:
        """Write the last header and close the files."""
        self.flush_header()
        self.release()

    def release(self) -> None:
        """Close the files without writing the last header, as a kill does."""
        self._current = None
        for index in self.files:
            index.release()

    def _may_be_truncated(self, name: str) -> bool:
        """Whether the content of the only file does not show another number of slots."""
        data = self.disk.read(os.path.join(self.folder, name))
        return len(data) < HEADER_SIZE or probe_slot_count(data) in (0, self.slots)

    def _probe_layout(self, path: str, length: int) -> bool:
        slots = probe_slot_count(self.disk.read(path))
        if not slots or (slots == self.slots and length < file_size(slots, self.entries)):
            return False  # a truncated file of the current size
        self.slots = slots
        self.entries = (length - HEADER_SIZE - slots * SLOT_SIZE) // ENTRY_SIZE
        return True

    def _open(self, name: str, size: int, *, fill_up: bool = False) -> IndexFile:
        file = MappedFile(self.disk, self.folder, 0, size)
        file.path = os.path.join(self.folder, name)
        if fill_up:
            file.reserve()
        file.written = size
        return IndexFile(file, name, self.slots, self.entries)

    def _for_writing(self) -> IndexFile:
        if not self.files:
            make_durable_folder(self.disk, self.folder)
            self.create_file(IndexHeader())
        elif self.files[-1].full:
            return self._roll(self.files[-1])
        current = self.files[-1]
        current.open_for_writing()
        self._current = current
        return current

    def _roll(self, full: IndexFile) -> IndexFile:
        """Create the file after ``full``; its header starts at the end of ``full``, as in Java."""
        full.flush_header()
        current = self.create_file(
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

    def create_file(self, header: IndexHeader) -> IndexFile:
        """Create the next index file with this header; OSError if that is impossible."""
        file = MappedFile(self.disk, self.folder, 0, file_size(self.slots, self.entries))
        name = next_name(self.files[-1].name if self.files else "", self.now_ms())
        file.path = os.path.join(self.folder, name)
        file.create()
        file.written = file.size
        index = IndexFile(file, name, self.slots, self.entries)
        index.read_header(header)
        self.files.append(index)
        if self.on_new is not None:
            self.on_new()
        return index


def next_name(last: str, now_ms: int) -> str:
    """Name of the file after ``last`` (empty: none): local time as yyyyMMddHHmmssSSS.

    Names sort in order of creation. If the clock was set back, the name is ``last`` plus one
    millisecond, added to the calendar fields: local time repeats an hour in autumn. A ``last`` that
    is not a time is extended by a digit.

    **Source:** RocketMQ IndexService#getAndCreateLastIndexFile (does not check the last name).
    """
    seconds, millis = divmod(now_ms, 1000)
    name = time.strftime("%Y%m%d%H%M%S", time.localtime(seconds)) + f"{millis:03d}"
    if name > last:
        return name
    if len(last) != len(name):
        return last + "0"
    try:
        later = datetime.strptime(last, "%Y%m%d%H%M%S%f") + timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        return last + "0"
    return f"{later:%Y%m%d%H%M%S}{later.microsecond // 1000:03d}"
