"""FlushService: sync the log to the disk, one sync for all waiting puts; write the checkpoint.

SYNC_FLUSH is group commit: each waiting put registers its physical end, and one ``fdatasync`` in
the flushing thread, without the interpreter lock, serves all puts registered before it. Files are
synced in order, starting with the file that contains the flushed position. A record without a
waiting put (WAIT=false, a delivered delayed message, a send-back) is flushed within the
group-commit interval and dispatched after its flush like any other. ASYNC_FLUSH checks every
flushIntervalCommitLog and syncs when enough pages are dirty. If no page is dirty, the thread sleeps
without a timer.

A failed sync is not retried: the kernel may have dropped the dirty pages, so that a later success
would prove nothing. From then on no message is acknowledged, and the store refuses writes with the
reason.

**Source:** RocketMQ CommitLog.GroupCommitService, FlushRealTimeService, StoreCheckpoint. Java
logs a failed force and continues as after a success; this is not copied.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from broker.errors import DescriptorLimitError
from broker.store.commitlog import CommitLog
from broker.store.config import MessageStoreConfig
from broker.store.faults.running_flags import RunningFlags
from broker.store.flushing.wake_signal import WakeSignal
from broker.store.flushing.worker import supervised_thread
from broker.store.format.checkpoint import (
    FILE_SIZE,
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
)
from broker.store.logfile.disk import Disk
from broker.store.logfile.mapped_file import PAGE
from broker.store.results import PutMessageStatus

_log = logging.getLogger(__name__)

FlushCallback = Callable[[PutMessageStatus], None]
Notify = Callable[[Callable[[], None]], None]
# (physical end, deadline in monotonic seconds, callback)
WaitingPut = tuple[int, float, FlushCallback]

# Interval of the timeout check of waiting puts; syncFlushTimeout is usually several seconds.
_WATCH_SECONDS: Final = 0.5
# Maximum time that a record without a waiting put stays unflushed under SYNC_FLUSH. Java's
# GroupCommitService wakes up at the same interval. Each interval costs a sync, so a shorter one
# costs more syncs; a longer one delays delivered delayed messages and send-backs.
GROUP_COMMIT_SECONDS: Final = 0.01
_PUT_OK: Final = PutMessageStatus.PUT_OK
_TIMEOUT: Final = PutMessageStatus.FLUSH_DISK_TIMEOUT


class StoreCheckpoint:
    """The checkpoint file: the storeTimestamps (ms) up to which log, queues and index are synced.

    A value advances only after the sync that it records. After a failed sync of any file the
    checkpoint stays as it is: the kernel may have dropped the pages, and later syncs succeed.
    """

    def __init__(self, disk: Disk, path: str, flags: RunningFlags) -> None:
        self._disk = disk
        self._path = path
        self._flags = flags
        self._lock = threading.Lock()
        self.value = Checkpoint()
        # None for a missing, invalid or truncated file: the next flush writes all of it.
        self._stored: Checkpoint | None = None

    def load(self, notes: list[str]) -> None:
        """Read the file; a missing or invalid one counts as all zeros."""
        if not self._disk.exists(self._path):
            return
        try:
            data = self._disk.read(self._path)
            self.value = decode_checkpoint(data)
            if len(data) >= FILE_SIZE:
                self._stored = self.value
        except Exception as error:
            notes.append(f"{self._path}: {error}; treated as empty")

    def set_physic(self, timestamp: int) -> None:
        """Record that the log is on the disk up to the record with this storeTimestamp."""
        with self._lock:
            self.value = self.value._replace(physic_msg_timestamp=timestamp)

    def set_logics(self, timestamp: int) -> None:
        """Record that the queues are on the disk up to the record with this storeTimestamp."""
        with self._lock:
            self.value = self.value._replace(logics_msg_timestamp=timestamp)

    def set_index(self, timestamp: int) -> None:
        """Record that full index files are on the disk up to this storeTimestamp."""
        with self._lock:
            self.value = self.value._replace(index_msg_timestamp=timestamp)

    def flush(self) -> None:
        """Write and sync the file if a value has changed or the file is missing."""
        with self._lock:
            value = self.value
            if self._flags.sync_failed:
                return
            if value == self._stored and self._disk.exists(self._path):
                return
            fd = self._disk.open(self._path, create=True)
            try:
                # Reserve space first: a full disk (DiskFullError) must not count as a failed sync.
                data = encode_checkpoint(value)
                self._disk.reserve(fd, len(data), self._path)
                self._disk.write_at(fd, data, 0)
                self._disk.sync_data(fd)
            finally:
                self._disk.close(fd)
            self._stored = value


class FlushService:
    """The flushing thread of the log.

    ``on_failed(reason)`` is called after a failed sync, ``on_died(reason)`` when a thread dies,
    both in that thread. ``notify(fn)`` schedules ``fn`` in the thread for callbacks (the event
    loop); without it callbacks run in the flushing thread, and ``on_flushed`` is not called.
    """

    def __init__(
        self,
        log: CommitLog,
        config: MessageStoreConfig,
        checkpoint: StoreCheckpoint,
        *,
        on_failed: Callable[[str], None],
        on_died: Callable[[str], None],
        notify: Notify | None,
    ) -> None:
        # Reason why flushing has stopped permanently; empty while it works.
        self.failed = ""
        self.syncs = 0
        self._log = log
        self.config = config
        self._checkpoint = checkpoint
        self._on_failed = on_failed
        self._on_died = on_died
        self._notify = notify
        self.on_flushed: Callable[[], None] | None = None
        self._sync_lock = threading.Lock()
        self._lock = threading.Lock()
        self._waiting: list[WaitingPut] = []
        # The waiting puts that the running sync serves.
        self._served: list[WaitingPut] = []
        self._clock_seconds: Callable[[], float] = time.monotonic
        self._wake = WakeSignal()
        self._stopping = threading.Event()
        self._awake = False
        # Flushed position at the last call of ``on_flushed``.
        self._announced = 0
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start the thread; with SYNC_FLUSH also a thread that expires waiting puts."""
        self._announced = self._log.flushed_where
        self._threads = [supervised_thread("store-flush", self._run, self._died)]
        if self.config.sync_flush:
            self._threads.append(supervised_thread("store-flush-watch", self._watch, self._died))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the threads and answer all waiting puts."""
        self._stopping.set()
        self._wake.set()
        for thread in self._threads:
            thread.join()
        self._threads = []
        with self._lock:
            left, self._waiting = self._waiting, []
        if left:
            self._complete(left)

    def set_config(self, config: MessageStoreConfig) -> None:
        """Apply changed settings at once; wakes the thread from its current interval."""
        self.config = config
        self._wake.set()

    def touched(self) -> None:
        """Report growth of the log without a waiting put; wakes a thread without a timer."""
        if not self._awake:
            self._awake = True
            self._wake.set()

    def wait_for(self, physical_end: int, callback: FlushCallback) -> bool:
        """Call ``callback(status)`` when everything below ``physical_end`` is on the disk.

        True: the caller must start a flush (:meth:`wake`), once for all puts of its turn. False:
        the callback was called at once.
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
        """Start a flush for the waiting puts."""
        self._wake.set()

    def flush(self) -> bool:
        """Flush the whole log in the calling thread; False if that failed or has failed before."""
        with self._sync_lock:
            if self.failed:
                return False
            log = self._log
            # Read the timestamp before the end: its record is then below the end.
            timestamp = log.written_store_timestamp
            end = log.max_offset
            if end <= log.flushed_where:
                return True
            try:
                for file in log.files_from(log.flushed_where):
                    file.sync()
                    self.syncs += 1
            except DescriptorLimitError as error:
                # The file was not opened, so no dirty page was lost: the next round tries again.
                _log.warning("the flush waits for a file descriptor: %s", error)
                return False
            except Exception as error:
                # After any other error the unflushed bytes may not be on the disk.
                self.failed = f"sync of the CommitLog failed: {error}"
                self._on_failed(self.failed)
                return False
            log.flushed_where = end
            self._checkpoint.set_physic(timestamp)
            return True

    def fail(self, reason: str) -> None:
        """Stop flushing and acknowledging permanently; answer the waiting puts."""
        self.failed = self.failed or reason
        self.wake()

    def _died(self, reason: str) -> None:
        """Stop acknowledging after the death of a thread; answer the waiting puts."""
        self.failed = self.failed or reason
        self._on_died(reason)
        with self._lock:
            left, self._waiting, self._served = self._served + self._waiting, [], []
        if left:
            self._complete(left)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait()
            if self._waiting:
                self.serve_waiting()
            self._pace()

    def serve_waiting(self) -> None:
        """Flush once for all waiting puts and all other unflushed records."""
        with self._lock:
            self._served, self._waiting = self._waiting, []
        self.flush()
        with self._lock:
            served, self._served = self._served, []
        # Also after a flush by another thread, which does not dispatch.
        if served or self._announced < self._log.flushed_where:
            self._complete(served)

    def _pace(self) -> None:
        """Flush at intervals until no page is dirty, then return to sleep without a timer.

        SYNC_FLUSH: everything at each group-commit interval. ASYNC_FLUSH: by pages and intervals.
        """
        last = self._clock_seconds()
        while not self._stopping.is_set() and not self.failed:
            if not self._dirty():
                self._awake = False
                # A put between the check and the assignment saw _awake and did not wake the
                # thread: check again.
                if not self._dirty():
                    return
            self._awake = True
            config = self.config  # set_config may replace it between two rounds
            sync = config.sync_flush
            interval = GROUP_COMMIT_SECONDS if sync else config.flush_interval_commit_log / 1000
            self._wake.wait(interval)
            if sync or self._waiting:
                self.serve_waiting()
                continue
            now = self._clock_seconds()
            pages = self._log.max_offset // PAGE - self._log.flushed_where // PAGE
            thorough = config.flush_commit_log_thorough_interval / 1000
            if pages >= config.flush_commit_log_least_pages or now - last >= thorough:
                last = now
                self.flush()

    def _dirty(self) -> bool:
        """Whether records are unflushed, or flushed by another thread and not dispatched."""
        flushed = self._log.flushed_where
        return flushed < self._log.max_offset or (
            self.config.sync_flush and self._announced < flushed
        )

    def _complete(self, waiting: list[WaitingPut]) -> None:
        """Call ``on_flushed``, then the callbacks of ``waiting``, through ``notify``."""
        flushed = self._announced = self._log.flushed_where
        on_flushed = self.on_flushed

        def respond() -> None:
            if on_flushed is not None:
                try:
                    on_flushed()
                except Exception:
                    # The waiting puts are flushed nevertheless: their callbacks must be called.
                    _log.exception("the listener of flushes failed")
            _call_back(waiting, flushed)

        if self._notify is not None:
            self._notify(respond)
        else:
            _call_back(waiting, flushed)

    def _watch(self) -> None:
        while not self._stopping.wait(_WATCH_SECONDS):
            self.expire(self._clock_seconds())

    def expire(self, now: float) -> None:
        """Answer the waiting puts whose deadline (monotonic seconds) is before ``now``.

        FLUSH_DISK_TIMEOUT, or PUT_OK if the put has just been flushed.
        """
        if not self._waiting and not self._served:
            return
        with self._lock:
            late = [entry for entry in self._served + self._waiting if entry[1] <= now]
            if late:
                self._waiting = [entry for entry in self._waiting if entry[1] > now]
                self._served = [entry for entry in self._served if entry[1] > now]
        if late:
            self._complete(late)


def _call_back(waiting: list[WaitingPut], flushed: int) -> None:
    """Call every callback, also after one that fails."""
    for physical_end, _, callback in waiting:
        try:
            callback(_PUT_OK if physical_end <= flushed else _TIMEOUT)
        except Exception:
            _log.exception("the flush callback of physical offset %d failed", physical_end)
