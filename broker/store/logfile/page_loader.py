"""PageLoader: loads the pages that the next appends to the log write, in a worker.

The first write to a page takes up to 12 us on a virtual machine whose host has taken the memory
back, and less than 1 us on others. Long writes need the page in the page cache. Short ones, which
go through the mapping, need it there too, and it is dirty then.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from broker.errors import StoreError
from broker.store.logfile.mapped_file import PAGE, MappedFile
from broker.store.logfile.page_reader import PageReader

LOADED_BYTES: Final = 2 << 20
"""Bytes of the current file whose pages are loaded ahead of short writes: 20 ms of 100 MB/s."""
READ_AHEAD_MS: Final = 500
"""Time for whose writes, at their present rate, pages are read into the page cache."""
READ_AHEAD_BYTES: Final = 32 << 20
"""Bytes that are read ahead at most; at least LOADED_BYTES."""
PROBE_BYTES: Final = 512 << 10
"""Bytes that are read to find out whether pages are slow."""
PROBE_LEAD_BYTES: Final = 4 << 20
"""Distance of these bytes from the writes."""
PROBE_DISTANCE_BYTES: Final = 8 << 20
"""Bytes written from one such read to the next, while pages are not slow."""
SLOW_PAGE_NS: Final = 3_000
"""Processor time of reading one page from which all pages are read ahead of long writes.

Measured: 1,100 ns on memory that the virtual machine owns, 12,000 ns on memory from its host.
"""

_log = logging.getLogger(__name__)


class PageLoader:
    """Requests the pages of the current file ahead of its writes.

    ``run`` passes a job to the worker. ``now_ms`` is the storeTimestamp of the last record.
    ``slow_pages`` is whether pages took SLOW_PAGE_NS when they were last read.
    """

    def __init__(self, run: Callable[[Callable[[], None]], None]) -> None:
        self._run = run
        # Position in the current file up to which pages were requested, and the one at which the
        # next request is due; its time, and the bytes of short and long writes since then.
        self._loaded = 0
        self._load_at = 0
        self._load_time = 0
        self._short_bytes = self._long_bytes = 0
        self.slow_pages = True
        # While they are not slow: position at which the next few pages are read, to measure it.
        self._probe_at = 0
        # Used by jobs only.
        self._reader: PageReader | None = None
        self._read_file: MappedFile | None = None

    def start_file(self, load_at: int) -> None:
        """Expect writes to another file; its first pages are requested at position ``load_at``."""
        self._loaded, self._load_at, self._probe_at = 0, load_at, 0
        # The space of a removed file is free only if it is closed.
        self._run(self._end_reading)

    def note_write(self, file: MappedFile, size: int) -> None:
        """Count a write of ``size`` bytes."""
        if size < file.long_write:
            self._short_bytes += size
        else:
            self._long_bytes += size

    def request(self, file: MappedFile, now_ms: int, *, sync_flush: bool) -> None:
        """Request the next pages if they are due.

        With SYNC_FLUSH no page gets dirty: each group commit would write all loaded pages.
        """
        if file.written < self._load_at:
            return
        mapped = self._short_bytes > self._long_bytes and not sync_flush
        probing = not mapped and not self.slow_pages
        ahead = LOADED_BYTES if mapped or probing else self._read_ahead_bytes(now_ms)
        self._load_at = file.written + ahead // 2
        self._load_time = now_ms
        self._short_bytes = self._long_bytes = 0
        if probing:
            self._probe(file)
            return
        start = max(self._loaded, file.written // PAGE * PAGE)
        end = min(file.size, file.written // PAGE * PAGE + ahead)
        if start < end:
            self._loaded = end
            load = file.load_pages if mapped else partial(self._read_ahead, file)
            self._run(partial(load, start, end))

    def close(self) -> None:
        """Close the file that was read; the worker must have stopped."""
        self._end_reading()

    def _probe(self, file: MappedFile) -> None:
        """Read a few pages if they are due, so far ahead that they are not written before."""
        if file.written < self._probe_at:
            return
        self._probe_at = file.written + PROBE_DISTANCE_BYTES
        start = file.written // PAGE * PAGE + PROBE_LEAD_BYTES
        end = min(file.size, start + PROBE_BYTES)
        if start < end:
            self._run(partial(self._read_ahead, file, start, end))

    def _read_ahead_bytes(self, now_ms: int) -> int:
        elapsed_ms = max(1, now_ms - self._load_time)
        wanted = (self._short_bytes + self._long_bytes) * READ_AHEAD_MS // elapsed_ms
        return min(max(wanted, LOADED_BYTES), READ_AHEAD_BYTES)

    def _read_ahead(self, file: MappedFile, start: int, end: int) -> None:
        # The descriptor is kept: with each system call another thread gets the interpreter lock,
        # and this one may wait 5 ms for it.
        try:
            if self._read_file is not file:
                self._end_reading()
                self._reader, self._read_file = file.disk.page_reader(file.path), file
            assert self._reader is not None
            took_ns = self._reader.read(start, end)
            if file.written <= start:  # pages that were written meanwhile are in the page cache
                self.slow_pages = took_ns * PAGE >= (end - start) * SLOW_PAGE_NS
        except (OSError, StoreError) as error:
            _log.debug("%s: not read ahead: %s", file.path, error)

    def _end_reading(self) -> None:
        reader, self._reader = self._reader, None
        self._read_file = None
        if reader is not None:
            reader.close()
