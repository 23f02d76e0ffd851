"""Flush: bring the log to the disk, for everybody who waits at once; write the checkpoint.

SYNC_FLUSH is group commit: whoever waits gives its physical end, one ``fdatasync`` in one thread
serves all that came before it, without the interpreter lock. The file that holds the flushed
position goes first, then the ones after it. ASYNC_FLUSH looks every flushIntervalCommitLog and
syncs when enough pages are dirty; while nothing is written the thread sleeps without a timer.

A sync that fails is never repeated and believed: the kernel may have thrown the pages away. From
then on nothing is acknowledged, the store takes no more writes, and says why.

**Source:** RocketMQ CommitLog.GroupCommitService, FlushRealTimeService, StoreCheckpoint. Java
logs a failed force and goes on as if it had worked; this is not copied.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from broker.errors import StoreError
from broker.store.commitlog import CommitLog
from broker.store.config import MessageStoreConfig
from broker.store.files import Disk
from broker.store.format.checkpoint import Checkpoint, decode_checkpoint, encode_checkpoint
from broker.store.mapped_file import PAGE
from broker.store.results import PutMessageStatus

FlushCallback = Callable[[PutMessageStatus], None]
Notify = Callable[[Callable[[], None]], None]

# How often waits are looked at for their timeout; syncFlushTimeout is seconds.
_WATCH_SECONDS: Final = 0.5
_PUT_OK: Final = PutMessageStatus.PUT_OK
_TIMEOUT: Final = PutMessageStatus.FLUSH_DISK_TIMEOUT


class StoreCheckpoint:
    """The checkpoint file: up to which time log, queues and index are on the disk.

    Values move only after the sync they tell of.
    """

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._lock = threading.Lock()
        self.value = Checkpoint()
        self._stored = Checkpoint()

    def load(self, notes: list[str]) -> None:
        """Read the file; a missing or unreadable one counts as all zeros."""
        if not self._disk.exists(self._path):
            return
        try:
            self.value = self._stored = decode_checkpoint(self._disk.read(self._path))
        except Exception as error:
            notes.append(f"{self._path}: {error}; taken as empty")

    def set_physic(self, timestamp: int) -> None:
        """The log is on the disk up to the record of this storeTimestamp."""
        with self._lock:
            self.value = self.value._replace(physic_msg_timestamp=timestamp)

    def set_logics(self, timestamp: int) -> None:
        """The queues are on the disk up to the record of this storeTimestamp."""
        with self._lock:
            self.value = self.value._replace(logics_msg_timestamp=timestamp)

    def set_index(self, timestamp: int) -> None:
        """Full index files are on the disk up to this time."""
        with self._lock:
            self.value = self.value._replace(index_msg_timestamp=timestamp)

    def flush(self) -> None:
        """Write the file if a value has moved."""
        with self._lock:
            value = self.value
            if value == self._stored and self._disk.exists(self._path):
                return
            fd = self._disk.open(self._path, create=True)
            try:
                # Space first: a full disk is another error than a failed write.
                data = encode_checkpoint(value)
                self._disk.reserve(fd, len(data), self._path)
                self._disk.write_at(fd, data, 0)
                self._disk.sync_data(fd)
            finally:
                self._disk.close(fd)
            self._stored = value


class FlushService:
    """The flushing thread of the log.

    ``on_failed(reason)`` is told of a failed sync, in the flushing thread. ``notify(fn)`` runs
    ``fn`` where callbacks belong (the event loop); without it they run in the flushing thread.
    """

    def __init__(
        self,
        log: CommitLog,
        config: MessageStoreConfig,
        checkpoint: StoreCheckpoint,
        on_failed: Callable[[str], None],
        notify: Notify | None,
    ) -> None:
        self.failed = ""
        self.syncs = 0
        self._log = log
        self.config = config
        self._checkpoint = checkpoint
        self._on_failed = on_failed
        self._notify = notify
        self.on_flushed: Callable[[], None] | None = None
        self._sync_lock = threading.Lock()
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, float, FlushCallback]] = []
        # Those that the sync under way serves.
        self._served: list[tuple[int, float, FlushCallback]] = []
        self._clock_seconds: Callable[[], float] = time.monotonic
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._awake = False
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the thread; with SYNC_FLUSH a second one that ends waits at their timeout."""
        self._threads = [threading.Thread(target=self._run, name="store-flush", daemon=True)]
        if self.config.sync_flush:
            self._threads.append(
                threading.Thread(target=self._watch, name="store-flush-watch", daemon=True)
            )
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the threads; what waits is answered."""
        self._stopping.set()
        self._wake.set()
        for thread in self._threads:
            thread.join()
        self._threads = []
        with self._lock:
            left, self._waiting = self._waiting, []
        if left:
            self._complete(left)

    def touched(self) -> None:
        """The log has grown (ASYNC_FLUSH): wake the thread if it sleeps without a timer."""
        if not self._awake:
            self._awake = True
            self._wake.set()

    def wait_for(self, physical_end: int, callback: FlushCallback) -> bool:
        """Call ``callback`` when everything below ``physical_end`` is on the disk.

        True when a flush must be started for it (:meth:`wake`), which the caller does once for
        all that wait; False when the answer was given at once.
        """
        if self.failed:
            callback(_TIMEOUT)
            return False
        if physical_end <= self._log.flushed_where:
            callback(_PUT_OK)
            return False
        deadline = self._clock_seconds() + self.config.sync_flush_timeout / 1000
        with self._lock:
            self._waiting.append((physical_end, deadline, callback))
        return True

    def wake(self) -> None:
        """Start a flush for those who wait."""
        self._wake.set()

    def flush(self) -> bool:
        """Flush the whole log now, in the calling thread; False if a sync has failed."""
        with self._sync_lock:
            if self.failed:
                return False
            log = self._log
            # Read before the end: the record of this time is then below that end.
            timestamp = log.last_store_timestamp
            end = log.max_offset
            if end <= log.flushed_where:
                return True
            try:
                for file in log.files_from(log.flushed_where):
                    file.sync()
                    self.syncs += 1
            except (OSError, StoreError) as error:
                self.failed = f"sync of the CommitLog failed: {error}"
                self._on_failed(self.failed)
                return False
            log.flushed_where = end
            self._checkpoint.set_physic(timestamp)
            return True

    def _run(self) -> None:
        sync = self.config.sync_flush
        while not self._stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            if self._waiting or sync:
                self._serve()
            if not sync and self._awake:
                self._pace()

    def _serve(self) -> None:
        """One flush for all that wait now."""
        with self._lock:
            self._served, self._waiting = self._waiting, []
        if self._served or self._log.flushed_where < self._log.max_offset:
            self.flush()
            with self._lock:
                served, self._served = self._served, []
            self._complete(served)

    def _pace(self) -> None:
        """Flush by pages and intervals until nothing is dirty, then sleep without a timer."""
        log = self._log
        last = self._clock_seconds()
        while not self._stopping.is_set():
            config = self.config  # it may be changed between two rounds
            thorough = config.flush_commit_log_thorough_interval / 1000
            if self._wake.wait(config.flush_interval_commit_log / 1000):
                self._wake.clear()
            if self._waiting:
                self._serve()
            now = self._clock_seconds()
            pages = log.max_offset // PAGE - log.flushed_where // PAGE
            if pages >= config.flush_commit_log_least_pages or now - last >= thorough:
                last = now
                if not self.flush():
                    break
            if log.flushed_where >= log.max_offset:
                self._awake = False
                # A put between the look and the line above saw the thread awake: look again.
                if log.flushed_where >= log.max_offset:
                    return
                self._awake = True

    def _complete(self, waiting: list[tuple[int, float, FlushCallback]]) -> None:
        flushed = self._log.flushed_where
        on_flushed = self.on_flushed

        def answer() -> None:
            if on_flushed is not None:
                on_flushed()
            for physical_end, _, callback in waiting:
                callback(_PUT_OK if physical_end <= flushed else _TIMEOUT)

        if self._notify is not None:
            self._notify(answer)
        else:
            for physical_end, _, callback in waiting:
                callback(_PUT_OK if physical_end <= flushed else _TIMEOUT)

    def _watch(self) -> None:
        while not self._stopping.wait(_WATCH_SECONDS):
            self.expire(self._clock_seconds())

    def expire(self, now: float) -> None:
        """Answer FLUSH_DISK_TIMEOUT to everybody whose deadline (monotonic seconds) has passed."""
        if not self._waiting and not self._served:
            return
        with self._lock:
            late = [entry for entry in self._served + self._waiting if entry[1] <= now]
            if late:
                self._waiting = [entry for entry in self._waiting if entry[1] > now]
                self._served = [entry for entry in self._served if entry[1] > now]
        if late:
            self._complete(late)
