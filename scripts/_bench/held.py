"""Files held in memory while they are measured.

The page cache is measured, not the disk. Some machines, the one of this project among them,
drop pages from the cache that were idle for half a minute: the next row would read them again.
"""

import ctypes
import mmap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

_LIBC = ctypes.CDLL(None, use_errno=True)


@contextmanager
def held(paths: Iterable[Path]) -> Iterator[None]:
    """Keep these files in the page cache; where that is not allowed, read them once."""
    mappings = []
    for path in paths:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        view = np.frombuffer(mapped, dtype=np.uint8)
        if _LIBC.mlock(ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(view.nbytes)):
            view.view(np.uint64 if view.nbytes % 8 == 0 else np.uint8).sum()
        mappings.append((mapped, view))
    try:
        yield
    finally:
        while mappings:
            mapped, view = mappings.pop()
            del view
            mapped.close()


def log_files(root: Path) -> list[Path]:
    """The CommitLog files of a store."""
    return sorted((root / "commitlog").iterdir())
