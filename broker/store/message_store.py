"""MessageStore: the room's front door — put, get, query, look, and the life of a store.

One caller at a time uses it: the event loop of a broker, or a plain program. Puts append at once
and are visible after :meth:`MessageStore.dispatch`, which ``defer`` puts off to the end of the
event-loop turn so that a turn's messages go in one batch. Two threads of its own flush and do
background work; they never touch what the caller writes.

**Source:** RocketMQ DefaultMessageStore.
"""

import logging
import os
from collections.abc import Callable, Container, Iterable, Mapping

import msgspec

from broker.common.clock import Clock, SystemClock
from broker.errors import DiskFullError, StoreError, StoreStateError
from broker.store.clean import CleanReport, run_cleaning
from broker.store.commitlog import CommitLog
from broker.store.config import (
    DEFAULTS,
    SETTINGS,
    MessageStoreConfig,
    check,
    parse_delay_levels,
)
from broker.store.consumequeue import Topic
from broker.store.files import Disk, StoreLock, make_durable_folder
from broker.store.flush import FlushCallback, FlushService, Notify, StoreCheckpoint
from broker.store.format.state import (
    ABORT,
    BATCH_CONSUMEQUEUE_DIR,
    CHECKPOINT,
    CONSUMEQUEUE_DIR,
    INDEX_DIR,
    LOCK,
)
from broker.store.index import IndexService
from broker.store.index_file import IndexFile
from broker.store.mapped_file import FilePreparer, MappedFileQueue
from broker.store.query import StoreReader
from broker.store.queue_ends import Bounds, QueueEnds
from broker.store.queue_table import ConsumeQueueTable
from broker.store.recovery import Recovery, StoreParts, abort_content, same_kernel
from broker.store.reput import ArrivingListener, ReputService
from broker.store.results import (
    ConsumeQueueUnitView,
    GetMessageResult,
    GetMessageStatus,
    MessageInner,
    PutMessageResult,
    PutMessageStatus,
    QueryMessageResult,
    RecoveryReport,
)
from broker.store.worker import Worker
from broker.store.writer import DISK_FULL, StoreWriter

__all__ = [
    "ConsumeQueueUnitView",
    "GetMessageResult",
    "GetMessageStatus",
    "MessageInner",
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

    ``defer(fn)`` runs ``fn`` at the end of the caller's event-loop turn; without it dispatch runs
    within each put. ``notify(fn)`` runs ``fn`` in the caller's thread soon
    (``loop.call_soon_threadsafe``); without it flush callbacks come from the flushing thread.
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
        self.config = check(config)
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.disk = disk if disk is not None else Disk()
        self.sync_flush = config.sync_flush
        self.delay_levels: Mapping[int, int] = (
            delay_levels
            if delay_levels is not None
            else parse_delay_levels(config.message_delay_level)
        )
        self._defer = defer
        self._flush_wanted = False
        self._lock: StoreLock | None = None
        # Up to which begin of the log queues and index have been cleaned.
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
        self._worker = Worker("store-worker", self._background_failed)
        self._log_files = MappedFileQueue(
            disk, config.commit_log_folder, config.mapped_file_size_commit_log, keep_open=True
        )
        self.log = CommitLog(self._log_files, FilePreparer(self._log_files, self._worker.run))
        self.queue_table = ConsumeQueueTable(
            disk,
            (os.path.join(root, CONSUMEQUEUE_DIR), os.path.join(root, BATCH_CONSUMEQUEUE_DIR)),
            (config.mapped_file_size_consume_queue, config.mapper_file_size_batch_consume_queue),
        )
        self.queue_table.on_first_dirty = self._queues_dirty
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
            light_queues=config.enable_multi_dispatch,
        )
        self.flusher = FlushService(self.log, config, self.checkpoint, self._flush_failed, notify)
        self.flusher.on_flushed = self.dispatch
        self._notified = notify is not None
        StoreReader.__init__(self)
        StoreWriter.__init__(self)
        self._ends = QueueEnds(disk, root)
        self._last_thorough = 0.0

    def set_config(self, config: MessageStoreConfig) -> None:
        """Take over changed settings, of those that may change while the store is open.

        ConfigError for a value nothing can work with; then nothing changes.
        """
        config = check(config)
        live = {name: getattr(config, name) for name, setting in SETTINGS.items() if setting.live}
        self.config = msgspec.structs.replace(self.config, **live)
        self.flusher.config = self.config

    # --- life ---------------------------------------------------------------------------------

    def load(self) -> RecoveryReport:
        """Take the lock, open the files, recover; what was found and done.

        StoreLockedError when another broker has the store, StoreError when files cannot be used:
        all files are then as they were.

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
            self._detect_sizes(notes)
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
        """Look at everything before anything is changed, then open it."""
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
        if ends.log_end > 0 and not any(length for _, length, _ in log.surveyed or ()):
            raise StoreError(
                f"{log.folder}: no files, but the log had come to {ends.log_end}",
                "mount or restore the folder; to begin anew move all of the store directory away",
                path=log.folder,
            )
        if queues.incomplete or log.short:
            ends.demand_reading()
        log.load(crashed=crashed, notes=notes)
        queues.load(crashed=crashed, notes=notes)
        self.checkpoint.load(notes)
        if index is not None:
            index.load(crashed=crashed, notes=notes, noted_names=ends.bounds.index)

    def start(self) -> None:
        """Begin to take messages: threads, ``abort`` marker, the file for the next append.

        **Source:** RocketMQ DefaultMessageStore#start.
        """
        if not self._open:
            raise StoreStateError(f"{self.config.root}: load() comes before start()")
        root = self.config.root
        make_durable_folder(self.disk, self.config.commit_log_folder)
        abort = os.path.join(root, ABORT)
        try:
            self.disk.write(abort, abort_content(self.disk, root))
            # Syncs the folder, and by that the names of all three.
            self._note_ends()
        except DiskFullError as error:
            # Reads need no space. What counts is that there is an abort file, empty or not.
            if not self.disk.exists(abort):
                raise
            self.disk.sync_folder(root)
            _log.warning("not written, the next start looks more closely: %s", error.message)
        if self.index is not None:
            self.index.on_no_space = self._disk_full
            self.index.on_new = self._note_files
        self._worker.start()
        self.flusher.start()
        try:
            self.log.ready()
            self._refusal = None
        except DiskFullError as error:
            self._disk_full(error)
        self._started = True

    def shutdown(self) -> None:
        """Stop: everything dispatched and flushed, the unused next file removed, lock released.

        After a failed sync ``abort`` stays, so that the next start looks closely.

        **Source:** RocketMQ DefaultMessageStore#shutdown.
        """
        if not self._open:
            return
        self._open = False
        self._refusal = "the store is shutting down"
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

    def _detect_sizes(self, notes: list[str]) -> None:
        """Take file sizes left at their defaults from the files that are there.

        A single file may have been cut short: what was noted of its length counts then.
        """
        log, table = self._log_files, self.queue_table
        found = max(log.detect_size(), self._ends.size(0))
        if found and found != log.file_size == DEFAULTS.mapped_file_size_commit_log:
            log.file_size = found
            notes.append(f"CommitLog files have {found} bytes; mappedFileSizeCommitLog is not set")
        found = max(table.detect_file_size(), self._ends.size(1))
        if found and found != table.file_size == DEFAULTS.mapped_file_size_consume_queue:
            table.file_size = found
            notes.append(
                f"ConsumeQueue files have {found} bytes; mappedFileSizeConsumeQueue is not set"
            )
        found = max(table.detect_batch_file_size(), self._ends.size(2))
        default = DEFAULTS.mapper_file_size_batch_consume_queue
        if found and found != table.batch_file_size == default:
            table.batch_file_size = found
            notes.append(
                f"batch queue files have {found} bytes; mapperFileSizeBatchConsumeQueue is not set"
            )

    # --- flush and dispatch -------------------------------------------------------------------

    def _turn(self) -> None:
        """See to it that what was appended is dispatched and flushed."""
        if self._defer is not None:
            self._deferred = True
            self._defer(self._end_of_turn)
        else:
            self._end_of_turn()

    def _end_of_turn(self) -> None:
        self._deferred = False
        if self.sync_flush:
            if self._flush_wanted:
                self._flush_wanted = False
                self.flusher.wake()
        else:
            self.flusher.touched()
            self.dispatch()

    def dispatch(self) -> None:
        """Make appended messages visible: queues, index, listeners; with SYNC_FLUSH flushed ones.

        **Source:** RocketMQ DefaultMessageStore.ReputMessageService#doReput.
        """
        limit = self.log.flushed_where if self.sync_flush else self.log.max_offset
        if self.reput.offset >= limit and not self.reput.pending:
            return
        try:
            self.reput.run(limit)
        except DiskFullError as error:
            self._disk_full(error)
        except (StoreError, OSError) as error:
            self._stop_writes(f"dispatch failed: {error}")

    @property
    def dispatch_behind_bytes(self) -> int:
        """Bytes of the log that are not dispatched yet."""
        return max(0, self.log.max_offset - self.reput.offset)

    def add_arriving_listener(
        self, listener: ArrivingListener, topics: Container[str] | None = None
    ) -> None:
        """Call ``listener(topic, queue_id, max_queue_offset, tags_code, store_timestamp, raw)``.

        For each dispatched message, in the caller's thread; ``raw`` are its properties. With
        ``topics`` only for topics it contains at that moment: hand in the live table of waits.
        """
        self.reput.add_listener(listener, topics)

    def await_flush(self, physical_end: int, callback: FlushCallback) -> None:
        """Call ``callback(status)`` once everything below ``physical_end`` is on the disk.

        PUT_OK, or FLUSH_DISK_TIMEOUT after syncFlushTimeout or a failed sync. All waits of one
        event-loop turn share one sync. Comes through ``notify`` if the store has one.
        """
        if self.flusher.wait_for(physical_end, callback):
            self._flush_wanted = True
            if self._defer is None:
                self._flush_wanted = False
                self.flusher.wake()
            elif not self._deferred:
                self._turn()
            if not self.sync_flush:
                self.flusher.wake()

    def flush(self) -> bool:
        """Bring the log to the disk now and dispatch it; False if a sync has failed."""
        done = self.flusher.flush()
        self.dispatch()
        return done

    @property
    def flushed_where(self) -> int:
        """Physical offset up to which the log is on the disk."""
        return self.log.flushed_where

    @property
    def max_physical_offset(self) -> int:
        """Physical offset behind the last record."""
        return self.log.max_offset

    @property
    def min_physical_offset(self) -> int:
        """Physical offset of the first byte kept."""
        return self.log.min_offset

    # --- background work ----------------------------------------------------------------------

    def _background_failed(self, error: Exception) -> None:
        if isinstance(error, DiskFullError):
            return
        self._flush_failed(f"sync of a derived file failed: {error}")

    def _queues_dirty(self) -> None:
        self._worker.run_later(self.config.flush_interval_consume_queue, self._flush_queues)

    def _flush_queues(self) -> None:
        """Flush queues by pages, all of them and the checkpoint at the thorough interval."""
        now = self.clock.monotonic_ms()
        thorough = now - self._last_thorough >= self.config.flush_consume_queue_thorough_interval
        try:
            self._sync_queues(thorough=thorough)
            if thorough:
                self._last_thorough = now
            self.checkpoint.flush()
        finally:
            if self.queue_table.dirty:
                self._queues_dirty()

    def _sync_queues(self, *, thorough: bool) -> None:
        timestamp = self.reput.last_store_timestamp
        self.queue_table.sync(0 if thorough else self.config.flush_consume_queue_least_pages)
        if thorough:
            self.checkpoint.set_logics(timestamp)

    def secure_queues(self, log_min: int) -> bool:
        """Before the log before ``log_min`` goes: queues that lead only there are on the disk.

        False, and no more writes, when a sync fails.
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

        def job() -> None:
            # Earlier ones too: the checkpoint speaks of all up to this one.
            for file in list(files):
                file.sync()
                if file is index:
                    break
            self.checkpoint.set_index(index.end_timestamp)
            self.checkpoint.flush()

        self._worker.run(job)

    # --- administration -----------------------------------------------------------------------

    def delete_topics(self, topics: Iterable[str]) -> list[str]:
        """Remove the queues of topics; the names of those that had any.

        Their records stay in the log until its files expire; no recovery brings them back, also
        when the topic is made again.

        **Source:** RocketMQ DefaultMessageStore#deleteTopics.
        """
        if self.reput.overflow:
            self.flusher.flush()
        self.dispatch()
        table = self.queue_table.topics
        gone = [name for name in topics if name in table and table[name].queues]
        if gone:
            # Noted before it is done: a start after a kill in between finishes it.
            self._ends.deleted.update((name, self.log.max_offset) for name in gone)
            self._note_ends()
            # With SYNC_FLUSH some may wait for their flush: they must not bring the queue back.
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
        """Delete what is old or in the way; call it every cleanResourceInterval.

        ``manual`` deletes expired files at any hour.
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
            if self._refusal is None:
                self._disk_full(
                    DiskFullError(
                        f"{self.config.commit_log_folder}: {report.disk_ratio} % of the disk used,"
                        f" limit {self.config.disk_space_warning_level_ratio} %"
                    )
                )
                self._full = ""  # ends when a later round finds the disk below the limit
                self._warned_full = True
        elif self._warned_full:
            self._warned_full = False
            if self._refusal is not None and self._refusal.startswith(DISK_FULL):
                self._refusal = None
        elif self._full:
            # Nobody may be putting, and messages stored before may still wait for their queues.
            self._may_retry()
        self._tell_room()
        return report

    def _note_files(self) -> None:
        """Files that are gone now are not lost ones, and new ones must be there at the next start.

        What could not be noted costs the next start a reading of the log, or is not missed then.
        """
        try:
            self._note_ends()
        except (OSError, StoreError) as error:
            _log.warning("%s: not written: %s", self._ends.path, error)

    def topic(self, name: str) -> Topic | None:
        """What the engine keeps of a topic, None if it has had no message."""
        return self.queue_table.topics.get(name)
