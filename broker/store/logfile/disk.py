"""Disk: the only access to the file system; every file call of the engine goes through it.

Tests substitute a Disk that fails the n-th call, is full, or drops unsynced writes. Mapped memory
is returned as a buffer. The space of a range is reserved before the range is written through a
mapping: a write into a hole on a full disk ends the process with SIGBUS instead of an exception.

**Source:** no Java counterpart; RocketMQ opens its files where it needs them.
"""

import errno
import fcntl
import importlib
import logging
import mmap
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from typing import Any, Final, TypeAlias, cast

from broker.errors import (
    DescriptorLimitError,
    DiskFullError,
    FileNameError,
    StoreError,
    StoreLockedError,
    StoreStateError,
)
from broker.store.format.state import DIRECTORY
from broker.store.logfile.descriptors import LIMIT_ERRORS, DescriptorReserve
from broker.store.logfile.page_reader import PageReader

_log = logging.getLogger(__name__)

# Type of mapped memory: indexed, sliced, assigned to. An mmap supports these operations of a
# bytearray, and a simulated disk returns real bytearrays.
Mapping: TypeAlias = bytearray

# Message bodies are readable for the broker's user, and for a group that makes backups. The
# process's umask may restrict this further; existing files and folders keep their mode.
FILE_MODE: Final = 0o640
FOLDER_MODE: Final = 0o750

# A limit on the file size (ulimit -f) causes EFBIG; for the writer it means a full disk.
_FULL: Final = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# Errors that concern one name only. Not ENOTDIR: a file in place of a folder fails every name.
_NAMES: Final = {errno.ENAMETOOLONG, errno.EILSEQ}
_CHUNK: Final = 1 << 20
_ZEROS: Final = bytes(_CHUNK)

# trackfd=False: the mapping does not duplicate the descriptor, so thousands of queues need none.
_MAP_OPTIONS: Final[dict[str, Any]] = {"trackfd": False} if sys.version_info >= (3, 13) else {}

_reserve: Final = DescriptorReserve()

# (device, inode) of the lock files held by this process: an fcntl lock does not exclude a second
# owner in the same process.
_locked_here: set[tuple[int, int]] = set()


class StoreLock:
    """The acquired lock of one store directory; :meth:`release` releases it.

    It consists of two locks: the record lock on the lock file, which a Java broker takes too, and
    one on the directory, which still holds if the lock file is deleted.
    """

    def __init__(self, path: str, fd: int, folder_fd: int) -> None:
        self._path = path
        self._fd = fd
        self._folder_fd = folder_fd
        self._identity = _identity(os.fstat(fd))
        _locked_here.add(self._identity)
        _reserve.acquire()

    def release(self) -> None:
        """Release the lock; the lock file stays, as with Java."""
        if self._fd >= 0:
            _locked_here.discard(self._identity)
            _reserve.release()
            os.close(self._fd)
            os.close(self._folder_fd)
            self._fd = self._folder_fd = -1

    def lost(self) -> str:
        """Reason why the lock no longer protects the store; empty while it does.

        Messages written to a directory that was removed or replaced are lost at the next start. If
        the lock file was removed or replaced, a second broker can start on the same store.
        """
        if self._fd < 0:
            return ""  # released
        folder = os.path.dirname(self._path) or "."
        for path, fd in ((folder, self._folder_fd), (self._path, self._fd)):
            try:
                if _identity(os.stat(path)) == _identity(os.fstat(fd)):
                    continue
            except (FileNotFoundError, NotADirectoryError):
                pass
            return f"{path} was removed or replaced while the store was open"
        return ""


class Disk:
    """The files of the operating system.

    After :meth:`revoke` it refuses to create, rename or remove files.
    """

    # Reason why files may not be created, renamed or removed; empty while they may.
    refusal = ""

    def revoke(self, reason: str) -> None:
        """Refuse to create, rename or remove files from now on: the store directory is lost.

        Another broker may be using it. Open descriptors and mappings stay usable.
        """
        self.refusal = reason

    def _check(self, path: str) -> None:
        if self.refusal:
            raise StoreStateError(f"{path}: not changed: {self.refusal}")

    def open(self, path: str, *, create: bool = False) -> int:
        """Open a file for reading and writing; return its descriptor."""
        if create:
            self._check(path)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            return _open(path, flags)
        except OSError as error:
            raise _named(error, path) from error

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        _reserve.close(fd)

    def set_size(self, fd: int, length: int, path: str) -> None:
        """Set the file's length; added bytes read as zeros, their space is not reserved."""
        try:
            os.ftruncate(fd, length)
        except OSError as error:
            raise _named(error, path) from error

    def reserve(self, fd: int, length: int, path: str, *, start: int = 0) -> None:
        """Reserve the space of the bytes from ``start`` to ``length``; DiskFullError without space.

        A shorter file grows to ``length``; its data stays.
        """
        try:
            if sys.platform == "linux":
                os.posix_fallocate(fd, start, length - start)
            else:
                _fill(fd, start, length)
        except OSError as error:
            raise _named(error, path) from error

    def map(self, fd: int, length: int) -> Mapping:
        """Map the file's first ``length`` bytes as shared memory."""
        try:
            mapping = _reserve.call(
                lambda: mmap.mmap(fd, length, **_MAP_OPTIONS), lasting=not _MAP_OPTIONS
            )
        except OSError as error:
            raise _named(error, os.path.realpath(f"/dev/fd/{fd}")) from error
        return cast("bytearray", mapping)

    def unmap(self, mapping: Mapping) -> None:
        """Unmap the memory; BufferError while a slice of it exists."""
        cast("mmap.mmap", mapping).close()

    def page_out(self, mapping: Mapping) -> None:
        """Drop a mapping's pages from the process's resident set; they stay in the page cache.

        Otherwise a scan of a large file would count as memory of this process from then on.
        """
        memory: object = mapping
        if isinstance(memory, mmap.mmap) and sys.platform == "linux":
            memory.madvise(mmap.MADV_DONTNEED)

    def expect_single_pages(self, mapping: Mapping, start: int) -> None:
        """Let the kernel cache bytes from ``start`` on (a multiple of the page) in single pages.

        A fault in reserved space that was never written reads zeros ahead, up to read_ahead_kb.
        Reading ahead makes folios of up to 2 MiB, and a write through a mapping makes its whole
        folio dirty: a sync of 1 KiB then writes that much.
        """
        memory: object = mapping
        if isinstance(memory, mmap.mmap) and sys.platform == "linux":
            memory.madvise(mmap.MADV_RANDOM, start)

    def expect_reads(self, mapping: Mapping) -> None:
        """Undo :meth:`expect_single_pages`: the kernel reads ahead again."""
        memory: object = mapping
        if isinstance(memory, mmap.mmap) and sys.platform == "linux":
            memory.madvise(mmap.MADV_NORMAL)

    def load_pages(self, mapping: Mapping, start: int, end: int) -> None:
        """Load pages of reserved space for writing; OSError if the system cannot.

        Other threads run Python code meanwhile.
        """
        memory: object = mapping
        if isinstance(memory, mmap.mmap) and sys.platform == "linux":
            importlib.import_module("broker.store.logfile.page_loading").load_pages(
                memory, start, end
            )

    def page_reader(self, path: str) -> PageReader:
        """Open a file to read its pages ahead of writes; OSError or StoreError if impossible."""
        fd = self.open(path)
        try:
            return PageReader(fd, self.close)
        except OSError:
            self.close(fd)
            raise

    def sync_data(self, fd: int) -> None:
        """Wait until the file's data is on the disk, including data written through a mapping.

        ``mmap.flush`` is not used: it holds the interpreter lock during the whole msync.
        """
        os.fdatasync(fd)

    def sync_folder(self, path: str) -> None:
        """Wait until the entries of a folder are on the disk."""
        try:
            fd = _open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _named(error, path) from error
        try:
            os.fsync(fd)
        finally:
            _reserve.close(fd)

    def read(self, path: str) -> bytes:
        """The whole content of a small file."""
        try:
            with open(path, "rb", opener=_open_to_read) as file:
                return file.read()
        finally:
            _reserve.refill()

    def write(self, path: str, data: bytes, *, sync: bool = True) -> None:
        """Replace the content of a small file; with ``sync`` it is on the disk on return."""
        self._check(path)
        try:
            with open(path, "wb", opener=_open) as file:
                file.write(data)
                if sync:
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            raise _named(error, path) from error
        finally:
            _reserve.refill()

    def write_at(self, fd: int, data: bytes | bytearray | memoryview, position: int) -> None:
        """Write all of ``data`` at ``position``."""
        rest = memoryview(data)
        while rest:
            done = os.pwrite(fd, rest, position)
            rest = rest[done:]
            position += done

    def rename(self, source: str, target: str) -> None:
        """Replace ``target`` with ``source`` atomically: ``target`` exists at every moment."""
        self._check(target)
        os.replace(source, target)

    def link(self, source: str, target: str) -> None:
        """Create a hard link ``target`` to ``source``."""
        self._check(target)
        os.link(source, target)

    def unlink(self, path: str) -> None:
        """Remove a file, if it exists."""
        self._check(path)
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass

    def make_folder(self, path: str) -> None:
        """Create a folder and its parents, each with mode FOLDER_MODE."""
        self._check(path)
        try:
            _make_folders(path)
        except OSError as error:
            raise _named(error, path) from error

    def keep_mode(self, path: str, replacement: str) -> None:
        """Copy the mode of ``path`` to ``replacement``, which will replace it; no-op without it."""
        try:
            os.chmod(replacement, stat.S_IMODE(os.stat(path).st_mode))
        except FileNotFoundError:
            pass

    def remove_folder(self, path: str) -> None:
        """Remove a folder with its content, if it exists; errors are ignored."""
        self._check(path)
        shutil.rmtree(path, ignore_errors=True)

    def list(self, path: str) -> list[tuple[str, bool]]:
        """Sorted (name, whether it is a folder) of a folder's entries; empty without the folder."""
        try:
            with _reserve.call(lambda: os.scandir(path)) as entries:
                return sorted((entry.name, entry.is_dir()) for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, path: str) -> bool:
        """Whether a file or folder exists."""
        return os.path.exists(path)

    def is_file(self, path: str) -> bool:
        """Whether a regular file, or a link to one, exists."""
        return os.path.isfile(path)

    def size(self, path: str) -> int:
        """Length of a file, bytes."""
        return os.stat(path).st_size

    def next_data(self, path: str, position: int) -> tuple[int, int]:
        """The next range of a file, from ``position`` on, that may contain other bytes than zeros.

        (start, end), at most 1 MiB long; (-1, -1) after the last one. Space that was reserved and
        never written is skipped without reading it, if the file system reports it as a hole.
        Stored zeros are read with pread, not mapped: a fault per page costs twenty times as much.
        """
        fd = _open(path, os.O_RDONLY)
        try:
            size = os.fstat(fd).st_size
            position, end = find_data_range(fd, position, size)
            while position < size:
                # Queried before reading: pages that the kernel reads ahead in reserved space count
                # as data afterwards, so that the scan would read the whole file.
                following = find_data_range(fd, end, size)
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
            _reserve.close(fd)

    def stored_ranges(self, path: str) -> Iterator[tuple[int, int]]:
        """(start, end) of each range that the file system stores data for, zeros included."""
        fd = _open(path, os.O_RDONLY)
        try:
            size = os.fstat(fd).st_size
            start, end = find_data_range(fd, 0, size)
            while start < size:
                yield start, end
                start, end = find_data_range(fd, end, size)
        finally:
            _reserve.close(fd)

    def modified_ms(self, path: str) -> int:
        """Time of the last modification, epoch ms."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def touch(self, path: str, time_ms: int) -> None:
        """Set the time of the last modification.

        Writes through a mapping update it late or never, and Java's file expiry depends on it.
        """
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))

    def identity(self, path: str) -> tuple[int, int]:
        """(device, inode); they differ between a folder and its copy."""
        return _identity(os.stat(path))

    def boot_id(self) -> str:
        """Boot id of the running kernel, empty where it is not available.

        While it is unchanged, the page cache still has the writes of a killed process.
        """
        try:
            with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""

    def space(self, path: str) -> tuple[int, int]:
        """(used, usable) bytes of the file system of ``path``."""
        status = os.statvfs(path)
        used = (status.f_blocks - status.f_bfree) * status.f_frsize
        return used, status.f_bavail * status.f_frsize

    def lock(self, path: str) -> StoreLock:
        """Take the store's lock file, or StoreLockedError.

        A record lock on byte 0, the kind Java takes; it conflicts with a running Java broker in
        both directions.

        **Source:** RocketMQ DefaultMessageStore#start (lockFile).
        """
        if self.exists(path) and self.identity(path) in _locked_here:
            # Do not open it: closing any descriptor of the file releases the process's lock.
            raise StoreLockedError(
                f"{path}: the store is open in this process already",
                "close it first, or choose another store directory",
                path=path,
            )
        folder_fd = _lock_folder(path)
        try:
            fd = self.open(path, create=True)
            try:
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0, os.SEEK_SET)
            except OSError as error:
                os.close(fd)
                raise _locked(path) from error
        except BaseException:
            os.close(folder_fd)
            raise
        os.pwrite(fd, b"lock", 0)
        return StoreLock(path, fd, folder_fd)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _locked(path: str) -> StoreLockedError:
    return StoreLockedError(
        f"{path}: another broker uses this store",
        "stop it, or choose another store directory (storePathRootDir)",
        path=path,
    )


def _lock_folder(path: str) -> int:
    """Lock the folder of the lock file at ``path``; its descriptor, or StoreLockedError.

    On a file system that cannot lock folders (NFS) only the lock file protects the store.
    """
    try:
        fd = _open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise _named(error, path) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise _locked(path) from error
    except OSError as error:
        _log.info("%s: the folder itself cannot be locked: %s", os.path.dirname(path), error)
    return fd


def make_durable_folder(disk: Disk, path: str) -> None:
    """Create a folder and its parents, and sync their entries so that a power cut keeps them."""
    missing = []
    folder = path
    while folder != os.path.dirname(folder) and not disk.exists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    disk.make_folder(path)
    for made in reversed(missing):
        disk.sync_folder(os.path.dirname(made) or ".")


def list_files(disk: Disk, folder: str) -> list[str]:
    """Sorted names of the files in a folder of numbered files; other sub-folders are ignored.

    StoreError for a directory in the place of a file: its content would be missing silently, and
    the file could not be created again.
    """
    entries = disk.list(folder)
    for name, is_folder in entries:
        if is_folder and name.isdecimal():
            path = os.path.join(folder, name)
            raise StoreError(f"{path}: {DIRECTORY.cause}", DIRECTORY.hint, path=path)
    return [name for name, is_folder in entries if not is_folder]


def _open(path: str, flags: int) -> int:
    return _reserve.call(lambda: os.open(path, flags | os.O_CLOEXEC, FILE_MODE))


def _open_to_read(path: str, flags: int) -> int:
    """Open a file; OSError for a named pipe, at which a read would wait for ever."""
    fd = _open(path, flags | os.O_NONBLOCK)
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        _reserve.close(fd)
        raise OSError(errno.EINVAL, "it is a named pipe", path)
    return fd


def _make_folders(path: str) -> None:
    """Create the missing folders; ``os.makedirs`` would apply its mode to the last one only."""
    if path and not os.path.isdir(path):
        _make_folders(os.path.dirname(path))
        try:
            os.mkdir(path, FOLDER_MODE)
        except FileExistsError:
            if not os.path.isdir(path):
                raise


def find_data_range(fd: int, position: int, size: int) -> tuple[int, int]:
    """The next range that the file system stores data for; (size, size) if none follows."""
    try:
        start = os.lseek(fd, position, os.SEEK_DATA)
        return start, os.lseek(fd, start, os.SEEK_HOLE)
    except OSError as error:
        return (size, size) if error.errno == errno.ENXIO else (position, size)


def _fill(fd: int, position: int, length: int) -> None:
    """Reserve space by rewriting the existing bytes, on systems without posix_fallocate.

    Safe because only the thread that writes into this range reserves it.
    """
    while position < length:
        step = min(_CHUNK, length - position)
        position += os.pwrite(fd, os.pread(fd, step, position).ljust(step, b"\0"), position)


def _named(error: OSError, path: str) -> StoreError:
    if error.errno in _FULL:
        return DiskFullError(
            f"{path}: {os.strerror(error.errno or 0)}",
            "free space on this file system, or lower fileReservedTime",
            path=path,
        )
    if error.errno in LIMIT_ERRORS:
        return DescriptorLimitError(
            f"{path}: {os.strerror(error.errno or 0)}",
            "raise the limit of open files (ulimit -n), or lower maxConnections",
            path=path,
        )
    kind = FileNameError if error.errno in _NAMES else StoreError
    return kind(f"{path}: {error.strerror or error}", path=path)
