"""One writer per output directory."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from broker.errors import ConfigError, StoreLockedError


@contextmanager
def held(out: str) -> Iterator[None]:
    """Keep other runs out of a directory, which is made if it is not there; "" is no directory.

    The lock is on the directory itself and ends with the process: nothing is left of it. Within a
    shared file system that knows no such locks it is the user who keeps runs apart. ConfigError
    if the directory cannot be made or read, StoreLockedError while another run holds it.
    """
    if not out:
        yield
        return
    place = Path(out)
    try:
        place.mkdir(parents=True, exist_ok=True)
        fd = os.open(place, os.O_RDONLY)
    except OSError as error:
        raise ConfigError(
            f"cannot write to {out}: {error.strerror}", "give another --out"
        ) from error
    try:
        _lock(fd, out)
        try:
            yield
        finally:
            with suppress(OSError):  # there is something in it
                place.rmdir()
    finally:
        os.close(fd)


def _lock(fd: int, out: str) -> None:
    try:
        import fcntl

        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreLockedError(
            f"{out}: another run is writing to it", "wait for it, or give another --out", path=out
        ) from None
    except (ImportError, OSError):
        pass  # a system or file system without such locks
