"""A disk in memory that remembers every change of every sector, so that power can be cut anywhere.

::

    page cache   one bytearray per file: what the engine maps and stores to
    journal      everything that changed, in order: sectors, lengths, names, syncs, marks
    image(k)     what a disk may hold when power is cut after journal entry k: all that was synced
                 before, and of everything else any subset, sector by sector, any version of each

Names are as loose as POSIX allows: creating, renaming and removing count only after the folder
was synced; before it, any number of a folder's first changes may have happened. Stores through a
mapping cannot be seen, so a trace function compares mapped files after every line of the engine.
"""

import errno
import hashlib
import itertools
import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import msgspec
import pytest

from broker.common.clock import ManualClock
from broker.errors import DiskFullError, StoreError, StoreLockedError
from broker.message.properties import encode_properties
from broker.message.record import decode_record
from broker.store import message_store
from broker.store.config import MessageStoreConfig
from broker.store.config_file import ConfigFile
from broker.store.files import Disk
from broker.store.message_store import (
    GetMessageStatus,
    MessageInner,
    MessageStore,
    PutMessageStatus,
)

SECTOR = 512
ROOT = "/sim/store"
# Numbers of files, never used twice: an image of a disk and what is made in it later share them.
_inode_numbers = itertools.count(11)
ENGINE = os.sep + os.path.join("broker", "store") + os.sep

CONFIG = MessageStoreConfig(
    store_path_root_dir=ROOT,
    mapped_file_size_commit_log=4096,
    mapped_file_size_consume_queue=400,
    max_hash_slot_num=16,
    max_index_num=40,
    max_message_size=3000,
    file_reserved_time=1,
    disk_max_used_space_ratio=95,
)


class Inode:
    """One file: what the page cache holds, and what of it the journal has seen."""

    def __init__(self, number: int, data: bytes = b"") -> None:
        self.number = number
        self.data = bytearray(data)
        self.seen = bytes(data)
        self.modified_ms = 0


class SimLock:
    def __init__(self, disk: "SimDisk") -> None:
        self._disk = disk

    def release(self) -> None:
        self._disk.locked = False


class SimDisk(Disk):
    """The engine's door to files that are not there.

    ``fail`` is asked before every call that can fail: ``fail(name, path)`` raises, or returns.
    ``capacity`` bounds the bytes that can be reserved.
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
        self.calls: Counter[str] = Counter()
        self._open: dict[int, tuple[int, str]] = {}
        self._mapped: dict[int, Inode] = {}
        self._fd = 100

    # --- journal ------------------------------------------------------------------------------

    def mark(self, *what: Any) -> None:
        """Note something of the test's own at this point of time."""
        self.capture()
        self.journal.append(("mark", *what))

    def capture(self) -> None:
        """Note what has changed in the files since the last look."""
        if self.recording:
            for inode in list(self._mapped.values()):
                if inode.data != inode.seen:
                    self._changed(inode)

    def _changed(self, inode: Inode) -> None:
        now = bytes(inode.data)
        before = inode.seen
        if len(now) != len(before):
            self.journal.append(("size", inode.number, len(now)))
            before = before[: len(now)].ljust(len(now), b"\0")
        for start in range(0, len(now), SECTOR):
            if now[start : start + SECTOR] != before[start : start + SECTOR]:
                self.journal.append(
                    ("write", inode.number, start // SECTOR, now[start : start + SECTOR])
                )
        inode.seen = now

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
        if self.fail is not None:
            self.fail(name, path)

    # --- names --------------------------------------------------------------------------------

    def _folder(self, path: str) -> dict[str, int]:
        return self.folders[path]

    def _inode(self, path: str) -> Inode:
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

    def reserve(self, fd: int, length: int, path: str) -> None:
        self._enter("reserve", path)
        number, _ = self._open[fd]
        inode = self.inodes[number]
        missing = length - len(inode.data)
        if missing > 0:
            if missing > self.free():
                raise DiskFullError(f"{path}: No space left on device", path=path)
            inode.data.extend(bytes(missing))
            self._touch(inode)

    def free(self) -> int:
        named = {number for names in self.folders.values() for number in names.values()}
        return self.capacity - sum(len(self.inodes[number].data) for number in named)

    def map(self, fd: int, length: int) -> bytearray:
        number, path = self._open[fd]
        self._enter("map", path)
        inode = self.inodes[number]
        assert len(inode.data) >= length, f"{path}: mapped beyond its end, that is a SIGBUS"
        self._mapped[number] = inode
        return inode.data

    def unmap(self, mapping: bytearray) -> None:
        self.capture()

    def sync_data(self, fd: int) -> None:
        number, path = self._open[fd]
        try:
            self._enter("sync_data", path)
        except OSError:
            # The kernel drops what it could not write, or takes it for written.
            self._note("forget", number)
            raise
        self._changed(self.inodes[number]) if self.recording else None
        self._note("sync", number)

    def sync_folder(self, path: str) -> None:
        self._enter("sync_folder", path)
        self._note("syncdir", self.folder_ids[path])

    def read(self, path: str) -> bytes:
        self._enter("read", path)
        return bytes(self._inode(path).data)

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
        self._bind(target, self._inode(source).number)

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

    def size(self, path: str) -> int:
        return len(self._inode(path).data)

    def next_data(self, path: str, position: int) -> tuple[int, int]:
        data = self._inode(path).data
        rest = bytes(data[position:])
        skipped = len(rest) - len(rest.lstrip(b"\0"))
        return (-1, -1) if skipped == len(rest) else (position + skipped, len(data))

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def touch(self, path: str, time_ms: int) -> None:
        self._inode(path).modified_ms = time_ms

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


# --- power cuts -------------------------------------------------------------------------------


class Cutter:
    """Walks a journal forward and makes, at each point, a disk as it may come back."""

    def __init__(self, journal: list[tuple[Any, ...]], base: SimDisk | None = None) -> None:
        self.journal = journal
        self.position = 0
        self.marks: list[tuple[Any, ...]] = []
        # Per file: what is on the disk for sure, and versions of sectors that may be.
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

    def _do_mark(self, *what: Any) -> None:
        self.marks.append(what)

    def _do_size(self, number: int, size: int) -> None:
        self._sizes[number] = size
        now = self._now.setdefault(number, bytearray())
        del now[size:]
        now.extend(bytes(size - len(now)))
        if size == 0:
            # A truncation: what was pending is gone, what was on the disk may still be there.
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

    def _later(self, kind: str, folder: int, *what: Any) -> None:
        self._dir_pending.setdefault(folder, []).append((kind, folder, *what))
        self._now_tree.apply((kind, folder, *what))

    def _do_bind(self, *what: Any) -> None:
        self._later("bind", *what)

    def _do_unbind(self, *what: Any) -> None:
        self._later("unbind", *what)

    def _do_rename(self, *what: Any) -> None:
        self._later("rename", *what)

    def _do_mkdir(self, *what: Any) -> None:
        self._later("mkdir", *what)

    def _do_rmdir(self, *what: Any) -> None:
        self._later("rmdir", *what)

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
    """Folders: which paths there are, and what each holds, whether it can be reached or not."""

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
        """Make this the folders of ``disk``; what hangs below a folder that is not there is not."""
        for path in sorted(self.paths):
            parent = path.rpartition("/")[0] or "/"
            if path == "/" or parent in disk.folders:
                disk.folders[path] = dict(self.names[self.paths[path]])
                disk.folder_ids[path] = self.paths[path]


# --- a store that is driven step by step ------------------------------------------------------


class InlineWorker:
    """The worker without a thread: jobs run at once, timers when the script says so."""

    def __init__(self, name: str, on_error: Callable[[Exception], None]) -> None:
        self._on_error = on_error
        self._timers: list[Callable[[], None]] = []
        self._running = False

    def start(self) -> None:
        self._running = True

    def run(self, job: Callable[[], None]) -> None:
        if self._running:
            try:
                job()
            except Exception as error:
                self._on_error(error)

    def run_later(self, delay_ms: float, job: Callable[[], None]) -> None:
        self._timers.append(job)

    def fire(self) -> None:
        timers, self._timers = self._timers, []
        for job in timers:
            self.run(job)

    def stop(self) -> None:
        self._running = False

    def drain(self) -> None:
        pass


@pytest.fixture(autouse=True)
def inline_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine without threads of its own: every run of a script is the same."""
    monkeypatch.setattr(message_store, "Worker", InlineWorker)
    monkeypatch.setattr(message_store.FlushService, "start", lambda self: None)


class Acked:
    """One acknowledged message: where it was stored."""

    def __init__(self, topic: str, queue_id: int, offset: int, physical: int, body: bytes) -> None:
        self.topic = topic
        self.queue_id = queue_id
        self.offset = offset
        self.physical = physical
        self.body = body

    def __repr__(self) -> str:
        return f"{self.topic}/{self.queue_id}:{self.offset}@{self.physical}"


class Script:
    """A seeded run of operations over a SimDisk; the journal's marks tell what was promised."""

    def __init__(self, disk: SimDisk, rng: random.Random, flush: str, **changes: Any) -> None:
        self.disk = disk
        self.rng = rng
        self.config = msgspec.structs.replace(CONFIG, flush_disk_type=flush, **changes)
        self.sync = self.config.sync_flush
        self.clock = ManualClock()
        self.number = 0
        self.statuses: Counter[PutMessageStatus] = Counter()
        self.unflushed: list[Acked] = []
        self.store: MessageStore | None = None
        self.topics_json = ConfigFile(f"{ROOT}/config/topics.json", disk)
        self.versions = 0

    def open(self) -> MessageStore:
        self.store = MessageStore(self.config, clock=self.clock, disk=self.disk)
        self.store.load()
        self.store.start()
        self.disk.mark("opened")
        return self.store

    def step(self) -> None:
        rng = self.rng
        roll = rng.random()
        self.clock.advance(rng.randrange(200))
        if roll < 0.55:
            self.put(rng.choice((1, 1, 1, 3)))
        elif roll < 0.75:
            self.flush()
        elif roll < 0.85:
            self.store._worker.fire()
        elif roll < 0.90:
            self.save_config()
        elif roll < 0.93:
            self.delete_topic()
        elif roll < 0.96:
            self.clean()
        else:
            self.restart()

    def inner(self, topic: str, queue_id: int, body: bytes) -> MessageInner:
        keys = {"KEYS": f"k{self.number}", "TAGS": f"t{self.number % 3}"}
        return MessageInner(topic, queue_id, body, encode_properties(keys))

    def put(self, count: int = 1) -> None:
        rng, store = self.rng, self.store
        topic, queue_id = f"T{rng.randrange(3)}", rng.randrange(2)
        inners = []
        for _ in range(count):
            self.number += 1
            size = rng.choice((0, 20, 300, 900))
            inners.append(self.inner(topic, queue_id, b"%06d" % self.number + bytes([7]) * size))
        results = [store.put_message(inners[0])] if count == 1 else store.put_messages(inners)
        for inner, result in zip(inners, results, strict=False):
            self.statuses[result.status] += 1
            if result.status is not PutMessageStatus.PUT_OK:
                continue
            acked = Acked(topic, queue_id, result.queue_offset, result.physical_offset, inner.body)
            self.disk.mark("put", acked)
            if self.sync:
                store.await_flush(result.physical_end, self._answer(acked))
            else:
                self.unflushed.append(acked)

    def _answer(self, acked: Acked) -> Callable[[PutMessageStatus], None]:
        def answer(status: PutMessageStatus) -> None:
            self.statuses[status] += 1
            if status is PutMessageStatus.PUT_OK:
                self.disk.mark("acked", acked)

        return answer

    def flush(self) -> None:
        store = self.store
        if self.sync:
            store.flusher._serve()
            store.dispatch()
            return
        covered, self.unflushed = self.unflushed, []
        if store.flush():
            for acked in covered:
                self.disk.mark("acked", acked)

    def save_config(self) -> None:
        self.versions += 1
        topics = ",".join(f'"T{n}":{{"topicName":"T{n}"}}' for n in range(3))
        text = f'{{"topicConfigTable":{{{topics}}},"version":{self.versions}}}'
        self.topics_json.persist(text)
        self.disk.mark("config", self.versions)

    def delete_topic(self) -> None:
        topic = f"T{self.rng.randrange(3)}"
        self.disk.mark("deleting", topic, self.store.max_physical_offset)
        self.store.delete_topics([topic])
        self.unflushed = [acked for acked in self.unflushed if acked.topic != topic]

    def clean(self) -> None:
        if len(self.store.log.files.files) > 4:
            self.flush()
            limit = self.store.log.files.files[1].start
            self.disk.mark("cleaning", limit)
            config, self.store.config = (
                self.store.config,
                msgspec.structs.replace(self.store.config, delete_file_batch_max=1),
            )
            self.store.clean_expired(self.clock.now_ms() + 10**11, manual=True)
            self.store.config = config

    def restart(self) -> None:
        store, self.store = self.store, None
        store.shutdown()
        covered, self.unflushed = self.unflushed, []
        for acked in () if store.flusher.failed else covered:
            self.disk.mark("acked", acked)
        self.open()


class Tracer:
    """Looks at the mapped files after every line that the engine runs."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk

    def __enter__(self) -> "Tracer":
        self._disk.recording = True
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        self._disk.capture()

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if ENGINE in frame.f_code.co_filename else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self._disk.capture()
        return self._line


class Promise:
    """What must be there after a cut: built from the marks before it."""

    def __init__(self, marks: list[tuple[Any, ...]], *, killed: bool) -> None:
        self.acked: dict[tuple[str, int, int], Acked] = {}
        self.log_min = 0
        # Topic to the end of the log at its last deletion: what was stored before is nobody's.
        deleted: dict[str, int] = {}
        self.config = 0
        kinds = ("acked", "put") if killed else ("acked",)
        for kind, *rest in marks:
            if kind in kinds:
                acked = rest[0]
                if acked.physical < deleted.get(acked.topic, 0):
                    continue
                self.acked[acked.topic, acked.queue_id, acked.offset] = acked
            elif kind == "deleting":
                deleted[rest[0]] = rest[1]
                self.acked = {k: v for k, v in self.acked.items() if v.topic != rest[0]}
            elif kind == "cleaning":
                self.log_min = rest[0]
            elif kind == "config":
                self.config = rest[0]

    def check(self, store: MessageStore) -> None:
        """Everything promised is in its queue, in the log and under its key."""
        for acked in self.acked.values():
            if acked.physical < self.log_min:
                continue
            found = store.get_message(acked.topic, acked.queue_id, acked.offset, 1)
            assert found.status is GetMessageStatus.FOUND, (acked, found.status, found.min_offset)
            message = decode_record(found.buffers[0], check_crc=True)
            assert (message.queue_offset, message.body) == (acked.offset, acked.body), acked
            assert store.look_message(acked.physical) is not None, acked
            if store.index is not None:
                key = f"k{int(acked.body[:6])}"
                # Messages of a batch share the counter of the last one.
                hits = store.query_message(acked.topic, _key_of(message, key), 64, 0, 1 << 62)
                bodies = [bytes(decode_record(buffer).body) for buffer in hits.buffers]
                assert acked.body in bodies, (acked, key, len(bodies))


def _key_of(message: Any, default: str) -> str:
    return message.keys[0] if message.keys else default


def reopen(disk: SimDisk, config: MessageStoreConfig) -> MessageStore:
    store = MessageStore(config, clock=ManualClock(1_800_000_000_000), disk=disk)
    store.report = store.load()
    store.start()
    return store


def survive(
    disk: SimDisk, config: MessageStoreConfig, promise: Promise, *, again: bool = True
) -> MessageStore:
    """Open what is left, check the promise, go on, stop, open again, check again."""
    store = reopen(disk, config)
    promise.check(store)
    check_derived(store)
    taken = {}
    for queue_id in range(2):
        inner = MessageInner("T0", queue_id, b"000000new", encode_properties({"KEYS": "new"}))
        result = store.put_message(inner)
        assert result.status is PutMessageStatus.PUT_OK, result
        assert ("T0", queue_id, result.queue_offset) not in promise.acked, "offset given twice"
        taken[queue_id] = result.queue_offset
    assert store.flush()
    store.shutdown()
    if again:
        store = reopen(disk, config)
        assert store.report.clean
        promise.check(store)
        for queue_id, offset in taken.items():
            found = store.get_message("T0", queue_id, offset, 1)
            assert decode_record(found.buffers[0]).body == b"000000new"
        store.shutdown()
    return store


def check_derived(store: MessageStore) -> None:
    """Every unit of every queue leads to the record that says it is there."""
    for topic, queue_ids in store.queues().items():
        for queue_id in queue_ids:
            queue = store.queue_table.find(topic, queue_id)
            for offset in range(store.get_min_offset(topic, queue_id), queue.max_offset):
                unit = queue.unit(offset)
                assert unit is not None, (topic, queue_id, offset)
                if any(start <= unit[0] < end for start, end in store.damaged):
                    continue  # its head is whole, its body is not: readers are kept from it
                record = store.look_message(unit[0], unit[1])
                assert record is not None, (topic, queue_id, offset, unit)
                message = decode_record(record)
                assert (message.topic, message.queue_id) == (topic, queue_id)
                # In a hole left by damage units lead to the record behind it.
                assert message.queue_offset >= offset, (topic, queue_id, offset)


class Sim:
    """What tests of this folder use."""

    Disk = SimDisk
    Script = Script
    Tracer = Tracer
    Cutter = Cutter
    Promise = Promise
    survive = staticmethod(survive)
    reopen = staticmethod(reopen)
    check_derived = staticmethod(check_derived)
    config = CONFIG
    root = ROOT


@pytest.fixture
def sim() -> type[Sim]:
    return Sim
