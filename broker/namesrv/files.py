"""Small files of the name server, replaced as a whole or not at all.

::

    path.tmp written and synced → path copied aside as path.bak → path.tmp renamed to path

**Source:** RocketMQ MixAll#string2File, #file2String (the .bak beside the file); the sync and the
rename are ours, so that a cut of power leaves the old or the new file.
"""

import contextlib
import os
from pathlib import Path

from broker.errors import StoreError


def write_atomically(path: str, text: str) -> None:
    """Replace the file by ``text`` (UTF-8); its former content stays beside it as ``.bak``.

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
    """The file's text, then its ``.bak``'s: the first that makes sense is the one to take.

    Files that are not there are left out. Raises StoreError when one is there and unreadable.
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
