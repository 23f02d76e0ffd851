"""PageReader: reads parts of a file into the page cache, before they are written.

**Source:** no Java counterpart; DefaultMappedFile#warmMappedFile writes a byte to each page.
"""

import os
import sys
import time
from collections.abc import Callable


class PageReader:
    """Reads reserved space of one file, without a change; the bytes go nowhere.

    A part is read in one system call, during which other threads run Python code;
    POSIX_FADV_WILLNEED reads no more than read_ahead_kb in one call. The kernel caches single
    pages, see :meth:`broker.store.logfile.disk.Disk.expect_single_pages`.
    """

    def __init__(self, fd: int, close: Callable[[int], None]) -> None:
        """Take the file's descriptor; ``close`` closes it."""
        self._fd = fd
        self._close = close
        self._nowhere = -1
        if sys.platform == "linux":
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
            self._nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)

    def read(self, start: int, end: int) -> int:
        """Read the bytes from ``start`` to ``end``; OSError if the system cannot.

        Returns the processor time it took, ns.
        """
        if self._nowhere < 0:
            return 0
        before_ns = time.thread_time_ns()
        while start < end and (count := os.sendfile(self._nowhere, self._fd, start, end - start)):
            start += count
        return time.thread_time_ns() - before_ns

    def close(self) -> None:
        """Close the descriptors."""
        self._close(self._fd)
        if self._nowhere >= 0:
            os.close(self._nowhere)
