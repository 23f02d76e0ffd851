"""A disk in memory that remembers every change of every sector, so that power can be cut anywhere.

::

    page cache   one bytearray per file: the engine maps it and stores to it
    journal      everything that changed, in order: sectors, lengths, names, syncs, marks
    image(k)     possible content of a disk if power is cut after journal entry k: all that was
                 synced before, and any subset of the rest, sector by sector, any version of each

Names are as loose as POSIX allows: creating, renaming and removing count only after the folder
was synced; before it, any number of a folder's first changes may have happened. Stores through a
mapping cannot be seen, so a trace function compares mapped files after every line of the engine.
"""

import errno
import hashlib
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from broker.errors import DiskFullError, StoreError, StoreLockedError
from broker.store.logfile.disk import Disk
from broker.store.logfile.page_reader import PageReader

SECTOR = 512
BLOCK = 4096  # unit of allocation: a block with data has no hole
# Files are as old as a simulated broker: those from 1970 would have expired.
CREATED_MS = 1_700_000_000_000
# Numbers of files, never used twice: an image of a disk shares them with files created later.
_inode_numbers = itertools.count(11)


class Inode:
    """One file: its content in the page cache, and the content that the journal has recorded."""

    def __init__(self, number: int, data: bytes = b"") -> None:
        self.number = number
        self.data = bytearray(data)
        self.seen = bytes(data)
        self.modified_ms = CREATED_MS
        # The end of the allocated space: a hole follows.
        self.reserved = min(len(data), -(-len(data.rstrip(b"\0")) // BLOCK) * BLOCK)


class SimLock:
    def __init__(self, disk: "SimDisk") -> None:
        self._disk = disk

    def release(self) -> None:
        self._disk.locked = False

    def lost(self) -> str:
        """Nobody takes the lock file away."""
        return ""


class SimDisk(Disk):
    """The engine's door to files that are not there.

    ``fail`` is asked before every call that can fail: ``fail(name, path)`` raises, or returns.
    ``on_call`` is called where the interpreter lock would be given up: before each call, and after
    a sync. ``on_sync`` is called while a sync lasts. ``capacity`` bounds the bytes that can be
    reserved.
    """

    def __init__(self, boot: str = "boot-1") -> None:
        self.boot = boot
        self.folders: dict[str, dict[str, int]] = {"/": {}}
        self.folder_ids = {"/": 0}
        self.inodes: dict[int, Inode] = {}
        self.journal: list[tuple[Any, ...]] = []
        self.recording = False
        self.locked = False
        self.capacity = 1 << 40
        self.fail: Callable[[str, str], None] | None = None
        self.on_call: Callable[[], None] | None = None
        self.on_sync: Callable[[], None] | None = None
        self.calls: Counter[str] = Counter()
        self._open: dict[int, tuple[int, str]] = {}
        self._mapped: dict[int, Inode] = {}
        self._fd = 100

    def copy(self, boot: str = "") -> "SimDisk":
        """The same names and contents, without locks and open files; nothing is recorded."""
        other = SimDisk(boot or self.boot)
        other.folders = {path: dict(names) for path, names in self.folders.items()}
        other.folder_ids = dict(self.folder_ids)
        other.inodes = {
            number: Inode(number, bytes(inode.data)) for number, inode in self.inodes.items()
        }
        return other

    # --- journal ------------------------------------------------------------------------------

    def mark(self, *entry: Any) -> None:
        """Note something of the test's own at this point of time."""
        self.capture()
        self.journal.append(("mark", *entry))

    @property
    def journal_marks(self) -> list[tuple[Any, ...]]:
        """The marks noted so far."""
        return [entry[1:] for entry in self.journal if entry[0] == "mark"]

    def capture(self) -> None:
        """Record the changes of the files since the last call."""
        if not self.recording:
            return
        changed = [inode for inode in self._mapped.values() if inode.data != inode.seen]
        for inode in changed:
            self._changed(inode)
        if changed:
            # Between the entries of one look no process was ever killed.
            self.journal.append(("seen",))

    def _changed(self, inode: Inode) -> None:
        now = bytes(inode.data)
        before = inode.seen
        if len(now) != len(before):
            self.journal.append(("size", inode.number, len(now)))
            before = before[: len(now)].ljust(len(now), b"\0")
        for start in range(0, len(now), SECTOR):
            if now[start : start + SECTOR] != before[start : start + SECTOR]:
                assert start < inode.reserved, "stored into a hole, that may be a SIGBUS"
                self.journal.append(
                    ("write", inode.number, start // SECTOR, now[start : start + SECTOR])
                )
        inode.seen = now

    def note_rewrite(self, path: str) -> None:
        """Note that every byte of a file was stored over itself: no comparison shows that."""
        self.capture()
        inode = self.inode_of(path)
        for start in range(0, len(inode.data), SECTOR):
            data = bytes(inode.data[start : start + SECTOR])
            self._note("write", inode.number, start // SECTOR, data)

    def _touch(self, inode: Inode) -> None:
        if self.recording:
            self._changed(inode)
        else:
            inode.seen = bytes(inode.data)

    def _note(self, *entry: Any) -> None:
        if self.recording:
            self.journal.append(entry)

    def _enter(self, name: str, path: str) -> None:
        self.capture()
        self.calls[name] += 1
        if self.on_call is not None:
            self.on_call()
            self.capture()
        if self.fail is not None:
            self.fail(name, path)

    # --- names --------------------------------------------------------------------------------

    def _folder(self, path: str) -> dict[str, int]:
        return self.folders[path]

    def inode_of(self, path: str) -> Inode:
        folder, _, name = path.rpartition("/")
        try:
            return self.inodes[self.folders[folder][name]]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", path) from None

    def _bind(self, path: str, number: int) -> None:
        folder, _, name = path.rpartition("/")
        if folder not in self.folders:
            raise StoreError(f"{path}: no such folder", path=path)
        self.folders[folder][name] = number
        self._note("bind", self.folder_ids[folder], name, number)

    def _unbind(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        del self.folders[folder][name]
        self._note("unbind", self.folder_ids[folder], name)

    # --- the door -----------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> int:
        self._enter("open", path)
        folder, _, name = path.rpartition("/")
        number = self.folders.get(folder, {}).get(name)
        if number is None:
            if not create:
                raise StoreError(f"{path}: no such file", path=path)
            number = next(_inode_numbers)
            self.inodes[number] = Inode(number)
            self._bind(path, number)
        self._fd += 1
        self._open[self._fd] = (number, path)
        return self._fd

    def close(self, fd: int) -> None:
        self.capture()
        del self._open[fd]

    def set_size(self, fd: int, length: int, path: str) -> None:
        self._enter("set_size", path)
        inode = self.inodes[self._open[fd][0]]
        inode.data.extend(bytes(length - len(inode.data)))
        self._touch(inode)

    def reserve(self, fd: int, length: int, path: str, *, start: int = 0) -> None:
        self._enter("reserve", path)
        number, _ = self._open[fd]
        inode = self.inodes[number]
        missing = length - inode.reserved
        if missing > 0:
            if missing > self.free():
                raise DiskFullError(f"{path}: No space left on device", path=path)
            inode.reserved = length
            inode.data.extend(bytes(max(0, length - len(inode.data))))
            self._touch(inode)

    def free(self) -> int:
        named = {number for names in self.folders.values() for number in names.values()}
        return self.capacity - sum(self.inodes[number].reserved for number in named)

    def map(self, fd: int, length: int) -> bytearray:
        number, path = self._open[fd]
        self._enter("map", path)
        inode = self.inodes[number]
        assert len(inode.data) >= length, f"{path}: mapped beyond its end, that is a SIGBUS"
        self._mapped[number] = inode
        return inode.data

    def unmap(self, mapping: bytearray) -> None:
        self.capture()

    def page_reader(self, path: str) -> PageReader:
        return SimPageReader(self, self.open(path))

    def read_pages(self, fd: int, start: int, end: int) -> None:
        number, path = self._open[fd]
        self._enter("read_pages", path)
        assert 0 <= start < end <= len(self.inodes[number].data), f"{path}: read past its end"

    def sync_data(self, fd: int) -> None:
        number, path = self._open[fd]
        try:
            self._enter("sync_data", path)
        except OSError:
            # The kernel drops the pages that it could not write, or marks them as clean.
            self._note("forget", number)
            raise
        self._changed(self.inodes[number]) if self.recording else None
        self._note("sync", number)
        # Stores of other threads while the sync lasts, or later, are not part of it.
        if self.on_sync is not None:
            self.on_sync()
        if self.on_call is not None:
            self.on_call()

    def sync_folder(self, path: str) -> None:
        self._enter("sync_folder", path)
        self._note("syncdir", self.folder_ids[path])

    def read(self, path: str) -> bytes:
        self._enter("read", path)
        return bytes(self.inode_of(path).data)

    def write(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self._enter("write", path)
        folder, _, name = path.rpartition("/")
        number = self.folders[folder].get(name)
        if number is None:
            number = next(_inode_numbers)
            self.inodes[number] = Inode(number)
            self._bind(path, number)
        inode = self.inodes[number]
        if len(data) - len(inode.data) > self.free():
            raise DiskFullError(f"{path}: No space left on device", path=path)
        inode.data[:] = b""
        self._touch(inode)
        inode.data[:] = data
        inode.reserved = len(data)
        self._touch(inode)
        if sync:
            self._note("sync", number)

    def write_at(self, fd: int, data: bytes, position: int) -> None:
        number, path = self._open[fd]
        self._enter("write_at", path)
        inode = self.inodes[number]
        end = position + len(data)
        if end > len(inode.data):
            if end - len(inode.data) > self.free():
                raise DiskFullError(f"{path}: No space left on device", path=path)
            inode.data.extend(bytes(end - len(inode.data)))
        inode.data[position:end] = data
        inode.reserved = max(inode.reserved, end)
        self._touch(inode)

    def rename(self, source: str, target: str) -> None:
        self._enter("rename", source)
        folder, _, name = target.rpartition("/")
        old_folder, _, old_name = source.rpartition("/")
        assert folder == old_folder, "moves between folders are not simulated"
        number = self.folders[folder].pop(old_name)
        self.folders[folder][name] = number
        self._note("rename", self.folder_ids[folder], old_name, name)

    def link(self, source: str, target: str) -> None:
        self._enter("link", source)
        self._bind(target, self.inode_of(source).number)

    def unlink(self, path: str) -> None:
        self._enter("unlink", path)
        folder, _, name = path.rpartition("/")
        if name in self.folders.get(folder, {}):
            self._unbind(path)

    def make_folder(self, path: str) -> None:
        self._enter("make_folder", path)
        parent = path.rpartition("/")[0] or "/"
        if path not in self.folders:
            if parent != "/" and parent not in self.folders:
                self.make_folder(parent)
            self.folders[path] = {}
            self.folder_ids[path] = next(_inode_numbers)
            self._note("mkdir", self.folder_ids[parent], path, self.folder_ids[path])

    def remove_folder(self, path: str) -> None:
        self._enter("remove_folder", path)
        for folder in sorted(self.folders, reverse=True):
            if folder == path or folder.startswith(path + "/"):
                for name in list(self.folders[folder]):
                    self._unbind(f"{folder}/{name}")
                parent = folder.rpartition("/")[0] or "/"
                del self.folders[folder], self.folder_ids[folder]
                self._note("rmdir", self.folder_ids[parent], folder)

    def list(self, path: str) -> list[tuple[str, bool]]:
        names = dict.fromkeys(self.folders.get(path, {}), False)
        for folder in self.folders:
            if folder.rpartition("/")[0] == path and folder != path:
                names[folder.rpartition("/")[2]] = True
        return sorted(names.items())

    def exists(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return path in self.folders or name in self.folders.get(folder, {})

    def is_file(self, path: str) -> bool:
        folder, _, name = path.rpartition("/")
        return name in self.folders.get(folder, {})

    def size(self, path: str) -> int:
        return len(self.inode_of(path).data)

    def next_data(self, path: str, position: int) -> tuple[int, int]:
        data = self.inode_of(path).data
        rest = bytes(data[position:])
        skipped = len(rest) - len(rest.lstrip(b"\0"))
        return (-1, -1) if skipped == len(rest) else (position + skipped, len(data))

    def stored_ranges(self, path: str) -> Iterator[tuple[int, int]]:
        yield 0, self.inode_of(path).reserved

    def modified_ms(self, path: str) -> int:
        return self.inode_of(path).modified_ms

    def touch(self, path: str, time_ms: int) -> None:
        self.inode_of(path).modified_ms = time_ms

    def identity(self, path: str) -> tuple[int, int]:
        return (1, int.from_bytes(hashlib.blake2b(path.encode(), digest_size=4).digest(), "big"))

    def boot_id(self) -> str:
        return self.boot

    def space(self, path: str) -> tuple[int, int]:
        return 10, 90

    def lock(self, path: str) -> Any:
        self._enter("lock", path)
        if self.locked:
            raise StoreLockedError(f"{path}: locked", path=path)
        if not self.exists(path):
            self.write(path, b"lock", sync=False)
        self.locked = True
        return SimLock(self)


class SimPageReader(PageReader):
    """Its pages are slow: all that a broker may read ahead is read."""

    def __init__(self, disk: SimDisk, fd: int) -> None:
        self._disk = disk
        self._sim_fd = fd

    def read(self, start: int, end: int) -> int:
        self._disk.read_pages(self._sim_fd, start, end)
        return end - start << 20

    def close(self) -> None:
        self._disk.close(self._sim_fd)


# --- power cuts -------------------------------------------------------------------------------


class Cutter:
    """Replays a journal and builds, at each point, a disk as a restart may find it."""

    def __init__(self, journal: list[tuple[Any, ...]], base: SimDisk | None = None) -> None:
        self.journal = journal
        self.position = 0
        self.marks: list[tuple[Any, ...]] = []
        # Per file: the content certainly on disk, and versions of sectors that may be on it.
        self._durable: dict[int, bytearray] = {}
        self._pending: dict[int, dict[int, list[bytes]]] = {}
        self._sizes: dict[int, int] = {}
        self._disk_tree = _Tree()
        self._dir_pending: dict[int, list[tuple[Any, ...]]] = {}
        # Everything that happened, for a killed process.
        self._now: dict[int, bytearray] = {}
        self._now_tree = _Tree()
        if base is not None:
            for number, inode in base.inodes.items():
                self._durable[number] = bytearray(inode.data)
                self._now[number] = bytearray(inode.data)
                self._sizes[number] = len(inode.data)
            self._disk_tree = _Tree(base)
            self._now_tree = _Tree(base)

    def advance(self, position: int) -> None:
        """Take in the journal up to, not including, ``position``."""
        while self.position < position:
            entry = self.journal[self.position]
            getattr(self, "_do_" + entry[0])(*entry[1:])
            self.position += 1

    def _do_mark(self, *entry: Any) -> None:
        self.marks.append(entry)

    def _do_seen(self) -> None:
        pass

    def _do_size(self, number: int, size: int) -> None:
        self._sizes[number] = size
        now = self._now.setdefault(number, bytearray())
        del now[size:]
        now.extend(bytes(size - len(now)))
        if size == 0:
            # A truncation: pending writes are dropped, bytes on the disk may survive.
            self._pending.pop(number, None)

    def _do_write(self, number: int, sector: int, data: bytes) -> None:
        self._pending.setdefault(number, {}).setdefault(sector, []).append(data)
        self._now[number][sector * SECTOR : sector * SECTOR + len(data)] = data

    def _do_sync(self, number: int) -> None:
        disk = self._durable.setdefault(number, bytearray())
        size = self._sizes.get(number, 0)
        del disk[size:]
        disk.extend(bytes(size - len(disk)))
        for sector, versions in self._pending.pop(number, {}).items():
            disk[sector * SECTOR : sector * SECTOR + len(versions[-1])] = versions[-1]

    def _do_forget(self, number: int) -> None:
        self._pending.pop(number, None)

    def _do_syncdir(self, folder: int) -> None:
        for entry in self._dir_pending.pop(folder, ()):
            self._disk_tree.apply(entry)

    def _later(self, kind: str, folder: int, *entry: Any) -> None:
        self._dir_pending.setdefault(folder, []).append((kind, folder, *entry))
        self._now_tree.apply((kind, folder, *entry))

    def _do_bind(self, *entry: Any) -> None:
        self._later("bind", *entry)

    def _do_unbind(self, *entry: Any) -> None:
        self._later("unbind", *entry)

    def _do_rename(self, *entry: Any) -> None:
        self._later("rename", *entry)

    def _do_mkdir(self, *entry: Any) -> None:
        self._later("mkdir", *entry)

    def _do_rmdir(self, *entry: Any) -> None:
        self._later("rmdir", *entry)

    # --- images -------------------------------------------------------------------------------

    def killed(self) -> SimDisk:
        """The disk after a kill of the process: everything stored is there, same kernel."""
        disk = SimDisk()
        self._now_tree.give(disk)
        disk.inodes = {
            number: Inode(number, bytes(self._now.get(number, b"")))
            for names in disk.folders.values()
            for number in names.values()
        }
        return disk

    def cut(self, rng: random.Random, keep: float) -> SimDisk:
        """The disk after a power cut; each unsynced change is kept with probability ``keep``."""
        disk = SimDisk(f"boot-{self.position}-{rng.random()}")
        tree = self._disk_tree.copy()
        for folder in sorted(self._dir_pending):
            entries = self._dir_pending[folder]
            count = sum(rng.random() < keep for _ in entries)
            for entry in entries[:count]:
                tree.apply(entry)
        tree.give(disk)
        for names in disk.folders.values():
            for number in names.values():
                if number not in disk.inodes:
                    disk.inodes[number] = Inode(number, self._content(number, rng, keep))
        return disk

    def _content(self, number: int, rng: random.Random, keep: float) -> bytes:
        data = bytearray(self._durable.get(number, b""))
        size = self._sizes.get(number, 0)
        if size != len(data) and rng.random() < keep:
            del data[size:]
            data.extend(bytes(size - len(data)))
        for sector, versions in self._pending.get(number, {}).items():
            if rng.random() < keep:
                version = rng.choice(versions) if keep < 1 else versions[-1]
                start = sector * SECTOR
                if start + len(version) <= len(data):
                    data[start : start + len(version)] = version
        return bytes(data)


class _Tree:
    """Folders: their paths and entries, unreachable folders included."""

    def __init__(self, disk: SimDisk | None = None) -> None:
        self.paths = {"/": 0} if disk is None else dict(disk.folder_ids)
        self.names: dict[int, dict[str, int]] = {0: {}}
        if disk is not None:
            for path, names in disk.folders.items():
                self.names[disk.folder_ids[path]] = dict(names)

    def copy(self) -> "_Tree":
        other = _Tree()
        other.paths = dict(self.paths)
        other.names = {folder: dict(names) for folder, names in self.names.items()}
        return other

    def apply(self, entry: tuple[Any, ...]) -> None:
        kind, folder, *rest = entry
        names = self.names.setdefault(folder, {})
        if kind == "mkdir":
            self.paths[rest[0]] = rest[1]
            self.names.setdefault(rest[1], {})
        elif kind == "rmdir":
            self.paths.pop(rest[0], None)
        elif kind == "bind":
            names[rest[0]] = rest[1]
        elif kind == "unbind":
            names.pop(rest[0], None)
        elif kind == "rename":
            number = names.pop(rest[0], None)
            if number is not None:
                names[rest[1]] = number

    def give(self, disk: SimDisk) -> None:
        """Make this the folders of ``disk``; folders without a parent are left out."""
        for path in sorted(self.paths):
            parent = path.rpartition("/")[0] or "/"
            if path == "/" or parent in disk.folders:
                disk.folders[path] = dict(self.names[self.paths[path]])
                disk.folder_ids[path] = self.paths[path]
