"""FilePreparer: creates the next file and loads the next pages in a worker, before their use."""

import logging
import threading
from collections.abc import Callable
from functools import partial

from broker.errors import DiskFullError, StoreError
from broker.store.logfile.mapped_file import MappedFile, MappedFileQueue
from broker.store.logfile.page_reader import PageReader

_log = logging.getLogger(__name__)


class FilePreparer:
    """Creates the file after the current one ahead of time, on another thread.

    ``run`` passes a job to that thread. :meth:`take` returns the prepared file if it is ready and
    has the requested start, and creates the file in the calling thread otherwise.

    **Source:** RocketMQ AllocateMappedFileService.
    """

    def __init__(self, queue: MappedFileQueue, run: Callable[[Callable[[], None]], None]) -> None:
        self._queue = queue
        self._run = run
        self._lock = threading.Lock()
        self._wanted = -1
        self._ready: MappedFile | None = None
        # Used by jobs only.
        self._reader: PageReader | None = None
        self._read_file: MappedFile | None = None

    def request(self, start: int) -> None:
        """Request preparation of the file that starts at ``start``."""
        self._wanted = start
        self._run(self._prepare)

    def take(self, start: int) -> MappedFile:
        """Return the file that starts at ``start``; DiskFullError if there is no space for it."""
        with self._lock:
            file, self._ready = self._ready, None
            self._wanted = -1
            if file is not None and file.start != start:
                file.destroy()
                file = None
        return file if file is not None else self._queue.prepare(start)

    def load_pages(self, file: MappedFile, start: int, end: int) -> None:
        """Request that the pages of a part of ``file`` are loaded for short writes."""
        self._run(partial(file.load_pages, start, end))

    def read_ahead(self, file: MappedFile, start: int, end: int) -> None:
        """Request that a part of ``file`` is read into the page cache, for long writes."""
        self._run(partial(self._read_ahead, file, start, end))

    def _read_ahead(self, file: MappedFile, start: int, end: int) -> None:
        # The descriptor is kept: with each system call another thread gets the interpreter lock,
        # and this one may wait 5 ms for it.
        try:
            if self._read_file is not file:
                self._end_reading()
                self._reader, self._read_file = file.disk.page_reader(file.path), file
            assert self._reader is not None
            self._reader.read(start, end)
        except (OSError, StoreError) as error:
            _log.debug("%s: not read ahead: %s", file.path, error)

    def _end_reading(self) -> None:
        reader, self._reader = self._reader, None
        self._read_file = None
        if reader is not None:
            reader.close()

    def discard(self) -> None:
        """Remove a prepared file that was not used; the worker must have stopped."""
        self._end_reading()
        with self._lock:
            self._wanted = -1
            file, self._ready = self._ready, None
        try:
            if file is not None:
                file.destroy()
        except (OSError, StoreError) as error:
            # A file of full length and zeros only: the next start recognises it as unused.
            _log.warning("%s: not removed: %s", file.path if file is not None else "", error)

    def release(self) -> None:
        """Close a prepared file that was not used; it stays on the disk. As :meth:`discard`."""
        self._end_reading()
        with self._lock:
            self._wanted = -1
            file, self._ready = self._ready, None
        if file is not None:
            file.close()

    def _prepare(self) -> None:
        self._end_reading()  # a file that is full: its space is free when it is removed
        with self._lock:
            start = self._wanted
            if start < 0 or self._ready is not None:
                return
            file = None
            try:
                file = self._queue.prepare(start)
                # Syncing here keeps the journal commit of the new file out of the first flush.
                file.sync()
            except (DiskFullError, StoreError, OSError):
                # The writer gets the same error when it needs the file, and reports it.
                if file is not None:
                    file.destroy()
                return
            self._ready = file
