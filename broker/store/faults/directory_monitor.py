"""DirectoryMonitor: detects within a second that files of the open store were removed or replaced.

If the directory or the last CommitLog file is removed or replaced, open descriptors and mappings
keep working: every put would be acknowledged, and lost at the next start. If the lock file is
removed or replaced, a second broker can write to the same files.

**Source:** no Java counterpart; RocketMQ does not detect this.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

from broker.common.thread_name import show_thread_name
from broker.store.logfile.disk import Disk, StoreLock
from broker.store.logfile.mapped_file import MappedFile, MappedFileQueue

_log = logging.getLogger(__name__)

# Each check costs about four stat calls, outside the event loop. The interval is shorter than the
# documented second to allow for a busy machine.
INTERVAL_SECONDS: Final = 0.4


class DirectoryMonitor:
    """Compares the paths with the open files, in a separate thread.

    Calls ``on_lost(reason)`` once, in that thread; then the thread ends.
    """

    def __init__(
        self,
        disk: Disk,
        lock: StoreLock,
        log_files: MappedFileQueue,
        on_lost: Callable[[str], None],
    ) -> None:
        self._disk = disk
        self._lock = lock
        self._log_files = log_files
        self._on_lost = on_lost
        # The current CommitLog file, and its (device, inode) at the first check.
        self._file: MappedFile | None = None
        self._identity = (0, 0)
        self._warned = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="store-monitor", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread."""
        self._stopping.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def check(self) -> str:
        """Reason why the store is lost, empty if it is not. Other errors are logged once."""
        try:
            return self._lock.lost() or self._lost_file()
        except OSError as error:
            if not self._warned:
                self._warned = True
                _log.warning("the store directory cannot be checked: %s", error)
            return ""

    def _lost_file(self) -> str:
        files = self._log_files.files
        file = files[-1] if files else None
        if file is None:
            return ""
        try:
            found = self._disk.identity(file.path)
        except FileNotFoundError:
            found = (0, 0)
        if found != (0, 0) and file is not self._file:
            self._file, self._identity = file, found
        # The log may have rolled to a new file during this check: check the new one next time.
        if found == self._identity or self._log_files.files[-1:] != [file]:
            return ""
        return f"{file.path} was removed or replaced while the store was open"

    def _run(self) -> None:
        show_thread_name()
        while not self._stopping.wait(INTERVAL_SECONDS):
            reason = self.check()
            if reason:
                self._on_lost(reason)
                return
