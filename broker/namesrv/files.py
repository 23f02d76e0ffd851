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


def write_atomically(path: str, text: str) -> None:
    """Replace the file's content by ``text`` (UTF-8); a ``.bak`` file keeps the old content.

    Raises StoreError naming the path.
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(target.name + ".tmp")
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
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


def read_texts(path: str) -> list[str]:
    """Return the text of the file and of its ``.bak``; callers use the first valid one.

    Missing files are skipped. Raises StoreError for an existing file that cannot be read.
    """
    texts = []
    for candidate in (path, f"{path}.bak"):
        try:
            texts.append(Path(candidate).read_text(encoding="utf-8"))
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise StoreError(f"{candidate}: cannot be read: {error}", path=candidate) from error
    return texts
