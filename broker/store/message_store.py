"""MessageStore: the engine over one store directory: put, get, query, start and stop.

It must be used from one thread at a time: the event loop of a broker, or a plain program. A put
appends at once and is visible after :meth:`MessageStore.dispatch`; ``defer`` delays the dispatch
to the end of the event-loop turn, so that one dispatch serves all puts of a turn. Threads of the
store flush, do background work and monitor the directory; they never append or dispatch.

**Source:** RocketMQ DefaultMessageStore.
"""

import logging
import os
from collections.abc import Callable, Container, Iterable, Mapping

import msgspec

from broker.common.clock import Clock, SystemClock
from broker.errors import DescriptorLimitError, DiskFullError, StoreError, StoreStateError
from broker.store import config as settings
from broker.store.clean import CleanReport, run_cleaning
from broker.store.commitlog import CommitLog
from broker.store.config import DEFAULTS, MessageStoreConfig, parse_delay_levels
from broker.store.consumequeue.consume_queue import Topic
from broker.store.consumequeue.consume_queue_store import ConsumeQueueStore
from broker.store.directory_monitor import DirectoryMonitor
from broker.store.file_sizes import detect_file_sizes
from broker.store.flush import FlushCallback, FlushService, Notify, StoreCheckpoint
from broker.store.flush_barrier import FlushBarrier
from broker.store.format.state import (
    ABORT,
    BATCH_CONSUMEQUEUE_DIR,
    CHECKPOINT,
    CONSUMEQUEUE_DIR,
    INDEX_DIR,
    LOCK,
)
from broker.store.index.index_file import IndexFile
from broker.store.index.index_service import IndexService
from broker.store.logfile.disk import Disk, StoreLock, make_durable_folder
from broker.store.logfile.mapped_file import FilePreparer, MappedFileQueue
from broker.store.reader import StoreReader
from broker.store.recovery.store_recovery import Recovery, StoreParts, abort_content, same_kernel
from broker.store.reput import ArrivingListener, ReputService
from broker.store.results import (
    ConsumeQueueUnitView,
    GetMessageResult,
    GetMessageStatus,
    MessageExtBrokerInner,
    PutMessageResult,
    PutMessageStatus,
    QueryMessageResult,
    RecoveryReport,
)
from broker.store.store_manifest import Bounds, StoreManifest
from broker.store.worker import Worker, WorkerTimer
from broker.store.writer import StoreWriter

__all__ = [
    "ConsumeQueueUnitView",
    "GetMessageResult",
    "GetMessageStatus",
    "MessageExtBrokerInner",
    "MessageStore",
    "PutMessageResult",
    "PutMessageStatus",
    "QueryMessageResult",
    "RecoveryReport",
]

_log = logging.getLogger(__name__)

Defer = Callable[[Callable[[], None]], None]


class MessageStore(StoreReader, StoreWriter):
    """The engine over one store directory.

    ``defer(fn)`` schedules ``fn`` at the end of the caller's event-loop turn; without it each put
    dispatches. ``notify(fn)`` schedules ``fn`` in the caller's thread
    (``loop.call_soon_threadsafe``); without it flush callbacks run in the flushing thread.
    """

    def __init__(
        self,
        config: MessageStoreConfig = DEFAULTS,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        defer: Defer | None = None,
        notify: Notify | None = None,
        delay_levels: Mapping[int, int] | None = None,
    ) -> None:
        self.config = settings.check(config)
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.disk = disk if disk is not None else Disk()
        self.sync_flush = config.sync_flush
        self.delay_levels: Mapping[int, int] = (
            delay_levels
            if delay_levels is not None
            else parse_delay_levels(config.message_delay_level)
        )
        self._defer = defer
        self._flush_requested = False
        self._lock: StoreLock | None = None
        self._monitor: DirectoryMonitor | None = None
        # Start of the log up to which queues and index have been cleaned; -1: not yet.
        self.followed_log_min = -1
        self._noted_queues = 0
        self._open = False
        self._started = False
        self.boot_timestamp = self.clock.now_ms()
        self._build(notify)

    def _build(self, notify: Notify | None) -> None:
        config = self.config
        disk = self.disk
        root = config.root
        self._worker = Worker("store-worker", self._background_failed, self._background_died)
        self._queue_flush = WorkerTimer(self._worker, self._flush_queues)
        self._log_files = MappedFileQueue(
            disk, config.commit_log_folder, config.mapped_file_size_commit_log, keep_open=True
        )
        self.log = CommitLog(self._log_files, FilePreparer(self._log_files, self._worker.run))
        self.queue_table = ConsumeQueueStore(
            disk,
            (os.path.join(root, CONSUMEQUEUE_DIR), os.path.join(root, BATCH_CONSUMEQUEUE_DIR)),
            (config.mapped_file_size_consume_queue, config.mapper_file_size_batch_consume_queue),
        )
        self.queue_table.on_first_dirty = self._schedule_queue_flush
        self.index: IndexService | None = None
        if config.message_index_enable:
            self.index = IndexService(
                disk, os.path.join(root, INDEX_DIR), config.max_hash_slot_num, config.max_index_num
            )
            self.index.on_full = self._index_full
            self.index.now_ms = self.clock.now_ms
        self.checkpoint = StoreCheckpoint(disk, os.path.join(root, CHECKPOINT))
        self.reput = ReputService(
            self.log,
            self.queue_table,
            self.index,
            self.delay_levels,
            lmq_enabled=config.enable_multi_dispatch,
        )
        self.flusher = FlushService(
            self.log,
            config,
            self.checkpoint,
            on_failed=self._flush_failed,
            on_died=self._background_died,
            notify=notify,
        )
        self.flusher.on_flushed = self._dispatch_slice
        # Called at the end of each event-loop turn that appended; replication sends from there.
        self.on_appended: Callable[[], None] | None = None
        self.flush_barrier = FlushBarrier(self.log, self.flusher)
        self._notified = notify is not None
        StoreReader.__init__(self)
        StoreWriter.__init__(self)
        self._ends = StoreManifest(disk, root)
        self._last_thorough = 0.0

    def set_config(self, config: MessageStoreConfig) -> None:
        """Apply the settings that may change while the store is open; others are ignored.

        ConfigError for an invalid value; then no setting changes.
        """
        config = settings.check(config)
        live = {
            name: getattr(config, name)
            for name, setting in settings.SETTINGS.items()
            if setting.live
        }
        self.config = msgspec.structs.replace(self.config, **live)
        self.flusher.set_config(self.config)

    # --- life cycle ---------------------------------------------------------------------------

    def load(self) -> RecoveryReport:
        """Lock the store, open its files and recover; return the findings and actions.

        StoreLockedError if another broker uses the store. StoreError if a file has an unexpected
        name or length: the check precedes every change, so all files are unchanged then.

        **Source:** RocketMQ DefaultMessageStore#load.
        """
        if self._open:
            raise StoreStateError(f"{self.config.root}: the store is open")
        root = self.config.root
        try:
            make_durable_folder(self.disk, root)
            self._lock = self.disk.lock(os.path.join(root, LOCK))
            notes: list[str] = []
            self._ends.load()
            detect_file_sizes(self._log_files, self.queue_table, self._ends, notes)
            self._load_files(notes)
            parts = StoreParts(
                self.log,
                self.queue_table,
                self.index,
                self.reput,
                (self.checkpoint, self._ends),
            )
            report = Recovery(self.disk, self.config, parts).run()
            self.damaged = self._ends.damaged
        except OSError as error:
            self._close_files()
            path = str(error.filename or root)
            raise StoreError(
                f"{path}: {error.strerror or error}",
                "nothing can be said of a store that cannot be read: see to the disk",
                path=path,
            ) from error
        except BaseException:
            self._close_files()
            raise
        report.notes[:0] = notes
        self._open = True
        return report

    def _load_files(self, notes: list[str]) -> None:
        """Check all files before any of them is changed, then open them."""
        ends, config = self._ends, self.config
        crashed = self.disk.exists(os.path.join(config.root, ABORT))
        log, queues, index = self._log_files, self.queue_table, self.index
        log.survey(crashed=crashed, known=ends.size(0) == log.file_size)
        killed = crashed and same_kernel(self.disk, config.root)
        queues.survey(crashed=crashed, killed=killed, noted=(ends.size(1), ends.size(2)))
        if index is not None:
            index.survey(
                sizes_are_default=config.max_hash_slot_num == DEFAULTS.max_hash_slot_num
                and config.max_index_num == DEFAULTS.max_index_num,
                crashed=crashed,
                noted=ends.bounds.sizes[3:],
            )
        # The folder may be a file system that is not mounted: do not start an empty log there.
        if ends.log_end > 0 and not any(length for _, length, _ in log.surveyed or ()):
            raise StoreError(
                f"{log.folder}: no files, but the log had come to {ends.log_end}",
                "mount or restore the folder; to begin anew move all of the store directory away",
                path=log.folder,
            )
        if queues.incomplete or log.short:
            ends.require_full_scan()
        log.load(crashed=crashed, notes=notes)
        queues.load(crashed=crashed, notes=notes)
        self.checkpoint.load(notes)
        if index is not None:
            index.load(crashed=crashed, notes=notes, noted_names=ends.bounds.index)

    def start(self) -> None:
        """Start accepting messages: write ``abort``, start the threads, prepare the current file.

        **Source:** RocketMQ DefaultMessageStore#start.
        """
        if not self._open:
            raise StoreStateError(f"{self.config.root}: load() comes before start()")
        root = self.config.root
        make_durable_folder(self.disk, self.config.commit_log_folder)
        abort = os.path.join(root, ABORT)
        try:
            self.disk.write(abort, abort_content(self.disk, root))
            # Syncs the folder, and thereby the entries of lock, abort and manifest.
            self._note_ends()
        except DiskFullError as error:
            # A full disk must not prevent reads. An empty abort file suffices to detect a crash.
            if not self.disk.exists(abort):
                raise
            self.disk.sync_folder(root)
            _log.warning("not written, the next start looks more closely: %s", error.message)
        if self.index is not None:
            self.index.on_no_space = self._disk_full
            self.index.on_new = self._note_files
        self._worker.start()
        self.flusher.start()
        assert self._lock is not None
        self._monitor = DirectoryMonitor(self.disk, self._lock, self._log_files, self._store_lost)
        self._monitor.start()
        try:
            self.log.ready()
        except DiskFullError as error:
            self._disk_full(error)
        self.flags.started()
        self._started = True

    def shutdown(self) -> None:
        """Stop: dispatch and flush everything, remove the unused next file, release the lock.

        If a sync fails, ``abort`` stays, so that the next start recovers as after a crash.

        **Source:** RocketMQ DefaultMessageStore#shutdown.
        """
        if not self._open:
            return
        self._open = False
        self.flags.make_shutting_down()
        if self._monitor is not None:
            self._monitor.stop()
        if self._started:
            self.flusher.stop()
            self._worker.stop()
            clean_stop = self._flush_everything()
            self.log.preparer.discard()
            if clean_stop:
                self._leave_clean()
        self._started = False
        self._close_files()

    def _leave_clean(self) -> None:
        try:
            self._note_ends()
            self.disk.unlink(os.path.join(self.config.root, ABORT))
        except (OSError, StoreError) as error:
            _log.error("%s stays, the next start looks closely: %s", ABORT, error)

    def _flush_everything(self) -> bool:
        try:
            if not self.flusher.flush():
                return False
            self.reput.run(self.log.max_offset)
            self._sync_queues(thorough=True)
            if self.index is not None:
                self.index.catch_up()
                self.index.sync()
            self.checkpoint.flush()
        except (OSError, StoreError) as error:
            self._flush_failed(f"sync at the stop failed: {error}")
            return False
        return self.reput.offset >= self.log.max_offset

    def _close_files(self) -> None:
        if self.index is not None:
            self.index.close()
        self.queue_table.close()
        self._log_files.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # --- flush and dispatch -------------------------------------------------------------------

    def _schedule_flush(self) -> None:
        """Schedule dispatch and flush of the appended messages."""
        if self._defer is not None:
            self._deferred = True
            self._defer(self._end_of_turn)
        else:
            self._end_of_turn()

    def _end_of_turn(self) -> None:
        self._deferred = False
        if self._flush_requested:
            self._flush_requested = False
            self.flusher.wake()
        else:
            self.flusher.touched()
        if self.on_appended is not None:
            self.on_appended()
        if not self.sync_flush:
            self._dispatch_slice()

    def dispatch(self, most: int | None = None) -> None:
        """Make appended messages visible (queues, index, listeners); with SYNC_FLUSH flushed ones.

        At most ``most`` messages; None for all. Errors do not raise: a full disk and other errors
        make the store refuse writes; without a file descriptor a later call tries again.

        **Source:** RocketMQ DefaultMessageStore.ReputMessageService#doReput.
        """
        limit = self._dispatch_limit
        if self.reput.offset >= limit and not self.reput.pending:
            return
        try:
            self.reput.run(limit, most)
        except DiskFullError as error:
            self._disk_full(error)
        except DescriptorLimitError as error:
            _log.warning("dispatch waits for a file descriptor: %s", error)
        except Exception as error:
            # The event loop would only log it: messages would be acknowledged but never visible.
            _log.exception("dispatch failed")
            self._dispatch_failed(f"dispatch failed: {error}")

    def become_replica(self) -> None:
        """Refuse puts permanently: from now on only :meth:`append_replica` extends the log."""
        self.flags.make_replica()

    def append_replica(
        self, data: bytes | memoryview, physical_offset: int, last_store_timestamp: int
    ) -> None:
        """Append validated bytes of the master's log; dispatch and flush follow as after a put.

        Errors as in CommitLog.append_replica; a full disk is recorded and raised.
        """
        try:
            self.log.append_replica(data, physical_offset, last_store_timestamp)
        except DiskFullError as error:
            self._disk_full(error)
            raise
        self.reput.overflow = True  # nothing is pending for the fast path: dispatch reads the log
        if not self._deferred:
            self._schedule_flush()

    def add_arriving_listener(
        self, listener: ArrivingListener, topics: Container[str] | None = None
    ) -> None:
        """Call ``listener(topic, queue_id, max_queue_offset, tags_code, store_timestamp, raw)``.

        Called for each dispatched message in the caller's thread; ``raw``: its encoded properties.
        With ``topics`` only for topics it contains at dispatch: pass a live container, such as the
        table of suspended pulls.
        """
        self.reput.add_listener(listener, topics)

    def await_flush(self, physical_end: int, callback: FlushCallback) -> None:
        """Call ``callback(status)`` once everything below ``physical_end`` is on the disk.

        ``status`` is PUT_OK, or FLUSH_DISK_TIMEOUT after syncFlushTimeout or a failed sync. All
        waiting puts of one event-loop turn share one sync. If the result is already known, the
        callback runs within this call; otherwise through ``notify``, if the store has one.
        """
        if self.flusher.wait_for(physical_end, callback):
            self._flush_requested = True
            if self._defer is None:
                self._flush_requested = False
                self.flusher.wake()
            elif not self._deferred:
                self._schedule_flush()
            if not self.sync_flush:
                self.flusher.wake()

    def flush(self) -> bool:
        """Flush the log and dispatch it; False if the log could not be flushed."""
        done = self.flusher.flush()
        self.dispatch()
        return done

    @property
    def flushed_where(self) -> int:
        """Physical offset up to which the log is on the disk."""
        return self.log.flushed_where

    @property
    def max_physical_offset(self) -> int:
        """Physical offset after the last record."""
        return self.log.max_offset

    @property
    def min_physical_offset(self) -> int:
        """Physical offset of the first byte kept."""
        return self.log.min_offset

    # --- background work ----------------------------------------------------------------------

    def _background_failed(self, error: Exception) -> None:
        if isinstance(error, (DiskFullError, DescriptorLimitError)):
            return
        if isinstance(error, (StoreError, OSError)):
            self._flush_failed(f"sync of a derived file failed: {error}")
        else:
            self._background_died(f"background work failed: {type(error).__name__}: {error}")

    def _schedule_queue_flush(self) -> None:
        self._queue_flush.schedule(self.config.flush_interval_consume_queue)

    def _flush_queues(self) -> None:
        """Flush queues with enough dirty pages, then the checkpoint.

        Every flushConsumeQueueThoroughInterval all dirty queues are flushed; only then does the
        checkpoint's time for queues advance.
        """
        now = self.clock.monotonic_ms()
        thorough = now - self._last_thorough >= self.config.flush_consume_queue_thorough_interval
        try:
            self._sync_queues(thorough=thorough)
            if thorough:
                self._last_thorough = now
            self.checkpoint.flush()
        finally:
            if self.queue_table.dirty:
                self._schedule_queue_flush()

    def _sync_queues(self, *, thorough: bool) -> None:
        timestamp = self.reput.last_store_timestamp
        self.queue_table.sync(0 if thorough else self.config.flush_consume_queue_least_pages)
        if thorough:
            self.flush_barrier.before(lambda: self.checkpoint.set_logics(timestamp))()

    def sync_before_delete(self, log_min: int) -> bool:
        """Sync the units of records before ``log_min``, which are about to be deleted.

        Those units cannot be rebuilt from the log afterwards. False if a sync fails: the files
        must not be deleted then, and the store refuses writes.
        """
        try:
            self.queue_table.secure(log_min)
        except (OSError, StoreError) as error:
            self._flush_failed(f"sync of the queues failed: {error}")
            return False
        return True

    def _index_full(self, index: IndexFile) -> None:
        assert self.index is not None
        files = self.index.files
        set_index = self.flush_barrier.before(
            lambda: self.checkpoint.set_index(index.end_timestamp)
        )

        def job() -> None:
            # Sync earlier files too: the checkpoint covers all index files up to this one.
            for file in list(files):
                file.sync()
                if file is index:
                    break
            set_index()
            self.checkpoint.flush()

        self._worker.run(job)

    # --- administration -----------------------------------------------------------------------

    def delete_topics(self, topics: Iterable[str]) -> list[str]:
        """Remove the queues of topics; return the names of topics that had queues.

        Their records stay in the log until its files expire. Recovery does not restore them, even
        if the topic is created again. OSError or StoreError if the deletion cannot be recorded;
        then nothing is deleted.

        **Source:** RocketMQ DefaultMessageStore#deleteTopics.
        """
        if self.reput.overflow:
            self.flusher.flush()
        self.dispatch()
        table = self.queue_table.topics
        gone = [name for name in topics if name in table and table[name].queues]
        if gone:
            # Recorded before the removal: after a kill in between the next start completes it. If
            # the write fails, a later write must not record it: the topics are still in use.
            deleted = self._ends.deleted
            self._ends.deleted = {**deleted, **dict.fromkeys(gone, self.log.max_offset)}
            try:
                self._note_ends()
            except (OSError, StoreError):
                self._ends.deleted = deleted
                raise
            # With SYNC_FLUSH records may be waiting for a flush; they must not recreate the queue.
            self.reput.forget(gone)
            for name in gone:
                self.queue_table.delete_topic(name)
        return gone

    def _note_ends(self) -> None:
        log, table, index = self.log, self.queue_table, self.index
        bounds = Bounds(
            log_min=log.min_offset,
            log_end=log.flushed_where,
            sizes=[log.file_size, table.file_size, table.batch_file_size],
        )
        if index is not None:
            bounds.indexed = index.end_physical_offset
            bounds.index = [file.name for file in index.files]
            bounds.sizes += [index.slots, index.entries]
        self._ends.write(bounds, table)

    def clean_expired(self, now_ms: int | None = None, *, manual: bool = False) -> CleanReport:
        """Delete expired files, on a full disk the oldest; call every cleanResourceInterval.

        With ``manual`` expired files are deleted at any hour.
        """
        report = run_cleaning(
            self, self.clock.now_ms() if now_ms is None else now_ms, manual=manual
        )
        queues = sum(len(topic.queues) for topic in self.queue_table.topics.values())
        if (
            report.removed_commit_log_files
            or report.removed_index_files
            or queues != self._noted_queues
        ):
            self._noted_queues = queues
            self._note_files()
        if report.over_warning_level:
            reason = (
                f"{self.config.commit_log_folder}: {report.disk_ratio} % of the disk used,"
                f" limit {self.config.disk_space_warning_level_ratio} %"
            )
            if not self._disk_full_reported:
                _log.error("disk full, the store takes no writes for now: %s", reason)
            self._disk_full_reported = True
            self.flags.make_disk_over_limit(reason)
        else:
            self.flags.disk_below_limit()
            # Without puts there is no other retry, and stored messages may still need dispatch.
            self._may_retry()
        if self.dispatch_behind_bytes:
            self.dispatch()  # retry: without puts there is no other trigger
        self._report_space_recovered()
        return report

    def _note_files(self) -> None:
        """Record the current files, so that the next start misses neither deleted nor new ones.

        After a failed write the next start may read the log unnecessarily, or fail to detect the
        loss of a new file; neither justifies refusing writes.
        """
        try:
            self._note_ends()
        except (OSError, StoreError) as error:
            _log.warning("%s: not written: %s", self._ends.path, error)

    def topic(self, name: str) -> Topic | None:
        """The state of a topic, None if the store does not know it."""
        return self.queue_table.topics.get(name)
