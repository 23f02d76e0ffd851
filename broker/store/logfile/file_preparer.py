"""FilePreparer: creates the next file in a worker, before its use."""

import logging
import threading
from collections.abc import Callable

from broker.errors import DiskFullError, StoreError
from broker.store.logfile.mapped_file import MappedFile, MappedFileQueue

_log = logging.getLogger(__name__)


class FilePreparer:
    """Creates the file after the current one ahead of time, on another thread.

    ``run`` passes a job to that thread. :meth:`take` returns the prepared file if it is ready and
    has the requested start, and creates the file in the calling thread otherwise.

    **Source:** RocketMQ AllocateMappedFileService.
    """

    def __init__(self, queue: MappedFileQueue, run: Callable[[Callable[[], None]], None]) -> None:
        self._queue = queue
        self.run = run
        self._lock = threading.Lock()
        self._wanted = -1
        self._ready: MappedFile | None = None

    def request(self, start: int) -> None:
        """Request preparation of the file that starts at ``start``."""
        self._wanted = start
        self.run(self._prepare)

    def take(self, start: int) -> MappedFile:
        """Return the file that starts at ``start``; DiskFullError if there is no space for it."""
        with self._lock:
            file, self._ready = self._ready, None
            self._wanted = -1
            if file is not None and file.start != start:
                file.destroy()
                file = None
        return file if file is not None else self._queue.prepare(start)

    def discard(self) -> None:
        """Remove a prepared file that was not used."""
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
        """Close a prepared file that was not used; it stays on the disk."""
        with self._lock:
            self._wanted = -1
            file, self._ready = self._ready, None
        if file is not None:
            file.close()

    def _prepare(self) -> None:
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
