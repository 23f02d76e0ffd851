"""Exclusive lock on an output directory."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from broker.errors import ConfigError, StoreLockedError

try:
    import fcntl

    HAS_LOCKS = True
except ImportError:  # Windows: concurrent runs are not detected
    HAS_LOCKS = False


@contextmanager
def output_lock(out: str) -> Iterator[None]:
    """Lock an output directory against other runs; create it if missing. "" locks nothing.

    The lock is an flock on the directory itself: the kernel releases it when the process ends. On
    file systems without such locks concurrent runs are not detected. A directory that is empty in
    the end is removed. ConfigError if it cannot be created or opened, StoreLockedError while
    another run holds the lock.
    """
    if not out:
        yield
        return
    directory = Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        fd = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise ConfigError(
            f"cannot write to {out}: {error.strerror}", "choose another --out"
        ) from error
    try:
        _lock(fd, out)
        try:
            yield
        finally:
            with suppress(OSError):  # not empty
                directory.rmdir()
    finally:
        os.close(fd)


def _lock(fd: int, out: str) -> None:
    if not HAS_LOCKS:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreLockedError(
            f"{out}: another run is writing to it", "wait for it, or choose another --out", path=out
        ) from None
    except OSError:
        pass  # a file system without locks
