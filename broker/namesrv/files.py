"""Small files of the name server, replaced atomically.

::

    path.tmp written and synced → path copied aside as path.bak → path.tmp renamed to path

**Source:** RocketMQ MixAll#string2File, #file2String (the .bak file); Java neither syncs nor
renames atomically. Here a power failure leaves the old or the new file.
"""

import contextlib
import os
from pathlib import Path

from broker.errors import StoreError


def write_atomically(path: str, data: bytes) -> None:
    """Replace the file's content by ``data``; a ``.bak`` file keeps the old content.

    Raises StoreError naming the path.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(target.name + ".tmp")
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            target.with_name(target.name + ".bak").write_bytes(target.read_bytes())
        temporary.replace(target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be written: {error.strerror or error}",
            "is the directory writable, is there space?",
            path=path,
        ) from error


def read_copies(path: str) -> list[bytes]:
    """Return the content of the file and of its ``.bak``; callers use the first valid one.

    Missing files are skipped. Raises StoreError for an existing file that cannot be read.
    """
    copies = []
    for candidate in (path, f"{path}.bak"):
        try:
            copies.append(Path(candidate).read_bytes())
        except FileNotFoundError:
            continue
        except OSError as error:
            raise StoreError(f"{candidate}: cannot be read: {error}", path=candidate) from error
    return copies
