"""Load pages of a mapping for writing, without the interpreter lock.

Imported with the first use, by the thread that loads: ctypes costs 3 ms.

**Source:** RocketMQ DefaultMappedFile#warmMappedFile (there by writing a byte into each page of a
whole file).
"""

import ctypes
import mmap
import os
from typing import Final

MADV_POPULATE_WRITE: Final = 23

_libc: Final = ctypes.CDLL(None, use_errno=True)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.madvise.restype = ctypes.c_int


def load_pages(memory: mmap.mmap, start: int, end: int) -> None:
    """Make the pages from ``start`` to ``end`` present and writable; their content stays.

    ``start`` is a multiple of the page. OSError if the kernel cannot: before Linux 5.14, or because
    the range has a hole and the disk is full.
    """
    part = (ctypes.c_char * (end - start)).from_buffer(memory, start)
    if _libc.madvise(ctypes.addressof(part), end - start, MADV_POPULATE_WRITE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
