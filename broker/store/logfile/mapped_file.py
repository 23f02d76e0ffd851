"""MappedFile and MappedFileQueue: consecutive files of one fixed length, read and written by mmap.

A MappedFileQueue is one contiguous range of bytes; each file is named after the position of its
first byte. A file's space is reserved when it is created or before it is written again, then the
file is mapped; ConsumeQueue files reserve space in steps, before each part is written. Long data
is written by pwrite, into the same pages of the page cache. A view given to a reader keeps the
memory of a deleted file alive: it is unmapped when the last view is released.

**Source:** RocketMQ DefaultMappedFile, MappedFileQueue.
"""

import logging
import os
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

from broker.errors import StoreError
from broker.store.format.commitlog import file_name, file_start
from broker.store.logfile.disk import Disk, Mapping, list_files
from broker.store.logfile.mapped_file_limit import MappedFileLimit

_log = logging.getLogger(__name__)

PAGE: Final = 4096
# Bytes that a growing file reserves at creation, and the maximum that it reserves per step.
FIRST_STEP_BYTES: Final = PAGE
MAX_STEP_BYTES: Final = 1 << 20
# A file with no more data than this after its load is read in single pages.
FEW_BYTES: Final = 1 << 16
LONG_WRITE: Final = 8 << 10
NOWHERE: Final = 1 << 63
_RETAINED, _REMOVE, _FILL_UP = range(3)
# For each file: name, length in bytes, action of load() (_RETAINED, _REMOVE, _FILL_UP).
Survey = list[tuple[str, int, int]]


class MappedFile:
    """One file of fixed length.

    ``written`` and ``flushed`` are positions within the file: the end of the data, and the end of
    the part that is known to be on the disk. Data of ``long_write`` bytes or more is written by a
    system call, which then is faster than the faults of a mapping, one per page. ``octets``:
    ``view`` as numpy array once a compiled loop has read it, else None.
    """

    long_write = LONG_WRITE

    __slots__ = (
        "_descriptor_lock",
        "_fd",
        "_gone",
        "_mapping",
        "_single_from",
        "_view",
        "disk",
        "flushed",
        "keep_open",
        "limit",
        "named",
        "octets",
        "path",
        "reserved",
        "size",
        "start",
        "written",
    )

    def __init__(self, disk: Disk, folder: str, start: int, size: int) -> None:
        self.path = os.path.join(folder, file_name(start))
        self.start = start
        self.size = size
        self.written = self.flushed = 0
        self.keep_open = False
        self.limit: MappedFileLimit | None = None
        # Position up to which the file's space is known to be reserved. Writing past it could hit
        # a hole, which a full disk answers with SIGBUS.
        self.reserved = 0
        self.disk = disk
        self._fd = -1
        # The flushing thread may close the descriptor while the appending one writes with it or
        # closes it: the call would use another file that has got the same number.
        self._descriptor_lock = threading.Lock()
        self._mapping: Mapping | None = None
        self._view: memoryview | None = None
        self.octets: Any = None
        self._gone = False
        # Position from which on single pages are read, -1: read-ahead.
        self._single_from = -1
        # Whether the file's directory entry is known to be on the disk.
        self.named = True

    @property
    def end(self) -> int:
        """Position in the whole range after the file's data."""
        return self.start + self.written

    @property
    def mapping(self) -> Mapping:
        """The file's mapped memory, mapped at first use."""
        mapping = self._mapping
        return mapping if mapping is not None else self._open()

    @property
    def view(self) -> memoryview:
        """A read-only view of the mapped memory, for slices without copying."""
        view = self._view
        if view is None:
            view = self._view = memoryview(self.mapping).toreadonly()
        return view

    def create(self, reserved: int = -1) -> "MappedFile":
        """Create the file and reserve its first ``reserved`` bytes, by default all of them.

        If this fails (DiskFullError), the file is removed.
        """
        end = self.size if reserved < 0 else min(reserved, self.size)
        fd = self.disk.open(self.path, create=True)
        try:
            if end < self.size:
                # Before the reservation: a kill in between leaves a file of the right length.
                self.disk.set_size(fd, self.size, self.path)
            self.disk.reserve(fd, end, self.path)
        except BaseException:
            self.disk.close(fd)
            self.disk.unlink(self.path)
            raise
        self.reserved = end
        self.named = False
        self._map(fd)
        if end < self.size:
            self.expect_writes()  # else the first unit of a queue reads zeros of a whole file
        return self

    def reserve(self) -> None:
        """Reserve the whole file, so that no write can hit a hole (Java's files are sparse)."""
        self._reserve_to(self.size)

    def reserve_ahead(self, end: int) -> None:
        """Reserve space at least up to ``end`` unless it is reserved, in growing steps.

        Java creates sparse files of full length and writes into their holes, which a full disk
        answers with SIGBUS. Reserving the whole file at creation costs 6 MB of disk per queue,
        however few messages it gets. So the space grows with the queue: one page at creation, then
        it doubles with each step; a step is at most 1 MiB unless ``end`` needs more.
        """
        if end > self.reserved:
            step = min(max(self.reserved, FIRST_STEP_BYTES), MAX_STEP_BYTES)
            self._reserve_to(min(self.size, max(-(-end // PAGE) * PAGE, self.reserved + step)))

    def _reserve_to(self, end: int) -> None:
        if end > self.reserved:
            self._reserve(self.reserved, end)
            self.reserved = end

    def _reserve(self, start: int, end: int) -> None:
        # Not self._fd: another thread may be syncing the file and may close that descriptor.
        fd = self.disk.open(self.path)
        try:
            self.disk.reserve(fd, end, self.path, start=start)
        finally:
            self.disk.close(fd)

    def write(self, position: int, data: bytes | bytearray | memoryview) -> None:
        """Write ``data`` into reserved space: long data by a system call, which faults no pages."""
        size = len(data)
        if size >= self.long_write:
            with self._descriptor_lock:
                if self._fd >= 0:
                    try:
                        self.disk.write_at(self._fd, data, position)
                        return
                    except OSError as error:
                        _log.debug("%s: written through the mapping: %s", self.path, error)
        self.mapping[position : position + size] = data

    def expect_writes(self, start: int = 0) -> None:
        """Let faults from ``start`` on read no zeros ahead, up to 40 ms with 8 MiB of read-ahead.

        A sync then writes changed pages only, else 64 KiB for a record of 1 KiB.
        """
        if self._single_from < 0:
            self._single_from = start // PAGE * PAGE
            self._expect_single_pages()

    def expect_reads(self) -> None:
        """Undo :meth:`expect_writes`."""
        if self._single_from >= 0:
            self._single_from = -1
            self._advise(self.disk.expect_reads)

    def _expect_single_pages(self) -> None:
        start = self._single_from
        if 0 <= start < self.size:
            self._advise(lambda mapping: self.disk.expect_single_pages(mapping, start))

    def load_pages(self, start: int, end: int) -> None:
        """Load the pages of a part of reserved space for writing; both are multiples of the page.

        The first write to a page else takes a fault, about 8 us on a virtual machine.
        """
        self._advise(lambda mapping: self.disk.load_pages(mapping, start, end))

    def _advise(self, advise: Callable[[Mapping], None]) -> None:
        """Give advice about the mapping; without it the file works as well, only slower."""
        try:
            if self._mapping is not None:
                advise(self._mapping)
        except (OSError, ValueError) as error:  # ValueError: another thread has closed the file
            _log.debug("%s: no advice about the mapping: %s", self.path, error)

    def sync(self) -> None:
        """Wait until everything written before this call is on the disk; OSError if that fails.

        The first sync of a new file also syncs its folder, and thereby its directory entry.
        """
        end = self.written  # read before the sync, which need not cover later writes
        try:
            self._sync()
        except (OSError, StoreError):
            # Another thread may remove a file after this thread has selected it for a flush.
            if not self._gone:
                raise
        self.flushed = max(self.flushed, end)
        if self.flushed == self.size:
            # A full file is not written again.
            self.release_descriptor()
            self.expect_reads()

    def _sync(self) -> None:
        fd = self._fd
        if fd >= 0:
            self.disk.sync_data(fd)
        else:
            fd = self.disk.open(self.path)
            try:
                self.disk.sync_data(fd)
            finally:
                self.disk.close(fd)
        if not self.named:
            self.disk.sync_folder(os.path.dirname(self.path))
            self.named = True

    def page_out(self) -> None:
        """Drop the file's pages from the process's resident set; they stay in the page cache."""
        if self._mapping is not None:
            self.disk.page_out(self._mapping)

    def rewrite(self) -> None:
        """Rewrite one byte of each page in place, so that the next sync writes the whole file.

        This includes pages of zeros: the disk may still hold older data that was erased there.
        """
        mapping = self.mapping
        for start, end in list(self.disk.stored_ranges(self.path)):
            self._reserve_to(min(end, self.size))
            for position in range(start - start % PAGE, min(end, self.size), PAGE):
                mapping[position] = mapping[position]

    def data_end(self) -> int:
        """Position after the last byte that the file system stores data for; a hole follows.

        A search for the end of the data must not read past it: on tmpfs a read fault in a hole
        allocates a page, and raises SIGBUS when tmpfs is full.
        """
        ranges = list(self.disk.stored_ranges(self.path))
        return min(ranges[-1][1], self.size) if ranges else 0

    def search_end(self) -> int:
        """Return :meth:`data_end`; a file of few bytes is then read in single pages.

        A read fault reads ahead on both sides, in holes too: with 8 MiB of read-ahead 2.7 ms of
        processor time per queue of one unit, with single pages 0.08 ms.
        """
        end = self.data_end()
        if 0 < end <= FEW_BYTES:
            self.expect_writes()
        return end

    def clear_after(self, position: int) -> None:
        """Overwrite everything from ``position`` on with zeros; ranges of zeros are not written."""
        mapping = self.mapping
        start, end = self.disk.next_data(self.path, position)
        while start >= 0:
            end = min(end, self.size)
            # Not the holes before it: a full disk must not prevent this.
            self._reserve(start, end)
            mapping[start:end] = bytes(end - start)
            self.page_out()
            start, end = self.disk.next_data(self.path, end)

    def close(self) -> None:
        """Release the mapping and the descriptor; readers' slices keep the memory alive."""
        view, self._view, self.octets = self._view, None, None
        mapping, self._mapping = self._mapping, None
        try:
            if view is not None:
                view.release()
            if mapping is not None:
                self.disk.unmap(mapping)
        except BufferError:
            pass  # a reader still holds a slice; the memory is unmapped with the last one
        self.release_descriptor()

    def release_descriptor(self) -> None:
        """Close the descriptor kept for syncs; a later sync reopens the file."""
        with self._descriptor_lock:
            fd, self._fd = self._fd, -1
        if fd >= 0:
            self.disk.close(fd)

    def destroy(self) -> None:
        """Remove the file; readers' slices stay valid. After an OSError it exists and is open."""
        self._gone = True
        try:
            self.disk.unlink(self.path)
        except BaseException:
            self._gone = False
            raise
        self.close()

    def release_mapping(self) -> None:
        """Forget the mapping; the next use maps the file again.

        Another thread may still use the old one, which shows the same bytes of the page cache.
        """
        self._view = self._mapping = self.octets = None

    def _open(self) -> Mapping:
        mapping = self._map(self.disk.open(self.path))
        self._expect_single_pages()
        return mapping

    def _map(self, fd: int) -> Mapping:
        """Map the file; keep the descriptor only with ``keep_open``.

        Before Python 3.13 a mapping has its own (see ``Disk.map``): two per queue are too many.
        """
        try:
            mapping = self._mapping = self.disk.map(fd, self.size)
        except BaseException:
            self.disk.close(fd)
            raise
        if self.keep_open and self._fd < 0:
            self._fd = fd
        else:
            self.disk.close(fd)
        if self.limit is not None:
            self.limit.add(self)
        return mapping


class MappedFileQueue:
    """The files of one folder, oldest first, all of ``file_size`` bytes.

    With ``reserve_ahead`` a new file reserves its first page only; a writer must call
    :meth:`MappedFile.reserve_ahead` before each write. ``limit`` counts the mapped files.
    """

    __slots__ = (
        "_keep_open",
        "_limit",
        "_reserve_ahead",
        "broken",
        "disk",
        "file_size",
        "files",
        "folder",
        "hollow",
        "removed",
        "short",
        "short_from",
        "surveyed",
    )

    def __init__(
        self,
        disk: Disk,
        folder: str,
        file_size: int,
        *,
        keep_open: bool = False,
        reserve_ahead: bool = False,
        limit: MappedFileLimit | None = None,
    ) -> None:
        self.disk = disk
        self.folder = folder
        self.file_size = file_size
        self.files: list[MappedFile] = []
        # Whether files at the end were removed since the folder was last synced.
        self.removed = False
        # First position whose data was lost because a file had been shortened; NOWHERE: none.
        self.short_from = NOWHERE
        self.surveyed: Survey | None = None
        # short: load() will fill up a file. broken: short, or a file in the sequence is missing.
        self.short = self.broken = False
        # Whether load() will remove a file (empty or only zeros), or the folder has no files.
        self.hollow = False
        self._keep_open, self._reserve_ahead = keep_open, reserve_ahead
        self._limit = limit

    def load(self, *, crashed: bool = False, notes: list[str] | None = None) -> None:
        """Open the files of the folder; recovery sets the data positions.

        Performs the actions that :meth:`survey` decided: empty files are removed, short files are
        filled up with zeros. Each action is reported in ``notes``.

        **Source:** RocketMQ MappedFileQueue#load, #doLoad (5.x rules).
        """
        survey = self.surveyed if self.surveyed is not None else self.survey(crashed=crashed)
        self.surveyed = None
        reported = notes if notes is not None else []
        self.files = []
        self.short_from = NOWHERE
        for name, length, action in survey:
            path = os.path.join(self.folder, name)
            if action == _REMOVE:
                state = "empty" if not length else f"{length} bytes of zeros"
                reported.append(f"{path}: {state}, removed")
                self.disk.unlink(path)
                continue
            start = file_start(name)
            assert start is not None
            if action == _FILL_UP:
                reported.append(
                    f"{path}: {length} bytes long, filled up with zeros to {self.file_size}:"
                    f" data from {start + length} is lost"
                )
                self.short_from = min(self.short_from, start + length)
                self._fill_up(path)
            file = self._new(start)
            # A killed process may not have synced the folder: the first sync must cover it.
            file.named = not crashed
            self.files.append(file)

    def survey(self, *, crashed: bool = False, known: bool = False) -> Survey:
        """Decide which action :meth:`load` takes for each file; changes nothing.

        StoreError for an unexpected file name or length. An empty file is removed: a kill between
        creation and growth leaves an empty last file, and any other empty file has no data either.
        A short file is filled up with zeros if ``file_size`` is known to be right: from the length
        of another file, from the distance between two file names, or from the caller (``known``).
        Otherwise the setting may be wrong. After a crash (``crashed``) a short file of zeros only
        is removed: a power cut can lose unsynced changes, including the length of a new file.
        """
        names = list_files(self.disk, self.folder)
        lengths = {name: self.disk.size(os.path.join(self.folder, name)) for name in names}
        starts = [start for name in names if (start := file_start(name)) is not None]
        known = (
            known
            or self.file_size in lengths.values()
            or any(after - before == self.file_size for before, after in pairwise(starts))
        )
        survey: Survey = []
        for position, name in enumerate(names):
            path = os.path.join(self.folder, name)
            length = lengths[name]
            start = file_start(name)
            if length == 0 and (start is not None or position == len(names) - 1):
                survey.append((name, length, _REMOVE))
            elif start is None:
                raise StoreError(
                    f"{path}: not the name of a store file",
                    "move it out of this folder",
                    path=path,
                )
            elif length == self.file_size:
                survey.append((name, length, _RETAINED))
            elif crashed and length < self.file_size and not any(self.disk.read(path)):
                survey.append((name, length, _REMOVE))
            elif known and length < self.file_size:
                survey.append((name, length, _FILL_UP))
            else:
                raise StoreError(
                    f"{path}: {length} bytes long, files here have {self.file_size}",
                    "set the file size in broker.conf to the one of the files, or restore the file",
                    path=path,
                )
        kept = [file_start(name) or 0 for name, _, action in survey if action != _REMOVE]
        self.hollow = not kept or len(kept) < len(survey)
        self.short = any(action == _FILL_UP for _, _, action in survey)
        self.broken = self.short or any(
            after - before != self.file_size for before, after in pairwise(kept)
        )
        self.surveyed = survey
        return survey

    def _fill_up(self, path: str) -> None:
        fd = self.disk.open(path)
        try:
            self.disk.set_size(fd, self.file_size, path)
        finally:
            self.disk.close(fd)

    def cut_at_gap(self) -> str:
        """Remove the files after the first missing one; return the path of that one, or empty."""
        first = self.files[0].start // self.file_size * self.file_size if self.files else 0
        for number, file in enumerate(list(self.files)):
            if file.start != first + number * self.file_size:
                while len(self.files) > number:
                    self.remove_last()
                return os.path.join(self.folder, file_name(first + number * self.file_size))
        return ""

    def detect_size(self) -> int:
        """Length of the folder's files; 0 without files or if the length cannot be determined.

        If the lengths differ, the smallest distance between two file names counts, provided that
        it is also the largest length: a damaged file may have been shortened.
        """
        lengths: dict[int, int] = {}
        for name, is_folder in self.disk.list(self.folder):
            start = file_start(name)
            if not is_folder and start is not None:
                lengths[start] = self.disk.size(os.path.join(self.folder, name))
        found = set(lengths.values()) - {0}
        if len(found) == 1:
            return found.pop()
        steps = {after - before for before, after in pairwise(sorted(lengths))}
        step = min(steps, default=0)
        return step if step in found and step == max(found) else 0

    def find(self, position: int) -> MappedFile | None:
        """The file that contains ``position``, None if there is none."""
        files = self.files
        if not files:
            return None
        number = (position - files[0].start) // self.file_size
        if 0 <= number < len(files):
            file = files[number]
            if file.start <= position < file.start + self.file_size:
                return file
        # A file in the sequence is missing, so that the index does not follow from the position.
        for file in files:
            if file.start <= position < file.start + self.file_size:
                return file
        return None

    def create(self, start: int) -> MappedFile:
        """Create the file that starts at ``start`` and append it to ``files``."""
        if not self.files:
            self.disk.make_folder(self.folder)
        file = self._new(start).create(FIRST_STEP_BYTES if self._reserve_ahead else -1)
        self.files.append(file)
        return file

    def prepare(self, start: int) -> MappedFile:
        """Create the file that starts at ``start`` without appending it to ``files``."""
        self.disk.make_folder(self.folder)
        return self._new(start).create()

    def truncate(self, position: int) -> None:
        """Set the end of the data: files past it are removed, bytes past it stay unchanged.

        **Source:** RocketMQ MappedFileQueue#truncateDirtyFiles.
        """
        kept: list[MappedFile] = []
        for file in self.files:
            if file.start > position or (file.start == position and kept):
                file.destroy()
                self.removed = True
                continue
            file.written = file.flushed = min(self.file_size, position - file.start)
            kept.append(file)
        self.files = kept

    def remove_first(self) -> None:
        """Remove the oldest file."""
        self.files[0].destroy()
        self.files.pop(0)

    def remove_last(self) -> None:
        """Remove the newest file."""
        self.files[-1].destroy()
        self.files.pop()
        self.removed = True

    def finalise_removed(self) -> None:
        """Sync the folder after removals at the end: a power cut must not bring the files back."""
        if self.removed:
            self.removed = False
            if self.disk.exists(self.folder):
                self.disk.sync_folder(self.folder)

    def close(self) -> None:
        """Close all files."""
        for file in self.files:
            file.close()

    def destroy(self) -> None:
        """Remove all files and the folder."""
        while self.files:
            self.remove_last()
        self.disk.remove_folder(self.folder)

    def _new(self, start: int) -> MappedFile:
        file = MappedFile(self.disk, self.folder, start, self.file_size)
        file.keep_open, file.limit = self._keep_open, self._limit
        return file
