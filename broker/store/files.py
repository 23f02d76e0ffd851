"""The one door to the disk: every file call of the engine goes through a :class:`Disk`.

Tests hand in a Disk that fails the n-th call, is full, or forgets what was not synced. Mapped
memory is given out as a buffer, and a file is mapped only after its space has been reserved:
storing into a hole of a full disk would end the process with SIGBUS, no exception.

**Source:** no Java counterpart; RocketMQ opens its files where it needs them.
"""

import errno
import fcntl
import mmap
import os
import shutil
from typing import Final, TypeAlias, cast

from broker.errors import DiskFullError, StoreError, StoreLockedError

# Mapped memory as the engine sees it: indexed, sliced, stored to. An mmap has all that a bytearray
# has here, and a simulated disk hands out real bytearrays.
Mapping: TypeAlias = bytearray

# EFBIG is what a limit on the file size (ulimit -f) gives: for the writer a full disk.
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_CHUNK: Final = 1 << 20
_ZEROS: Final = bytes(_CHUNK)

# An fcntl lock does not stop a second owner in the same process, so those are kept here.
_locked_here: set[tuple[int, int]] = set()


class StoreLock:
    """The held lock of one store directory; :meth:`release` gives it back."""

    def __init__(self, fd: int, identity: tuple[int, int]) -> None:
        self._fd = fd
        self._identity = identity

    def release(self) -> None:
        """Give the lock back; the file stays, as Java leaves it."""
        if self._fd >= 0:
            _locked_here.discard(self._identity)
            os.close(self._fd)
            self._fd = -1


class Disk:
    """The operating system's files."""

    def open(self, path: str, *, create: bool = False) -> int:
        """Descriptor of a file for reading and writing."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            return os.open(path, flags, 0o644)
        except OSError as error:
            raise _named(error, path) from error

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        os.close(fd)

    def reserve(self, fd: int, length: int, path: str) -> None:
        """Give the file ``length`` bytes that are really there; DiskFullError if they are not."""
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(fd, 0, length)
            else:
                _fill(fd, length)
        except OSError as error:
            raise _named(error, path) from error

    def map(self, fd: int, length: int) -> Mapping:
        """The file's first ``length`` bytes as shared memory."""
        return cast("bytearray", mmap.mmap(fd, length))

    def unmap(self, mapping: Mapping) -> None:
        """Give mapped memory back; BufferError while someone holds a slice of it."""
        cast("mmap.mmap", mapping).close()

    def page_out(self, mapping: Mapping) -> None:
        """Take the pages of mapped memory off this process; they stay in the page cache.

        A scan of a large file would otherwise count as this process's memory from then on.
        """
        memory: object = mapping
        if isinstance(memory, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
            memory.madvise(mmap.MADV_DONTNEED)

    def sync_data(self, fd: int) -> None:
        """Wait until the file's data, also what was stored through a mapping, is on the disk.

        ``mmap.flush`` is not used: it holds the interpreter lock during the whole msync.
        """
        os.fdatasync(fd)

    def sync_folder(self, path: str) -> None:
        """Wait until the entries of a folder are on the disk."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def read(self, path: str) -> bytes:
        """The whole content of a small file."""
        with open(path, "rb") as file:
            return file.read()

    def write(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Replace the content of a small file; on the disk when it returns, unless told not to."""
        try:
            with open(path, "wb") as file:
                file.write(data)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            raise _named(error, path) from error

    def write_at(self, fd: int, data: bytes, position: int) -> None:
        """Write ``data`` at ``position``."""
        os.pwrite(fd, data, position)

    def rename(self, source: str, target: str) -> None:
        """Move a file over another; one of both is there at any time."""
        os.replace(source, target)

    def link(self, source: str, target: str) -> None:
        """Give a file a second name."""
        os.link(source, target)

    def unlink(self, path: str) -> None:
        """Remove a file; nothing happens if it is gone."""
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def make_folder(self, path: str) -> None:
        """Create a folder and its parents."""
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise _named(error, path) from error

    def remove_folder(self, path: str) -> None:
        """Remove a folder with everything in it; nothing happens if it is gone."""
        shutil.rmtree(path, ignore_errors=True)

    def list(self, path: str) -> list[tuple[str, bool]]:
        """Names in a folder, sorted, each with whether it is a folder; empty if there is none."""
        try:
            with os.scandir(path) as entries:
                return sorted((entry.name, entry.is_dir()) for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, path: str) -> bool:
        """Whether there is such a file or folder."""
        return os.path.exists(path)

    def size(self, path: str) -> int:
        """Length of a file, bytes."""
        return os.stat(path).st_size

    def next_data(self, path: str, position: int) -> tuple[int, int]:
        """The next range of a file, from ``position`` on, that may hold something else than zeros.

        (start, end), at most a MiB long, or (-1, -1) behind the last one. Space that was reserved
        and never written is passed over without reading it, where the file system knows about it;
        zeros that are there are read, not mapped: a fault per page costs twenty times as much.
        """
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            position, end = _data_range(fd, position, size)
            while position < size:
                # Asked for before anything is read: what the kernel reads ahead into reserved
                # space counts as data from then on, and we would chase it to the end of the file.
                following = _data_range(fd, end, size)
                while position < end:
                    block = os.pread(fd, min(len(_ZEROS), end - position), position)
                    if not block:
                        return -1, -1  # truncated in between
                    if block != _ZEROS[: len(block)]:
                        return position, position + len(block)
                    position += len(block)
                position, end = following
            return -1, -1
        finally:
            os.close(fd)

    def modified_ms(self, path: str) -> int:
        """Time of the last modification, epoch ms."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def touch(self, path: str, time_ms: int) -> None:
        """Set the time of the last modification.

        Stores through a mapping reach a file's times late or never, and Java's expiry goes by them.
        """
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))

    def identity(self, path: str) -> tuple[int, int]:
        """Device and inode: tells a folder from its copy."""
        stat = os.stat(path)
        return stat.st_dev, stat.st_ino

    def boot_id(self) -> str:
        """Identity of the running kernel: its page cache holds what a killed process stored.

        Empty where the system does not tell.
        """
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""

    def space(self, path: str) -> tuple[int, int]:
        """Used and usable bytes of the file system that holds ``path``."""
        stat = os.statvfs(path)
        used = (stat.f_blocks - stat.f_bfree) * stat.f_frsize
        return used, stat.f_bavail * stat.f_frsize

    def lock(self, path: str) -> StoreLock:
        """Take the store's lock file, or StoreLockedError.

        A record lock on byte 0, the kind Java takes; it conflicts with a running Java broker in
        both directions.

        **Source:** RocketMQ DefaultMessageStore#start (lockFile).
        """
        if self.exists(path) and self.identity(path) in _locked_here:
            # Not even opened: closing any descriptor of it would give up the process's lock.
            raise StoreLockedError(
                f"{path}: the store is open in this process already",
                "close it first, or choose another store directory",
                path=path,
            )
        fd = self.open(path, create=True)
        try:
            fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
        except OSError as error:
            os.close(fd)
            raise StoreLockedError(
                f"{path}: another broker uses this store",
                "stop it, or choose another store directory (storePathRootDir)",
                path=path,
            ) from error
        stat = os.fstat(fd)
        identity = (stat.st_dev, stat.st_ino)
        _locked_here.add(identity)
        os.pwrite(fd, b"lock", 0)
        return StoreLock(fd, identity)


def make_durable_folder(disk: Disk, path: str) -> None:
    """Create a folder and its parents so that a power cut does not take them back."""
    missing = []
    folder = path
    while folder != os.path.dirname(folder) and not disk.exists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    disk.make_folder(path)
    for made in reversed(missing):
        disk.sync_folder(os.path.dirname(made) or ".")


def _data_range(fd: int, position: int, size: int) -> tuple[int, int]:
    """The next range that the file system keeps data for; (size, size) if there is none."""
    try:
        start = os.lseek(fd, position, os.SEEK_DATA)
        return start, os.lseek(fd, start, os.SEEK_HOLE)
    except OSError as error:
        return (size, size) if error.errno == errno.ENXIO else (position, size)


def _fill(fd: int, length: int) -> None:
    """Reserve by writing zeros where the system cannot reserve (not Linux)."""
    position = os.fstat(fd).st_size
    while position < length:
        position += os.pwrite(fd, bytes(min(_CHUNK, length - position)), position)


def _named(error: OSError, path: str) -> StoreError:
    if error.errno in _FULL:
        return DiskFullError(
            f"{path}: {os.strerror(error.errno or 0)}",
            "free space on this file system, or lower fileReservedTime",
            path=path,
        )
    return StoreError(f"{path}: {error.strerror or error}", path=path)
