"""MessageStore: put, get and query messages of one store directory; start and stop the store.

It must be used from one thread at a time: the event loop of a broker, or a plain program. A put
appends at once and is visible after :meth:`MessageStore.dispatch`; ``defer`` delays the dispatch
to the end of the event-loop iteration, so that one dispatch serves all puts of an iteration.
Threads of the store flush, do background work and monitor the directory; they never append or
dispatch.

**Source:** RocketMQ DefaultMessageStore.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

import msgspec

from broker.common.clock import Clock, SystemClock
from broker.errors import DiskFullError, StoreError, StoreStateError
from broker.store import config as settings
from broker.store.block_writer import BlockWriter
from broker.store.clean import CleanReport, CleanService
from broker.store.commitlog import CommitLog
from broker.store.config import DEFAULTS, MessageStoreConfig, parse_delay_levels
from broker.store.consumequeue.consume_queue_store import ConsumeQueueStore
from broker.store.dispatch.reput import ReputService
from broker.store.dispatch.scheduler import Defer, DispatchScheduler
from broker.store.faults.directory_monitor import DirectoryMonitor
from broker.store.faults.handler import FaultHandler
from broker.store.faults.running_flags import RunningFlags
from broker.store.file_types import check_file_types
from broker.store.flushing.derived_flush import FlushConsumeQueueService
from broker.store.flushing.flush import FlushService, Notify, StoreCheckpoint
from broker.store.flushing.flush_barrier import FlushBarrier
from broker.store.flushing.worker import Worker
from broker.store.format.state import (
    ABORT,
    BATCH_CONSUMEQUEUE_DIR,
    CHECKPOINT,
    CONSUMEQUEUE_DIR,
    CONSUMEQUEUE_EXT_DIR,
    INDEX_DIR,
    LOCK,
)
from broker.store.index.index_service import IndexService
from broker.store.logfile.disk import Disk, StoreLock, make_durable_folder
from broker.store.logfile.file_preparer import FilePreparer
from broker.store.logfile.mapped_file import MappedFileQueue
from broker.store.reader import StoreReader
from broker.store.recovery.file_sizes import detect_file_sizes
from broker.store.recovery.log_files import check_log_files
from broker.store.recovery.store_manifest import Bounds, StoreManifest
from broker.store.recovery.store_recovery import Recovery, StoreParts, abort_content, same_kernel
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


class MessageStore:
    """The store of one directory: creates its parts, starts and stops them, binds their operations.

    ``defer(fn)`` schedules ``fn`` at the end of the event-loop iteration; without it each put
    dispatches. ``notify(fn)`` schedules ``fn`` in the caller's thread
    (``loop.call_soon_threadsafe``); without it flush callbacks run in the flushing thread.

    ===============  ======================================================================
    ``log``          CommitLog: the records
    ``queue_table``  ConsumeQueueStore: the ConsumeQueues by topic and queue id
    ``index``        IndexService: the index files; None with messageIndexEnable=false
    ``manifest``     StoreManifest: queueEnds.json, the files and ends for the next start
    ``writer``       StoreWriter: puts and their limits
    ``blocks``       BlockWriter: appends of records that were encoded before
    ``reader``       StoreReader: pulls, key queries, searches by time
    ``scheduler``    DispatchScheduler: when appended records are flushed and dispatched
    ``reput``        ReputService: from the log to queues, index and listeners
    ``flusher``      FlushService: sync of the log
    ``queue_flush``  FlushConsumeQueueService: sync of ConsumeQueues and index files
    ``cleaner``      CleanService: deletion of expired files
    ``flags``        RunningFlags: the causes for which puts are refused; ``faults`` sets them
    ===============  ======================================================================

    Operations of the parts are bound as attributes: a put or pull through the store costs no
    additional call.
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
        if delay_levels is None:
            delay_levels = parse_delay_levels(config.message_delay_level)
        self.delay_levels = delay_levels
        self.monitor: DirectoryMonitor | None = None
        self._lock: StoreLock | None = None
        # Number of queues when clean_expired last wrote the manifest.
        self._recorded_queues = 0
        self._defer = defer
        self.is_open = False
        self._started = False
        self._build_files()
        self._build_services(defer, notify)
        self._bind()

    def _build_files(self) -> None:
        """Create the log, the queues and the index; nothing is opened yet."""
        config, disk, root = self.config, self.disk, self.config.root
        self.flags = RunningFlags()
        self.faults = FaultHandler(disk, root, self.clock, self.flags)
        self.worker = Worker(
            "store-worker", self.faults.background_failed, self.faults.background_died
        )
        log_files = MappedFileQueue(
            disk, config.commit_log_folder, config.mapped_file_size_commit_log, keep_open=True
        )
        self.log = CommitLog(log_files, FilePreparer(log_files, self.worker.run))
        self.queue_table = ConsumeQueueStore(
            disk,
            (os.path.join(root, CONSUMEQUEUE_DIR), os.path.join(root, BATCH_CONSUMEQUEUE_DIR)),
            (config.mapped_file_size_consume_queue, config.mapper_file_size_batch_consume_queue),
        )
        self.queue_table.ext_folder = os.path.join(root, CONSUMEQUEUE_EXT_DIR)
        self.queue_table.ext_file_size = config.mapped_file_size_consume_queue_ext
        self.queue_table.ext_enabled = config.enable_consume_queue_ext
        self.index: IndexService | None = None
        if config.message_index_enable:
            self.index = IndexService(
                disk, os.path.join(root, INDEX_DIR), config.max_hash_slot_num, config.max_index_num
            )
            self.index.now_ms = self.clock.now_ms
        self.checkpoint = StoreCheckpoint(disk, os.path.join(root, CHECKPOINT), self.flags)
        self.manifest = StoreManifest(disk, root)
        self.queue_table.on_recreated = self.manifest.add_deletion

    def _build_services(self, defer: Defer | None, notify: Notify | None) -> None:
        """Create the parts that work on the files, in the order of their dependencies."""
        config, log, flags, faults = self.config, self.log, self.flags, self.faults
        self.reput = ReputService(
            log,
            self.queue_table,
            self.index,
            self.delay_levels,
            lmq_enabled=config.enable_multi_dispatch,
        )
        self.reput.is_deleted = self.manifest.is_deleted
        self.flusher = FlushService(
            log,
            config,
            self.checkpoint,
            on_failed=faults.sync_failed,
            on_died=faults.background_died,
            notify=notify,
        )
        self.scheduler = DispatchScheduler(
            log,
            self.reput,
            self.flusher,
            flags=flags,
            faults=faults,
            sync_flush=self.sync_flush,
            defer=defer,
        )
        self.flusher.on_flushed = self.scheduler.dispatch_slice
        self.flush_barrier = FlushBarrier(log, self.flusher)
        self.queue_flush = FlushConsumeQueueService(
            config,
            self.clock,
            self.reput,
            worker=self.worker,
            checkpoint=self.checkpoint,
            barrier=self.flush_barrier,
            faults=faults,
        )
        self.cleaner = CleanService(
            config, self.disk, log, self.reput, self.queue_flush, defer=defer
        )
        self.writer = StoreWriter(
            config, self.clock, log, self.reput, self.scheduler, flags=flags, faults=faults
        )
        self.blocks = BlockWriter(self.writer, log, self.reput, self.scheduler, flags)
        self.reader = StoreReader(config, log, self.queue_table, self.index, self.manifest.damaged)

    def _bind(self) -> None:
        """Bind the operations of the parts; the methods of the parts document them."""
        writer, reader, scheduler = self.writer, self.reader, self.scheduler
        self.put_message = writer.put_message
        self.put_messages = writer.put_messages
        self.new_batch = writer.new_batch
        self.put_batch = writer.put_batch
        self.why_illegal_place = writer.why_illegal_place
        self.get_message = reader.get_message
        self.get_ordinary = reader.get_ordinary
        self.get_record_at = reader.get_record_at
        self.get_max_offset = reader.get_max_offset
        self.get_min_offset = reader.get_min_offset
        self.is_damaged = reader.is_damaged
        self.is_cold = reader.is_cold
        self.query_message = reader.query_message
        self.offset_by_time = reader.offset_by_time
        self.store_timestamp_at = reader.store_timestamp_at
        self.earliest_message_time = reader.earliest_message_time
        self.consume_queue_units = reader.consume_queue_units
        self.queues = reader.queues
        self.dispatch = scheduler.dispatch
        self.await_flush = scheduler.await_flush
        self.add_arriving_listener = self.reput.add_listener

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
        self.writer.set_config(self.config)
        self.cleaner.set_config(self.config)

    # --- life cycle ---------------------------------------------------------------------------

    def load(self) -> RecoveryReport:
        """Lock the store, open its files and recover; return the findings and actions.

        StoreLockedError if another broker uses the store. StoreError if a file has an unexpected
        name or length: the check precedes every change, so all files are unchanged then.

        **Source:** RocketMQ DefaultMessageStore#load.
        """
        if self.is_open:
            raise StoreStateError(f"{self.config.root}: the store is open")
        root = self.config.root
        try:
            make_durable_folder(self.disk, root)
            check_file_types(self.disk, root)
            self._lock = self.disk.lock(os.path.join(root, LOCK))
            notes: list[str] = []
            self._load_files(self.survey(notes), notes)
            parts = StoreParts(
                self.log,
                self.queue_table,
                self.index,
                self.reput,
                (self.checkpoint, self.manifest),
            )
            report = Recovery(self.disk, self.config, parts).run()
            # Units may point between the records of a damaged file.
            unchecked = report.log_end if report.damaged_regions else report.scanned_from
            self.reader.unchecked_before = unchecked
            self.queue_table.load_ext(crashed=not report.clean, notes=report.notes)
        except OSError as error:
            self.halt()
            path = str(error.filename or root)
            raise StoreError(
                f"{path}: {error.strerror or error}",
                "the store cannot be read: check the disk",
                path=path,
            ) from error
        except BaseException:
            self.halt()
            raise
        report.notes[:0] = notes
        self.is_open = True
        return report

    def survey(self, notes: list[str]) -> bool:
        """Check names and lengths of all files, without changes; whether the last stop was a crash.

        StoreError for a file with which the store cannot be opened, OSError if one cannot be read.
        """
        manifest, config = self.manifest, self.config
        manifest.load(notes)
        detect_file_sizes(self.log.files, self.queue_table, manifest, notes)
        crashed = self.disk.exists(os.path.join(config.root, ABORT))
        log, queues, index = self.log.files, self.queue_table, self.index
        log.survey(crashed=crashed, known=manifest.size(0) == log.file_size)
        killed = crashed and same_kernel(self.disk, config.root)
        queues.survey(crashed=crashed, killed=killed, noted=(manifest.size(1), manifest.size(2)))
        if index is not None:
            index.survey(
                sizes_are_default=config.max_hash_slot_num == DEFAULTS.max_hash_slot_num
                and config.max_index_num == DEFAULTS.max_index_num,
                crashed=crashed,
                noted=manifest.bounds.sizes[3:],
            )
        check_log_files(log, manifest)
        return crashed

    def _load_files(self, crashed: bool, notes: list[str]) -> None:
        """Open the files that :meth:`survey` has checked."""
        manifest = self.manifest
        log, queues, index = self.log.files, self.queue_table, self.index
        if queues.incomplete or log.short:
            manifest.require_full_scan()
        log.load(crashed=crashed, notes=notes)
        queues.load(crashed=crashed, notes=notes)
        self.checkpoint.load(notes)
        if index is not None:
            index.load(crashed=crashed, notes=notes, noted_names=manifest.bounds.index)

    def start(self) -> None:
        """Start accepting messages: write ``abort``, start the threads, prepare the current file.

        **Source:** RocketMQ DefaultMessageStore#start.
        """
        if not self.is_open:
            raise StoreStateError(f"{self.config.root}: load() must be called before start()")
        root = self.config.root
        make_durable_folder(self.disk, self.config.commit_log_folder)
        abort = os.path.join(root, ABORT)
        try:
            self.disk.write(abort, abort_content(self.disk, root))
            # Syncs the folder, and thereby the entries of lock, abort and manifest.
            self.write_manifest()
        except DiskFullError as error:
            # A full disk must not prevent reads. An empty abort file suffices to detect a crash.
            if not self.disk.exists(abort):
                raise
            self.disk.sync_folder(root)
            _log.warning(
                "manifest not written, the next start reads more of the log: %s", error.message
            )
        if self.index is not None:
            self.index.on_no_space = self.faults.disk_full
            self.index.on_new = self.try_write_manifest
        self.worker.start()
        self.flusher.start()
        assert self._lock is not None
        self.monitor = DirectoryMonitor(self.disk, self._lock, self.log.files, self.directory_lost)
        self.monitor.start()
        try:
            self.log.ready()
        except DiskFullError as error:
            self.faults.disk_full(error)
        self.flags.started()
        self._started = True

    def shutdown(self) -> None:
        """Stop: dispatch and flush everything, remove the preallocated file, release the lock.

        If a sync fails or failed before, ``abort`` stays: the next start recovers as after a crash.

        **Source:** RocketMQ DefaultMessageStore#shutdown.
        """
        if not self.is_open:
            return
        was_started = self._started
        self._stop()
        if was_started:
            clean_stop = self._flush_everything()
            self.log.preparer.discard()
            if clean_stop:
                self._record_clean_stop()
        self._close_files()

    def halt(self) -> None:
        """Stop without flushing and release the lock: stored data and ``abort`` stay.

        The files are as after a kill, or as they were found if :meth:`load` failed.
        """
        self._stop()
        if self.index is not None:
            self.index.release()
        self.log.preparer.release()
        self._close_files()

    def _stop(self) -> None:
        """Refuse messages and stop the threads."""
        self.is_open = False
        self.flags.make_shutting_down()
        self.cleaner.stop()
        if self.monitor is not None:
            self.monitor.stop()
        if self._started:
            self._started = False
            self.flusher.stop()
            self.worker.stop()

    def _record_clean_stop(self) -> None:
        """Write the manifest and remove ``abort``, so that the next start scans no log."""
        try:
            self.write_manifest()
            self.disk.unlink(os.path.join(self.config.root, ABORT))
        except (OSError, StoreError) as error:
            _log.error("%s stays, the next start recovers as after a crash: %s", ABORT, error)

    def _flush_everything(self) -> bool:
        """Dispatch and sync all files; False if a sync has failed or records are not dispatched."""
        try:
            self.log.write_gathered()
            if not self.flusher.flush():
                return False
            self.reput.run(self.log.max_offset)
            self.queue_flush.sync(thorough=True)
            if self.index is not None:
                self.index.catch_up()
                self.index.sync()
            self.checkpoint.flush()
        except (OSError, StoreError) as error:
            self.faults.sync_failed(f"sync during shutdown failed: {error}")
            return False
        return self.reput.offset >= self.log.max_offset and not self.flags.sync_failed

    def _close_files(self) -> None:
        if self.index is not None:
            self.index.close()
        self.queue_table.close()
        self.log.pages.close()
        self.log.files.close()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    # --- state --------------------------------------------------------------------------------

    def flush(self) -> bool:
        """Flush the log and dispatch it; False if the log could not be flushed."""
        self.log.write_gathered()
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
        return self.log.appended_offset

    @property
    def min_physical_offset(self) -> int:
        """Physical offset of the first byte kept."""
        return self.log.min_offset

    @property
    def dispatch_behind_bytes(self) -> int:
        """Bytes of the log not yet dispatched."""
        return max(0, self.log.appended_offset - self.reput.offset)

    @property
    def dispatch_failed(self) -> int:
        """Number of records not dispatched to all of their queues since load()."""
        return self.reput.quarantined

    @property
    def writable(self) -> bool:
        """Whether puts are accepted."""
        return self.flags.writable

    @property
    def not_writable_reason(self) -> str:
        """Reason why puts are refused, empty while they are accepted."""
        return self.flags.refusal or ""

    def directory_lost(self, reason: str) -> None:
        """Stop writing and acknowledging; called in the monitor's thread."""
        self.flusher.fail(self.faults.directory_lost(reason))

    # --- administration -----------------------------------------------------------------------

    def delete_topics(self, topics: Iterable[str]) -> list[str]:
        """Remove the queues of topics; return the names of topics that had queues.

        Their records stay in the log until its files expire. Recovery does not restore them, even
        if the topic is created again. OSError or StoreError if the deletion cannot be recorded;
        then nothing is deleted.

        **Source:** RocketMQ DefaultMessageStore#deleteTopics.
        """
        self.log.write_gathered()
        if self.reput.overflow:
            self.flusher.flush()
        self.dispatch()
        table = self.queue_table.topics
        found = [name for name in topics if name in table and table[name].queues]
        if found:
            # Recorded before the removal: after a kill in between the next start completes it. If
            # the write fails, a later write must not record it: the topics are still in use.
            deleted = self.manifest.deleted
            self.manifest.deleted = {**deleted, **dict.fromkeys(found, self.log.max_offset)}
            try:
                self.write_manifest()
            except (OSError, StoreError):
                self.manifest.deleted = deleted
                raise
            # With SYNC_FLUSH records may be waiting for a flush; they must not recreate the queue.
            self.reput.forget(found)
            for name in found:
                self.queue_table.delete_topic(name)
        return found

    def write_manifest(self) -> None:
        """Record files and ends for the next start; OSError or StoreError if the write fails."""
        self.manifest.write(self._bounds(), self.queue_table)

    def _bounds(self) -> Bounds:
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
        return bounds

    def clean_expired(self, now_ms: int | None = None, *, manual: bool = False) -> CleanReport:
        """Delete expired files, or the oldest ones if the disk is full.

        To be called every cleanResourceInterval (ms); it also retries failed allocations and
        dispatches. ``manual`` deletes expired files at any hour, regardless of deleteWhen.
        """
        if now_ms is None:
            now_ms = self.clock.now_ms()
        report = self.cleaner.run(now_ms, manual=manual)
        queues = sum(len(topic.queues) for topic in self.queue_table.topics.values())
        if (
            report.removed_commit_log_files
            or report.removed_consume_queue_files
            or report.removed_index_files
            or queues != self._recorded_queues
        ):
            self._recorded_queues = queues
            self.try_write_manifest()
        if report.over_warning_level:
            reason = (
                f"{self.config.commit_log_folder}: {report.disk_ratio} % of the disk used,"
                f" limit {self.config.disk_space_warning_level_ratio} %"
            )
            self.faults.disk_over_limit(reason)
        else:
            self.flags.disk_below_limit()
            # Without puts nothing else retries it, and stored messages may still need dispatch.
            self.scheduler.retry_allocation()
        if self.dispatch_behind_bytes:
            self.dispatch()  # without puts nothing else retries a failed dispatch
        self.faults.report_recovered_space()
        return report

    def try_write_manifest(self) -> None:
        """Record the current files for the next start; a failed write is only logged.

        The next start may then scan the log unnecessarily, or fail to detect the loss of a new
        file; neither justifies refusing writes. With ``defer`` very many queues take several
        iterations of the event loop.
        """
        self._continue_manifest(self.manifest.write_in_steps(self._bounds(), self.queue_table))

    def _continue_manifest(self, steps: Iterator[None]) -> None:
        try:
            for _ in steps:
                if self._defer is not None:
                    self._defer(partial(self._continue_manifest, steps))
                    return
        except (OSError, StoreError) as error:
            _log.warning("%s: not written: %s", self.manifest.path, error)
