"""The inspector's only door to the disk: files for reading, as bytes or read-only maps."""

import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, cast

from broker.errors import StoreError

# Files up to this length are read whole: a consistent copy, and no trouble if they are shortened.
READ_WHOLE_BYTES: Final = 1 << 20


class FileBytes:
    """The bytes of the file at ``path``: ``data`` is bytes, or an mmap that looks like bytes.

    From ``data_end`` on the file system holds no data, only zeros: searches need not go there.
    """

    __slots__ = ("data", "data_end", "path")

    def __init__(self, path: Path, data: bytes, data_end: int) -> None:
        self.path = path
        self.data = data
        self.data_end = data_end

    def __len__(self) -> int:
        return len(self.data)


def _data_end(fd: int, size: int) -> int:
    """End of the last extent that holds data; ``size`` where the file system cannot say."""
    end = 0
    try:
        while end < size:
            start = os.lseek(fd, end, os.SEEK_DATA)
            end = os.lseek(fd, start, os.SEEK_HOLE)
    except OSError as error:
        # No data behind `end`; any other error: the file system does not know holes.
        return end if error.errno == errno.ENXIO else size
    return end


@contextmanager
def open_bytes(path: Path, *, sequential: bool = False) -> Iterator[FileBytes]:
    """Open a file for reading; StoreError if that is not possible.

    ``sequential`` tells the kernel that the file will be read from begin to end.
    """
    view: mmap.mmap | None = None
    fd = -1
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        size = os.fstat(fd).st_size
        if size <= READ_WHOLE_BYTES:
            data = _read(fd, size)
            file = FileBytes(path, data, len(data))
        else:
            view = mmap.mmap(fd, size, access=mmap.ACCESS_READ)
            if sequential and hasattr(view, "madvise"):
                view.madvise(mmap.MADV_SEQUENTIAL)
            # An mmap has all of bytes that readers here use: length, index, slice, buffer.
            file = FileBytes(path, cast(bytes, view), _data_end(fd, size))
    except OSError as error:
        if fd >= 0:
            os.close(fd)
        raise unreadable(path, error) from error
    try:
        yield file
    finally:
        if view is not None:
            # Columns over it may still be alive when an error or ^C ends a walk: the map goes
            # with the last of them, and the error is not hidden behind another one.
            with suppress(BufferError):
                view.close()
        os.close(fd)


def _read(fd: int, size: int) -> bytes:
    pieces = []
    while size > 0 and (piece := os.read(fd, size)):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def read_all(path: Path) -> bytes | None:
    """Contents of a small file, None if there is none; StoreError if it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> StoreError:
    """What to raise for a file that cannot be read."""
    return StoreError(
        f"cannot read {path}: {error.strerror or error}",
        "check the path and its permissions",
        path=str(path),
    )


def lock_holder(path: Path) -> int | None:
    """The process that holds a POSIX lock on a file, 0 for none, None if that cannot be told.

    The kernel's table is read instead of asking through a descriptor: closing a descriptor of the
    file would drop a lock that this very process may hold (a broker in the same process).
    """
    try:
        status = path.stat()
        table = Path("/proc/locks").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in table.splitlines():
        words = line.split()
        # "1: POSIX ADVISORY WRITE 4242 fd:01:1234 0 0"; waiting ones have "->" as second word.
        if len(words) >= 6 and words[1] == "POSIX" and words[5] == place:
            return int(words[4]) if words[4].isdigit() else None
    return 0
