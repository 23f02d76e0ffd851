"""MessageStore: the room's front door — put, get, query, look, and the life of a store.

One caller at a time uses it: the event loop of a broker, or a plain program. Puts append at once
and are visible after :meth:`MessageStore.dispatch`, which ``defer`` puts off to the end of the
event-loop turn so that a turn's messages go in one batch. Two threads of its own flush and do
background work; they never touch what the caller writes.

**Source:** RocketMQ DefaultMessageStore.
"""

import logging
import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Final

from broker.common.clock import Clock, SystemClock
from broker.common.sysflag import TRANSACTION_COMMIT, TRANSACTION_MASK
from broker.errors import DiskFullError, StoreError, StoreStateError
from broker.message.record import TOPIC_MAX_SIZE
from broker.store import clean
from broker.store.commitlog import MAX_PROPERTIES, CommitLog, RecordTooLargeError
from broker.store.config import DEFAULTS, MessageStoreConfig, check, parse_delay_levels
from broker.store.consumequeue import ConsumeQueueTable, Topic
from broker.store.files import Disk, StoreLock
from broker.store.flush import FlushCallback, FlushService, Notify, StoreCheckpoint
from broker.store.format.state import (
    ABORT,
    CHECKPOINT,
    CONSUMEQUEUE_DIR,
    INDEX_DIR,
    LOCK,
)
from broker.store.index import IndexFile, IndexService
from broker.store.mapped_file import FilePreparer, MappedFileQueue
from broker.store.query import StoreReader
from broker.store.recovery import Recovery, StoreParts, abort_content, write_queue_ends
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

_PUT_OK: Final = PutMessageStatus.PUT_OK
_REFUSED: Final = PutMessageStatus.SERVICE_NOT_AVAILABLE
_ILLEGAL: Final = PutMessageStatus.MESSAGE_ILLEGAL
# After "no space" the disk is asked again no sooner than this.
_RETRY_SPACE_MS: Final = 1_000


class MessageStore:
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
        self._deferred = False
        self._flush_wanted = False
        self._lock: StoreLock | None = None
        self._open = False
        self._started = False
        # Why puts are refused, None while they are not; read by every put.
        self._refusal: str | None = "the store is not open"
        self._full = ""
        self._full_since = 0.0
        self._warned_full = False
        self.boot_timestamp = self.clock.now_ms()
        self.put_count = 0
        self.put_bytes = 0
        self.put_failed = 0
        self.get_found = 0
        self.get_missed = 0
        self.transferred = 0
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
            disk, os.path.join(root, CONSUMEQUEUE_DIR), config.mapped_file_size_consume_queue
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
        self.reput = ReputService(self.log, self.queue_table, self.index, self.delay_levels)
        self.flusher = FlushService(self.log, config, self.checkpoint, self._flush_failed, notify)
        self.flusher.on_flushed = self.dispatch
        self._notified = notify is not None
        self.reader = StoreReader(config, self.log, self.queue_table, self.index)
        self._last_thorough = 0.0

    # --- life ---------------------------------------------------------------------------------

    def load(self) -> RecoveryReport:
        """Take the lock, open the files, recover; what was found and done.

        StoreLockedError when another broker has the store, StoreError when files cannot be used.

        **Source:** RocketMQ DefaultMessageStore#load.
        """
        if self._open:
            raise StoreStateError(f"{self.config.root}: the store is open")
        root = self.config.root
        self.disk.make_folder(root)
        self._lock = self.disk.lock(os.path.join(root, LOCK))
        try:
            notes: list[str] = []
            self._detect_sizes(notes)
            self._log_files.load()
            self.queue_table.load()
            self.checkpoint.load(notes)
            if self.index is not None:
                config = self.config
                self.index.load(
                    sizes_are_default=config.max_hash_slot_num == DEFAULTS.max_hash_slot_num
                    and config.max_index_num == DEFAULTS.max_index_num,
                    notes=notes,
                )
            parts = StoreParts(self.log, self.queue_table, self.index, self.checkpoint, self.reput)
            report = Recovery(self.disk, self.config, parts).run()
        except BaseException:
            self._close_files()
            raise
        report.notes[:0] = notes
        self._open = True
        return report

    def start(self) -> None:
        """Begin to take messages: threads, ``abort`` marker, the file for the next append.

        **Source:** RocketMQ DefaultMessageStore#start.
        """
        if not self._open:
            raise StoreStateError(f"{self.config.root}: load() comes before start()")
        root = self.config.root
        self.disk.write(os.path.join(root, ABORT), abort_content(self.disk, root))
        write_queue_ends(self.disk, root, self.log.max_offset, self.queue_table)
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
                root = self.config.root
                write_queue_ends(self.disk, root, self.log.max_offset, self.queue_table)
                self.disk.unlink(os.path.join(root, ABORT))
        self._started = False
        self._close_files()

    def _flush_everything(self) -> bool:
        try:
            if not self.flusher.flush():
                return False
            self.reput.run(self.log.max_offset)
            self._sync_queues(thorough=True)
            if self.index is not None:
                self.index.sync()
            self.checkpoint.flush()
        except (OSError, StoreError) as error:
            _log.error("the store could not be flushed at its stop: %s", error)
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
        """Take file sizes left at their defaults from the files that are there."""
        found = self._log_files.detect_size()
        size = self._log_files.file_size
        if found and found != size and size == DEFAULTS.mapped_file_size_commit_log:
            self._log_files.file_size = found
            notes.append(f"CommitLog files have {found} bytes; mappedFileSizeCommitLog is not set")
        found = self.queue_table.detect_file_size()
        size = self.queue_table.file_size
        if found and found != size and size == DEFAULTS.mapped_file_size_consume_queue:
            self.queue_table.file_size = found
            notes.append(
                f"ConsumeQueue files have {found} bytes; mappedFileSizeConsumeQueue is not set"
            )

    # --- put ----------------------------------------------------------------------------------

    def put_message(self, inner: MessageInner) -> PutMessageResult:
        """Append one message. It is in the log when this returns; PUT_OK does not wait for a flush.

        Never raises for what a message or the disk can do: the status and ``remark`` say why it
        was not stored.

        **Source:** RocketMQ CommitLog#asyncPutMessage.
        """
        if self._refusal is not None and not self._may_retry():
            return self._refuse(_REFUSED, self._refusal)
        topic = self.queue_table.topics.get(inner.topic)
        if (
            topic is None
            or len(inner.properties) > MAX_PROPERTIES
            or (len(inner.body) > self.config.max_message_size)
        ):
            reason = self._illegal(inner)
            if reason is not None:
                return self._refuse(*reason)
            topic = self.queue_table.topic(inner.topic)
        queue = topic.queues.get(inner.queue_id)
        if queue is None:
            queue = self.queue_table.queue(topic, inner.queue_id)
        sys_flag = inner.sys_flag
        kind = sys_flag & TRANSACTION_MASK
        counted = kind == 0 or kind == TRANSACTION_COMMIT
        queue_offset = queue.next_offset if counted else 0
        try:
            physical_offset, size = self.log.append(inner, topic, queue_offset, self.clock.now_ms())
        except (DiskFullError, RecordTooLargeError, StoreError, OSError) as error:
            return self._append_failed(error)
        if counted:
            queue.next_offset = queue_offset + 1
        store_timestamp = self.log.last_store_timestamp
        self.put_count += 1
        self.put_bytes += size
        self.reput.note(
            (
                physical_offset,
                size,
                store_timestamp,
                sys_flag,
                queue_offset,
                queue,
                inner.properties,
                inner.tags_code,
            )
        )
        if not self._deferred:
            self._turn()
        return PutMessageResult(_PUT_OK, queue_offset, physical_offset, size, store_timestamp)

    def put_messages(self, inners: Sequence[MessageInner]) -> list[PutMessageResult]:
        """Append several messages next to each other, in one file; one result each, or one refusal.

        All or none: a refusal (a list of one result) stores nothing.

        **Source:** RocketMQ CommitLog#asyncPutMessages.
        """
        if self._refusal is not None and not self._may_retry():
            return [self._refuse(_REFUSED, self._refusal)]
        total = 0
        for inner in inners:
            reason = self._illegal(inner)
            if reason is not None:
                return [self._refuse(*reason)]
            total += self.log.record_size(inner, self.queue_table.topic(inner.topic))
        try:
            self.log.make_room(total)
        except (DiskFullError, RecordTooLargeError, StoreError, OSError) as error:
            return [self._append_failed(error)]
        deferred = self._deferred
        self._deferred = True  # one turn for all of them
        try:
            results = [self.put_message(inner) for inner in inners]
        finally:
            self._deferred = deferred
        if not deferred:
            self._turn()
        return results

    def _illegal(self, inner: MessageInner) -> tuple[PutMessageStatus, str] | None:
        """Why a message cannot be stored at all, None if it can.

        **Source:** RocketMQ HookUtils#checkBeforePutMessage, MessageExtEncoder#encode.
        """
        topic_size = len(inner.topic.encode("utf-8", "replace"))
        if topic_size > TOPIC_MAX_SIZE or (
            topic_size > 127 and not inner.topic.startswith("%RETRY%")
        ):
            return _ILLEGAL, f"topic of {topic_size} bytes"
        if not inner.topic or inner.queue_id < 0:
            return _ILLEGAL, f"topic {inner.topic!r}, queue {inner.queue_id}"
        if len(inner.body) > self.config.max_message_size:
            return _ILLEGAL, (
                f"body of {len(inner.body)} bytes, at most {self.config.max_message_size}"
            )
        if len(inner.properties) > MAX_PROPERTIES:
            return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, (
                f"properties of {len(inner.properties)} bytes, at most {MAX_PROPERTIES}"
            )
        return None

    def _refuse(self, status: PutMessageStatus, remark: str) -> PutMessageResult:
        self.put_failed += 1
        return PutMessageResult(status, remark=remark)

    def _append_failed(self, error: Exception) -> PutMessageResult:
        if isinstance(error, RecordTooLargeError):
            return self._refuse(_ILLEGAL, str(error))
        if isinstance(error, DiskFullError):
            self._disk_full(error)
            return self._refuse(_REFUSED, error.message)
        _log.error("the next CommitLog file cannot be made: %s", error)
        return self._refuse(PutMessageStatus.CREATE_MAPPED_FILE_FAILED, str(error))

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

    # --- writable or not ----------------------------------------------------------------------

    @property
    def writable(self) -> bool:
        """Whether puts are taken now."""
        return self._refusal is None

    @property
    def not_writable_reason(self) -> str:
        """Why puts are refused, empty while they are taken."""
        return self._refusal or ""

    def _stop_writes(self, reason: str) -> None:
        if self._refusal is None or not self._refusal.startswith("sync"):
            _log.error("the store takes no more writes: %s", reason)
            self._refusal = reason

    def _flush_failed(self, reason: str) -> None:
        """A sync failed: for good, until the store is opened again."""
        self._full = ""
        _log.critical("the store takes no more writes: %s", reason)
        self._refusal = reason

    def _disk_full(self, error: DiskFullError) -> None:
        if self.flusher.failed:
            return
        if self._refusal is None:
            _log.error("disk full, the store takes no writes for now: %s", error.message)
        self._full = error.message
        self._full_since = self.clock.monotonic_ms()
        self._refusal = f"disk full: {error.message}"

    def _may_retry(self) -> bool:
        """Try again after a full disk, at most once a second."""
        if not self._full or self.clock.monotonic_ms() - self._full_since < _RETRY_SPACE_MS:
            return False
        self._full_since = self.clock.monotonic_ms()
        self._full = ""
        self._refusal = None
        try:
            self.log.ready()
        except DiskFullError as error:
            self._disk_full(error)
            return False
        self.dispatch()
        return self._refusal is None

    def _background_failed(self, error: Exception) -> None:
        if isinstance(error, DiskFullError):
            return
        self._flush_failed(f"sync of a derived file failed: {error}")

    # --- background work ----------------------------------------------------------------------

    def _queues_dirty(self) -> None:
        self._worker.run_later(self.config.flush_interval_consume_queue, self._flush_queues)

    def _flush_queues(self) -> None:
        """Flush queues by pages, all of them and the checkpoint at the thorough interval."""
        now = self.clock.monotonic_ms()
        thorough = now - self._last_thorough >= self.config.flush_consume_queue_thorough_interval
        self._sync_queues(thorough=thorough)
        if thorough:
            self._last_thorough = now
        self.checkpoint.flush()
        if self.queue_table.dirty:
            self._queues_dirty()

    def _sync_queues(self, *, thorough: bool) -> None:
        timestamp = self.reput.last_store_timestamp
        self.queue_table.sync(0 if thorough else self.config.flush_consume_queue_least_pages)
        if thorough:
            self.checkpoint.set_logics(timestamp)

    def _index_full(self, index: IndexFile) -> None:
        def job() -> None:
            index.sync()
            self.checkpoint.set_index(index.end_timestamp)
            self.checkpoint.flush()

        self._worker.run(job)

    # --- read ---------------------------------------------------------------------------------

    def get_message(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = 0,
        *,
        matcher: Callable[[int], bool] | None = None,
        record_matcher: Callable[[bytes], bool] | None = None,
    ) -> GetMessageResult:
        """Records of a queue from ``queue_offset`` on; see :meth:`StoreReader.get_message`."""
        result = self.reader.get_message(
            topic,
            queue_id,
            queue_offset,
            max_count,
            max_bytes,
            matcher=matcher,
            record_matcher=record_matcher,
        )
        if result.message_count:
            self.get_found += 1
            self.transferred += result.message_count
        else:
            self.get_missed += 1
        return result

    def look_message(self, physical_offset: int, size: int | None = None) -> memoryview | None:
        """The record that begins at ``physical_offset``, None if none does."""
        record = self.log.record_at(physical_offset)
        if record is not None and size is not None and len(record) != size:
            return None
        return record

    def query_message(
        self, topic: str, key: str, max_num: int, begin: int, end: int
    ) -> QueryMessageResult:
        """Records by key and store time; see :meth:`StoreReader.query_message`."""
        return self.reader.query_message(topic, key, max_num, begin, end)

    def get_max_offset(self, topic: str, queue_id: int) -> int:
        """Queue offset behind the last message, 0 for an unknown queue."""
        queue = self.queue_table.find(topic, queue_id)
        return queue.max_offset if queue is not None else 0

    def get_min_offset(self, topic: str, queue_id: int) -> int:
        """Queue offset of the first message still there, -1 for an unknown queue."""
        queue = self.queue_table.find(topic, queue_id)
        return queue.min_offset if queue is not None else -1

    def offset_by_time(
        self, topic: str, queue_id: int, timestamp: int, boundary: str = "LOWER"
    ) -> int:
        """Queue offset by store time; see :meth:`StoreReader.offset_by_time`."""
        return self.reader.offset_by_time(topic, queue_id, timestamp, boundary)

    def store_timestamp_at(self, topic: str, queue_id: int, queue_offset: int) -> int:
        """storeTimestamp of the message at a queue offset, -1 if it is not there."""
        return self.reader.store_timestamp_at(topic, queue_id, queue_offset)

    def earliest_message_time(self, topic: str = "", queue_id: int = 0) -> int:
        """storeTimestamp of a queue's first message, or of the log's without a topic; -1 if none."""
        return self.reader.earliest_message_time(topic, queue_id)

    def consume_queue_units(
        self, topic: str, queue_id: int, from_offset: int, count: int
    ) -> list[ConsumeQueueUnitView]:
        """Up to ``count`` units of a queue from ``from_offset`` on."""
        return self.reader.consume_queue_units(topic, queue_id, from_offset, count)

    def queues(self) -> dict[str, list[int]]:
        """Every topic with the ids of its queues that have had messages."""
        return {
            topic.name: sorted(topic.queues)
            for topic in self.queue_table.topics.values()
            if topic.queues
        }

    # --- administration -----------------------------------------------------------------------

    def delete_topics(self, topics: Iterable[str]) -> list[str]:
        """Remove the queues of topics; the names of those that had any.

        Their records stay in the log until its files expire, and are not brought back by a
        recovery as long as topics.json does not name the topic.

        **Source:** RocketMQ DefaultMessageStore#deleteTopics.
        """
        self.dispatch()
        gone = []
        for name in topics:
            if self.queue_table.delete_topic(name):
                gone.append(name)
        return gone

    def clean_expired(
        self, now_ms: int | None = None, *, manual: bool = False
    ) -> clean.CleanReport:
        """Delete what is old or in the way; call it every cleanResourceInterval.

        ``manual`` deletes expired files at any hour.
        """
        report = clean.clean_expired(
            self, self.clock.now_ms() if now_ms is None else now_ms, manual=manual
        )
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
            if not self.flusher.failed:
                self._refusal = None
        return report

    def topic(self, name: str) -> Topic | None:
        """What the engine keeps of a topic, None if it has had no message."""
        return self.queue_table.topics.get(name)
