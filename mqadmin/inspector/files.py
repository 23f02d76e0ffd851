"""The only disk access of the inspector: files as bytes or read-only mappings."""

import errno
import mmap
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISFIFO, S_ISREG
from typing import Final, cast

from broker.errors import StoreError

# Files up to this length are read into memory: a truncation cannot cause SIGBUS then.
READ_WHOLE_BYTES: Final = 1 << 20
LOCK_TABLE: Final = Path("/proc/locks")
# The kernel returns a long table in parts, and skips a lock if one before it is released meanwhile:
# of 200 reads of a table that changes all the time one lacked a lock that was held.
LOCK_TABLE_READS: Final = 5
# A scan keeps at most about this many bytes of a mapped file in its own memory.
RELEASE_BYTES: Final = 64 << 20


class FileBytes:
    """The bytes of the file at ``path``: ``data`` is bytes, or an mmap used like bytes.

    From ``data_end`` to the end there is only a hole of zeros, which scans skip.
    """

    __slots__ = ("data", "data_end", "path", "released")

    def __init__(self, path: Path, data: bytes, data_end: int) -> None:
        self.path = path
        self.data = data
        self.data_end = data_end
        self.released = 0

    def __len__(self) -> int:
        return len(self.data)

    def release(self, end: int) -> None:
        """Remove the pages before ``end`` from this process, every :data:`RELEASE_BYTES`.

        They remain in the page cache, and a later access maps them again.
        """
        end -= end % mmap.PAGESIZE
        if end - self.released < RELEASE_BYTES or sys.platform != "linux":
            return
        data: object = self.data
        if isinstance(data, mmap.mmap):
            data.madvise(mmap.MADV_DONTNEED, self.released, end - self.released)
        self.released = end


def _data_end(fd: int, size: int) -> int:
    """Return the end of the last data extent; ``size`` if the file system does not report holes."""
    end = 0
    try:
        while end < size:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = os.lseek(fd, start, os.SEEK_HOLE)
    except OSError as error:
        # ENXIO: no data after `end`. Other errors: the file system does not support SEEK_DATA.
        return end if error.errno == errno.ENXIO else size
    return end


@contextmanager
def open_bytes(
    path: Path, *, sequential: bool = False, follow: bool = False, overlap: int = 0
) -> Iterator[FileBytes]:
    """Open a file for reading; StoreError if that fails.

    ``sequential`` advises the kernel that the file is read from start to end. With ``follow`` a
    small file is mapped too: later writes of a broker show in its bytes. The last ``overlap`` bytes
    are left out.
    """
    view: mmap.mmap | None = None
    fd = -1
    try:
        fd = _open(path)
        size = max(0, os.fstat(fd).st_size - overlap)
        if size <= (0 if follow else READ_WHOLE_BYTES):
            data = _read(fd, size)
            file = FileBytes(path, data, len(data))
        else:
            view = mmap.mmap(fd, size, access=mmap.ACCESS_READ)
            if sequential and sys.platform != "win32":
                view.madvise(mmap.MADV_SEQUENTIAL)
            # Readers only use len, index, slice, find/rfind and buffer: mmap has them like bytes.
            file = FileBytes(path, cast(bytes, view), min(_data_end(fd, size), size))
    except OSError as error:
        if fd >= 0:
            os.close(fd)
        raise unreadable(path, error) from error
    try:
        yield file
    finally:
        if view is not None:
            # Arrays over it may still exist when an error or ^C ends a scan: the mapping is
            # released with the last of them, and BufferError must not mask the first error.
            with suppress(BufferError):
                view.close()
        os.close(fd)


def _open(path: str | Path, flags: int = os.O_RDONLY) -> int:
    """Open a file for reading; OSError for a named pipe, at which a read would wait for ever."""
    fd = os.open(path, flags | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0))
    if S_ISFIFO(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "it is a named pipe", str(path))
    return fd


def _read(fd: int, size: int) -> bytes:
    pieces = []
    while size > 0 and (piece := os.read(fd, size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def file_length(path: Path) -> int | None:
    """Return the length of a file, None if there is none: a broker may have deleted it."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size if S_ISREG(status.st_mode) else None


def read_all(path: Path) -> bytes | None:
    """Return the contents of a small file, None if missing; StoreError if a read fails."""
    try:
        with open(path, "rb", opener=_open) as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> StoreError:
    """Return the StoreError for a file that cannot be read."""
    folder = isinstance(error, IsADirectoryError)
    return StoreError(
        f"cannot read {path}: {error.strerror or error}",
        "move it away: a file belongs there" if folder else "check the path and its permissions",
        path=str(path),
    )


def lock_holder(path: Path) -> int | None:
    """Return the process that holds a POSIX lock on a file, 0 if none, None if unknown.

    The lock is read from /proc/locks, not queried through a descriptor: closing a descriptor of
    the file would release a lock that this process holds (a broker in the same process).
    """
    try:
        status = path.stat()
        place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
        for _ in range(LOCK_TABLE_READS):
            for line in LOCK_TABLE.read_text(encoding="ascii", errors="replace").splitlines():
                words = line.split()
                # "1: POSIX ADVISORY WRITE 4242 fd:01:1234 0 0"; "->" before a request that waits.
                if len(words) >= 6 and words[1] == "POSIX" and words[5] == place:
                    return int(words[4]) if words[4].isdecimal() else None
    except OSError:
        return None
    return 0
