"""MappedFile and MappedFileQueue: files of one fixed length in a row, stored to through memory.

A queue of files is one long range of bytes; each file is named after the position of its first
byte. A file's space is reserved when it is created or before it is written again, then mapped.
Views handed to readers keep a file's memory alive after the file has been deleted: the mapping
goes when the last of them goes.

**Source:** RocketMQ DefaultMappedFile, MappedFileQueue.
"""

import os
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Final

from broker.errors import DiskFullError, StoreError
from broker.store.files import Disk, Mapping
from broker.store.format.commitlog import file_name, file_start

PAGE: Final = 4096
NOWHERE: Final = 1 << 63
_KEEP, _REMOVE, _FILL_UP = range(3)
# Of each file: name, length, what a load does with it.
Survey = list[tuple[str, int, int]]


class MappedFile:
    """One file of fixed length.

    ``written`` and ``flushed`` are positions within the file: the end of the data, and of the part
    of it known to be on the disk.
    """

    __slots__ = (
        "_disk",
        "_fd",
        "_gone",
        "_mapping",
        "_reserved",
        "_view",
        "flushed",
        "keep_open",
        "named",
        "path",
        "size",
        "start",
        "written",
    )

    def __init__(self, disk: Disk, folder: str, start: int, size: int) -> None:
        self.path = os.path.join(folder, file_name(start))
        self.start = start
        self.size = size
        self.written = 0
        self.flushed = 0
        self.keep_open = False
        self._disk = disk
        self._fd = -1
        self._mapping: Mapping | None = None
        self._view: memoryview | None = None
        self._reserved = False
        self._gone = False
        # Whether the file's name is known to be on the disk too.
        self.named = True

    @property
    def end(self) -> int:
        """Position in the whole range behind the file's data."""
        return self.start + self.written

    @property
    def mapping(self) -> Mapping:
        """The file's memory, mapped at first use."""
        if self._mapping is None:
            self._open()
        assert self._mapping is not None
        return self._mapping

    @property
    def view(self) -> memoryview:
        """The file's memory to cut slices from without copying; for reading only."""
        if self._view is None:
            self._view = memoryview(self.mapping).toreadonly()
        return self._view

    def create(self) -> "MappedFile":
        """Make the file, all its space reserved; DiskFullError leaves nothing behind."""
        fd = self._disk.open(self.path, create=True)
        try:
            self._disk.reserve(fd, self.size, self.path)
        except BaseException:
            self._disk.close(fd)
            self._disk.unlink(self.path)
            raise
        self._fd = fd
        self._reserved = True
        self.named = False
        self._open()
        return self

    def reserve(self) -> None:
        """Make sure that storing into the file cannot hit a hole (files of Java are sparse)."""
        if not self._reserved:
            if self._fd < 0:
                self._fd = self._disk.open(self.path)
            self._disk.reserve(self._fd, self.size, self.path)
            self._reserved = True
            self._release_fd()

    def sync(self) -> None:
        """Wait until everything stored before this call is on the disk; OSError if it fails.

        The first sync of a new file covers its name in the folder too.
        """
        end = self.written
        try:
            self._sync()
        except (OSError, StoreError):
            # Another thread may remove a file that this one has just picked for a flush.
            if not self._gone:
                raise
        self.flushed = max(self.flushed, end)

    def _sync(self) -> None:
        fd = self._fd
        if fd >= 0:
            self._disk.sync_data(fd)
        else:
            fd = self._disk.open(self.path)
            try:
                self._disk.sync_data(fd)
            finally:
                self._disk.close(fd)
        if not self.named:
            self._disk.sync_folder(os.path.dirname(self.path))
            self.named = True

    def page_out(self) -> None:
        """Take the file's pages off this process's memory, where they are not needed soon."""
        if self._mapping is not None:
            self._disk.page_out(self._mapping)

    def rewrite(self) -> None:
        """Store a byte of each page over itself, so that the next sync writes all of the file."""
        self.reserve()
        mapping = self.mapping
        for position in range(0, self.size, PAGE):
            mapping[position] = mapping[position]

    def clear_behind(self, position: int) -> None:
        """Make everything from ``position`` on zeros; what is zeros already is not stored to."""
        mapping = self.mapping
        start, end = self._disk.next_data(self.path, position)
        while start >= 0:
            self.reserve()
            end = min(end, self.size)
            mapping[start:end] = bytes(end - start)
            start, end = self._disk.next_data(self.path, end)

    def close(self) -> None:
        """Let go of the memory and the descriptor; readers' slices keep the memory alive."""
        view, self._view = self._view, None
        mapping, self._mapping = self._mapping, None
        try:
            if view is not None:
                view.release()
            if mapping is not None:
                self._disk.unmap(mapping)
        except BufferError:
            pass  # a reader still holds a slice; the memory goes with the last one
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1

    def destroy(self) -> None:
        """Remove the file; readers' slices stay valid. OSError: it is still there, and open."""
        self._gone = True
        try:
            self._disk.unlink(self.path)
        except BaseException:
            self._gone = False
            raise
        self.close()

    def _open(self) -> None:
        if self._fd < 0:
            self._fd = self._disk.open(self.path)
        self._mapping = self._disk.map(self._fd, self.size)
        self._release_fd()

    def _release_fd(self) -> None:
        # A mapping holds a descriptor of its own; thousands of queues should not hold two each.
        if not self.keep_open and self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1


class MappedFileQueue:
    """The files of one folder, oldest first, all of ``file_size`` bytes."""

    def __init__(self, disk: Disk, folder: str, file_size: int, *, keep_open: bool = False) -> None:
        self.disk = disk
        self.folder = folder
        self.file_size = file_size
        self.files: list[MappedFile] = []
        # Whether files were removed at the end since the folder was last synced.
        self.removed = False
        # Position from which on a file was found shorter than it had been.
        self.short_from = NOWHERE
        self.surveyed: Survey | None = None
        # Whether the load will fill up a file; whether it does, or one is missing in the row.
        self.short = self.broken = False
        # Whether there was an empty file, or none at all.
        self.hollow = False
        self._keep_open = keep_open

    def load(self, *, crashed: bool = False, notes: list[str] | None = None) -> None:
        """Find the files of the folder; data positions are left to recovery.

        What :meth:`survey` has found is done: empty files are removed, short ones filled up with
        zeros. Each is told in ``notes``.

        **Source:** RocketMQ MappedFileQueue#load, #doLoad (5.x rules).
        """
        survey = self.surveyed if self.surveyed is not None else self.survey(crashed=crashed)
        self.surveyed = None
        told = notes if notes is not None else []
        self.files = []
        self.short_from = NOWHERE
        for name, length, action in survey:
            path = os.path.join(self.folder, name)
            if action == _REMOVE:
                what = "empty" if not length else f"{length} bytes of zeros"
                told.append(f"{path}: {what}, removed")
                self.disk.unlink(path)
                continue
            start = file_start(name)
            assert start is not None
            if action == _FILL_UP:
                told.append(
                    f"{path}: {length} bytes long, filled up with zeros to {self.file_size}: what"
                    f" stood from {start + length} on is lost"
                )
                self.short_from = min(self.short_from, start + length)
                self._fill_up(path)
            file = self._new(start)
            # Nobody knows what a killed process has synced: the first sync covers the name too.
            file.named = not crashed
            self.files.append(file)

    def survey(self, *, crashed: bool = False, known: bool = False) -> Survey:
        """Look at the folder and decide what :meth:`load` does with each file; changes nothing.

        StoreError for a name or a length that does not belong there. An empty file is removed: the
        last one is what a kill between creation and growth leaves, another one holds nothing. A
        short file is filled up with zeros if the length is known not to be the setting's fault:
        by its neighbours, by their names, or by the caller (``known``). After a power cut
        (``crashed``) one of zeros alone is removed: what was never synced may be lost, the length
        of a new file too.
        """
        names = [name for name, is_folder in self.disk.list(self.folder) if not is_folder]
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
                survey.append((name, length, _KEEP))
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
            self.disk.reserve(fd, self.file_size, path)
        finally:
            self.disk.close(fd)

    def cut_at_gap(self) -> str:
        """Remove the files behind the first one that is missing in the row; its path, or empty."""
        for number, (before, after) in enumerate(pairwise(list(self.files))):
            if after.start != before.start + self.file_size:
                while len(self.files) > number + 1:
                    self.remove_last()
                return os.path.join(self.folder, file_name(before.start + self.file_size))
        return ""

    def detect_size(self) -> int:
        """Length of the folder's files, 0 if there are none or they do not tell.

        Files that follow each other tell by their names, whatever has become of their lengths.
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
        """The file that holds ``position``, None if there is none."""
        files = self.files
        if not files:
            return None
        number = (position - files[0].start) // self.file_size
        if 0 <= number < len(files):
            file = files[number]
            if file.start <= position < file.start + self.file_size:
                return file
        # A hole in the row of names: the arithmetic fails, looking does not.
        for file in files:
            if file.start <= position < file.start + self.file_size:
                return file
        return None

    def create(self, start: int) -> MappedFile:
        """Make the file that begins at ``start`` and put it at the end of the row."""
        if not self.files:
            self.disk.make_folder(self.folder)
        file = self._new(start).create()
        self.files.append(file)
        return file

    def prepare(self, start: int) -> MappedFile:
        """Make the file that begins at ``start`` without adding it to the row."""
        self.disk.make_folder(self.folder)
        return self._new(start).create()

    def truncate(self, position: int) -> None:
        """Set the end of the data: files behind it are removed, bytes behind it stay as they are.

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
        self.files.pop().destroy()
        self.removed = True

    def settle_removed(self) -> None:
        """See to it that files removed at the end do not come back with a power cut."""
        if self.removed:
            self.removed = False
            if self.disk.exists(self.folder):
                self.disk.sync_folder(self.folder)

    def close(self) -> None:
        """Let go of all files."""
        for file in self.files:
            file.close()

    def destroy(self) -> None:
        """Remove all files and the folder."""
        for file in self.files:
            file.destroy()
        self.files = []
        self.disk.remove_folder(self.folder)

    def _new(self, start: int) -> MappedFile:
        file = MappedFile(self.disk, self.folder, start, self.file_size)
        file.keep_open = self._keep_open
        return file


class FilePreparer:
    """Creates the file after the current one ahead of time, on another thread.

    ``run`` hands a job to that thread. :meth:`take` gives the prepared file if it is the one
    wanted and ready, and creates it in place otherwise.

    **Source:** RocketMQ AllocateMappedFileService.
    """

    def __init__(self, queue: MappedFileQueue, run: Callable[[Callable[[], None]], None]) -> None:
        self._queue = queue
        self._run = run
        self._lock = threading.Lock()
        self._wanted = -1
        self._ready: MappedFile | None = None

    def request(self, start: int) -> None:
        """Ask for the file that begins at ``start``."""
        self._wanted = start
        self._run(self._prepare)

    def take(self, start: int) -> MappedFile:
        """The file that begins at ``start``; DiskFullError when there is no space for it."""
        with self._lock:
            file, self._ready = self._ready, None
            self._wanted = -1
            if file is not None and file.start != start:
                file.destroy()
                file = None
        return file if file is not None else self._queue.prepare(start)

    def discard(self) -> None:
        """Remove a file that was prepared and never used."""
        with self._lock:
            self._wanted = -1
            if self._ready is not None:
                self._ready.destroy()
                self._ready = None

    def _prepare(self) -> None:
        with self._lock:
            start = self._wanted
            if start < 0 or self._ready is not None:
                return
            file = None
            try:
                file = self._queue.prepare(start)
                # The journal work of the new file is done here, not in somebody's first flush.
                file.sync()
            except (DiskFullError, StoreError, OSError):
                # The writer will meet the same error when it needs the file, and report it.
                if file is not None:
                    file.destroy()
                return
            self._ready = file
