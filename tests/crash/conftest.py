"""A disk that loses unsynced bytes, and one that fails its n-th call."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker.errors import DiskFullError, StoreError, StoreLockedError
from broker.message.properties import encode_properties
from broker.store.config import MessageStoreConfig
from broker.store.logfile.disk import Disk
from broker.store.message_store import MessageExtBrokerInner

SECTOR = 512


class SimulatedFile:
    """The content for programs (``data``) and the content on disk (``durable``)."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.durable = b""


class SimulatedLock:
    def __init__(self, disk: "SimulatedDisk") -> None:
        self.disk = disk

    def release(self) -> None:
        self.disk.locked = False

    def lost(self) -> str:
        return ""


class SimulatedDisk(Disk):
    """Files in memory: :meth:`cut` forgets everything unsynced but a random choice of sectors.

    Names are durable once their folder was synced, or by chance; a file whose name is lost is
    lost. ``fail_at`` raises OSError at the n-th call that could fail; from then on every call
    fails if ``dead``. The interface is :class:`broker.store.logfile.disk.Disk`'s.
    """

    def __init__(self) -> None:
        self.files: dict[str, SimulatedFile] = {}
        self.durable_names: dict[str, SimulatedFile] = {}
        self.folders: set[str] = set()
        self.fds: dict[int, tuple[str, SimulatedFile]] = {}
        self.next_fd = 100
        self.locked = False
        self.calls = 0
        self.fail_at = 0
        self.failed = ""
        self.capacity = 1 << 40
        self.boot = "boot-1"

    def _call(self, name: str) -> None:
        self.calls += 1
        if self.calls == self.fail_at:
            self.failed = name
            raise OSError(5, f"call {self.calls} ({name}) fails")

    # --- power ---------------------------------------------------------------------------------

    def cut(self, rng: random.Random) -> None:
        """Lose the power: unsynced sectors survive at random."""
        survivors: dict[str, SimulatedFile] = {}
        for path in set(self.files) | set(self.durable_names):
            now, then = self.files.get(path), self.durable_names.get(path)
            file = then if now is None else now
            if now is not then and rng.random() < 0.5:
                file = then
            if file is not None:
                survivors[path] = file
        for file in survivors.values():
            size = len(file.durable)
            if rng.random() < 0.5:
                size = len(file.data)
            kept = bytearray(file.durable.ljust(size, b"\0")[:size])
            for start in range(0, size, SECTOR):
                if rng.random() < 0.3:
                    part = bytes(file.data[start : start + SECTOR])[: size - start]
                    kept[start : start + len(part)] = part
            file.data = kept
            file.durable = bytes(kept)
        self.files = survivors
        self.durable_names = dict(survivors)
        self.fds.clear()
        self.locked = False
        self.boot += "x"

    # --- Disk ----------------------------------------------------------------------------------

    def open(self, path: str, *, create: bool = False) -> int:
        self._call("open")
        if path not in self.files:
            if not create:
                raise StoreError(f"{path}: no such file", path=path)
            self.files[path] = SimulatedFile()
        self.next_fd += 1
        self.fds[self.next_fd] = (path, self.files[path])
        return self.next_fd

    def close(self, fd: int) -> None:
        self.fds.pop(fd, None)

    def set_size(self, fd: int, length: int, path: str) -> None:
        self._call("set_size")
        file = self.fds[fd][1]
        file.data.extend(bytes(max(0, length - len(file.data))))

    def stored_ranges(self, path: str) -> Iterator[tuple[int, int]]:
        yield 0, len(self.files[path].data)

    def reserve(self, fd: int, length: int, path: str, *, start: int = 0) -> None:
        self._call("reserve")
        file = self.fds[fd][1]
        used = sum(len(other.data) for other in list(self.files.values()))
        if used + length - len(file.data) > self.capacity:
            raise DiskFullError(f"{path}: no space", path=path)
        file.data.extend(bytes(max(0, length - len(file.data))))

    def map(self, fd: int, length: int) -> bytearray:
        self._call("map")
        return self.fds[fd][1].data

    def unmap(self, mapping: bytearray) -> None:
        pass

    def sync_data(self, fd: int) -> None:
        self._call("sync_data")
        file = self.fds[fd][1]
        file.durable = bytes(file.data)

    def sync_folder(self, path: str) -> None:
        self._call("sync_folder")
        for name in [n for n in list(self.durable_names) if n.rpartition("/")[0] == path]:
            if name not in self.files:
                del self.durable_names[name]
        for name, file in list(self.files.items()):
            if name.rpartition("/")[0] == path:
                self.durable_names[name] = file

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(path)
        return bytes(self.files[path].data)

    def write(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self._call("write")
        file = self.files.setdefault(path, SimulatedFile())
        file.data = bytearray(data)
        if sync:
            file.durable = bytes(data)

    def write_at(self, fd: int, data: bytes, position: int) -> None:
        self._call("write_at")
        file = self.fds[fd][1]
        file.data.extend(bytes(max(0, position + len(data) - len(file.data))))
        file.data[position : position + len(data)] = data

    def rename(self, source: str, target: str) -> None:
        self._call("rename")
        self.files[target] = self.files.pop(source)

    def link(self, source: str, target: str) -> None:
        self._call("link")
        self.files[target] = self.files[source]

    def unlink(self, path: str) -> None:
        self._call("unlink")
        self.files.pop(path, None)

    def make_folder(self, path: str) -> None:
        self._call("make_folder")
        while path and path not in self.folders:
            self.folders.add(path)
            path = path.rpartition("/")[0]

    def remove_folder(self, path: str) -> None:
        for name in [n for n in list(self.files) if n.startswith(path + "/")]:
            del self.files[name]
        self.folders = {
            folder
            for folder in self.folders
            if folder != path and not folder.startswith(path + "/")
        }

    def list(self, path: str) -> list[tuple[str, bool]]:
        prefix = path + "/"
        found = {}
        for name in list(self.files):
            if name.startswith(prefix):
                head, slash, _ = name[len(prefix) :].partition("/")
                found[head] = bool(slash)
        for name in self.folders:
            if name.startswith(prefix):
                found[name[len(prefix) :].partition("/")[0]] = True
        return sorted(found.items())

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.folders

    def size(self, path: str) -> int:
        return len(self.files[path].data)

    def next_data(self, path: str, position: int) -> tuple[int, int]:
        size = len(self.files[path].data)
        return (position, size) if position < size else (-1, -1)

    def modified_ms(self, path: str) -> int:
        return 0

    def touch(self, path: str, time_ms: int) -> None:
        pass

    def identity(self, path: str) -> tuple[int, int]:
        return (1, 1)

    def boot_id(self) -> str:
        return self.boot

    def space(self, path: str) -> tuple[int, int]:
        return (1, 100)

    def lock(self, path: str) -> SimulatedLock:
        if self.locked:
            raise StoreLockedError(path)
        self.locked = True
        return SimulatedLock(self)


@pytest.fixture
def simulated() -> Callable[[], SimulatedDisk]:
    """``simulated()``: a new, empty simulated disk."""
    return SimulatedDisk


@pytest.fixture
def small() -> Callable[..., MessageStoreConfig]:
    """``small(root, **changes)``: settings with files of a few KiB."""

    def make(root: str | Path, **changes: Any) -> MessageStoreConfig:
        config = MessageStoreConfig(
            store_path_root_dir=str(root),
            mapped_file_size_commit_log=8192,
            mapped_file_size_consume_queue=400,
            max_hash_slot_num=20,
            max_index_num=60,
            max_message_size=3000,
            disk_max_used_space_ratio=95,
        )
        return msgspec.structs.replace(config, **changes)

    return make


@pytest.fixture
def message() -> Callable[..., MessageExtBrokerInner]:
    """``message(number, rng)``: a message with its number, of random size and queue."""

    def make(number: int, rng: random.Random) -> MessageExtBrokerInner:
        body = b"%08d" % number + bytes(rng.randrange(700))
        properties = encode_properties({"KEYS": f"k{number}", "TAGS": f"t{number % 3}"})
        return MessageExtBrokerInner("TopicA", number % 4, body, properties)

    return make
