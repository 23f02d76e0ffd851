"""Atomic replacement of small files."""

import os
import uuid
from pathlib import Path


def write_atomically(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a file under a temporary name and rename it.

    ``sync`` flushes the data first: after a power cut the file is either the old or the new one,
    never an incomplete one.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
