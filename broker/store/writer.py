"""StoreWriter: appends — puts, their limits, and the conditions under which puts are refused.

**Source:** RocketMQ CommitLog#asyncPutMessage, HookUtils#checkBeforePutMessage, RunningFlags.
"""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from broker.common.clock import Clock
from broker.common.sysflag import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_MASK
from broker.errors import DiskFullError, FileNameError, StoreError
from broker.message.properties import set_property
from broker.message.record import TOPIC_MAX_SIZE
from broker.store.commitlog import (
    MAX_PROPERTIES,
    CommitLog,
    EncodedBatch,
    RecordTooLargeError,
)
from broker.store.config import MessageStoreConfig
from broker.store.consumequeue.consume_queue import ConsumeQueue, Topic
from broker.store.consumequeue.consume_queue_store import ConsumeQueueStore
from broker.store.consumequeue.multi_dispatch import (
    MULTI_DISPATCH,
    check_names,
    draw_offsets,
    return_offsets,
)
from broker.store.flush import FlushService
from broker.store.format.consumequeue import is_queue_name
from broker.store.format.state import ABORT
from broker.store.index.index_service import IndexService
from broker.store.logfile.disk import Disk
from broker.store.recovery.store_recovery import SYNC_FAILED, abort_content
from broker.store.reput import ReputService, inner_count
from broker.store.results import (
    MessageExtBrokerInner,
    PutBatchResult,
    PutMessageResult,
    PutMessageStatus,
)
from broker.store.running_flags import RunningFlags

_log = logging.getLogger(__name__)

_PUT_OK: Final = PutMessageStatus.PUT_OK
_REFUSED: Final = PutMessageStatus.SERVICE_NOT_AVAILABLE
_ILLEGAL: Final = PutMessageStatus.MESSAGE_ILLEGAL
_SPECIAL: Final = TRANSACTION_MASK | INNER_BATCH
# Time without a failed allocation after which "disk full" is reported as over.
_ROOM_MS: Final = 10_000
# Minimum time between two attempts to allocate after "disk full".
_RETRY_SPACE_MS: Final = 1_000


# Records dispatched in one turn of the loop, about 10 ms.
DISPATCH_SLICE: Final = 2_048


class PutRefusedError(Exception):
    """A message of a batch is illegal; the batch is not stored."""

    def __init__(self, status: PutMessageStatus, remark: str) -> None:
        super().__init__(remark)
        self.status = status
        self.remark = remark


class StoreWriter:
    """The write side of a store; counts puts, bytes and refusals."""

    config: MessageStoreConfig
    clock: Clock
    disk: Disk
    log: CommitLog
    queue_table: ConsumeQueueStore
    index: IndexService | None
    reput: ReputService
    flusher: FlushService
    sync_flush: bool
    _defer: Callable[[Callable[[], None]], None] | None

    def __init__(self) -> None:
        # Reasons why puts are refused; checked by every put.
        self.flags = RunningFlags()
        # Time of the last allocation attempt after "disk full", and whether that was logged.
        self._full_since = 0.0
        self._disk_full_reported = False
        self._told_error = ""
        self._deferred = False
        self._multi_dispatch = self.config.enable_multi_dispatch
        self.put_count = 0
        self.put_bytes = 0
        self.put_failed = 0

    def _dispatch_slice(self) -> None:
        """Dispatch; a large backlog in several event-loop turns, with other work in between."""
        if self._defer is None:
            self.dispatch()
            return
        before = self.reput.offset
        self.dispatch(DISPATCH_SLICE)
        if before < self.reput.offset < self._dispatch_limit:
            self._defer(self._dispatch_slice)

    @property
    def _dispatch_limit(self) -> int:
        """Physical offset up to which records may become visible."""
        return self.log.flushed_where if self.sync_flush else self.log.max_offset

    def dispatch(self, most: int | None = None) -> None:
        """Make appended messages visible, at most ``most`` of them."""
        raise NotImplementedError

    def _schedule_flush(self) -> None:
        """Schedule dispatch and flush of the appended messages."""
        raise NotImplementedError

    def put_message(self, inner: MessageExtBrokerInner) -> PutMessageResult:
        """Append one message. PUT_OK means that it is in the log, not that it is flushed.

        Does not raise for an illegal message or a disk error: status and ``remark`` give the
        reason.

        **Source:** RocketMQ CommitLog#asyncPutMessage.
        """
        if self.flags.refusal is not None and not self._may_retry():
            return self._refuse(_REFUSED, self.not_writable_reason)
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
        queue_offset = queue.next_offset
        taken = 1
        drawn: Sequence[ConsumeQueue] = ()
        try:
            if sys_flag & _SPECIAL or self._multi_dispatch:
                illegal = self._illegal_special(inner)
                if illegal:
                    return self._refuse(_ILLEGAL, illegal)
                taken, drawn = self._special(inner, queue_offset)
                if taken == 0:
                    queue_offset = 0
            if queue_offset >= queue.room:
                queue.ensure_capacity(queue_offset)
            physical_offset, size = self.log.append(inner, topic, queue_offset, self.clock.now_ms())
        except Exception as error:
            return_offsets(drawn)
            return self._append_failed(error)
        if taken:
            queue.next_offset = queue_offset + taken
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
            self._schedule_flush()
        return PutMessageResult(_PUT_OK, queue_offset, physical_offset, size, store_timestamp)

    def put_messages(self, inners: Sequence[MessageExtBrokerInner]) -> list[PutMessageResult]:
        """Append messages of one queue consecutively in one file; one result per message.

        A refusal before the first append is a list of one result, and no message is stored.
        Conditions of the queue are checked once for all messages.

        **Source:** RocketMQ CommitLog#asyncPutMessages.
        """
        if self.flags.refusal is not None and not self._may_retry():
            return [self._refuse(_REFUSED, self.not_writable_reason)]
        for inner in inners:
            reason = self._illegal(inner)
            if reason is not None:
                return [self._refuse(*reason)]
        first = inners[0]
        topic = self.queue_table.topic(first.topic)
        queue = self.queue_table.queue(topic, first.queue_id)
        try:
            self.log.ensure_capacity(sum([self.log.record_size(inner, topic) for inner in inners]))
            if queue.next_offset + len(inners) > queue.room:
                queue.ensure_capacity(queue.next_offset + len(inners) - 1)
        except (DiskFullError, RecordTooLargeError, StoreError, OSError) as error:
            return [self._append_failed(error)]
        deferred = self._deferred
        self._deferred = True  # one dispatch and flush for all of them
        try:
            if self._multi_dispatch or first.sys_flag & _SPECIAL:
                results = [self.put_message(inner) for inner in inners]
            else:
                results = self._put_plain(inners, topic, queue)
        finally:
            self._deferred = deferred
        if not deferred:
            self._schedule_flush()
        return results

    def encode_batch(
        self, inners: Iterable[MessageExtBrokerInner], batch: EncodedBatch
    ) -> Iterator[None]:
        """Check and encode the messages of a batch one by one, for callers that work in slices.

        PutRefusedError for an illegal message; RemoteProtocolError of ``inners`` passes through.
        """
        for inner in inners:
            reason = self._illegal(inner)
            if reason is not None:
                raise PutRefusedError(*reason)
            batch.add(inner)
            yield

    def new_batch(self, topic: str, queue_id: int) -> EncodedBatch | None:
        """Return an empty batch for :meth:`encode_batch` and :meth:`put_batch`.

        None with multi-dispatch, whose properties are completed when the record is appended.
        """
        if self._multi_dispatch:
            return None
        return EncodedBatch(self.queue_table.topic(topic), queue_id)

    def put_batch(self, batch: EncodedBatch) -> PutBatchResult:
        """Append the encoded messages of a batch: all of them consecutively in one file, or none.

        **Source:** RocketMQ CommitLog#asyncPutMessages.
        """
        if self.flags.refusal is not None and not self._may_retry():
            refused = self._refuse(_REFUSED, self.not_writable_reason)
            return PutBatchResult(refused.status, remark=refused.remark)
        count = len(batch.inners)
        topic = self.queue_table.topic(batch.topic.name)
        queue = self.queue_table.queue(topic, batch.queue_id)
        first = queue.next_offset
        try:
            if first + count > queue.room:
                queue.ensure_capacity(first + count - 1)
            offsets = self.log.append_batch(batch, first, self.clock.now_ms())
        except (DiskFullError, RecordTooLargeError, StoreError, OSError) as error:
            refused = self._append_failed(error)
            return PutBatchResult(refused.status, remark=refused.remark)
        stored = self.log.last_store_timestamp
        end = self.log.max_offset
        note = self.reput.note
        ends = [*offsets[1:], end]
        for number, inner in enumerate(batch.inners):
            start = offsets[number]
            note(
                (
                    start,
                    ends[number] - start,
                    stored,
                    inner.sys_flag,
                    first + number,
                    queue,
                    inner.properties,
                    inner.tags_code,
                )
            )
        queue.next_offset = first + count
        self.put_count += count
        self.put_bytes += len(batch.data)
        if not self._deferred:
            self._schedule_flush()
        return PutBatchResult(_PUT_OK, first, offsets, len(batch.data), end)

    def _put_plain(
        self, inners: Sequence[MessageExtBrokerInner], topic: Topic, queue: ConsumeQueue
    ) -> list[PutMessageResult]:
        """Append plain messages after their checks and reservations, as :meth:`put_message`."""
        append, note = self.log.append, self.reput.note
        now = self.clock.now_ms()
        queue_offset = queue.next_offset
        results = []
        for inner in inners:
            physical_offset, size = append(inner, topic, queue_offset, now)
            stored = self.log.last_store_timestamp
            note(
                (
                    physical_offset,
                    size,
                    stored,
                    inner.sys_flag,
                    queue_offset,
                    queue,
                    inner.properties,
                    inner.tags_code,
                )
            )
            results.append(PutMessageResult(_PUT_OK, queue_offset, physical_offset, size, stored))
            queue_offset += 1
            self.put_bytes += size
        queue.next_offset = queue_offset
        self.put_count += len(results)
        return results

    def _illegal(self, inner: MessageExtBrokerInner) -> tuple[PutMessageStatus, str] | None:
        """Status and reason why a message is illegal, None if it is legal.

        **Source:** RocketMQ HookUtils#checkBeforePutMessage, MessageExtEncoder#encode.
        """
        if inner.topic not in self.queue_table.topics or inner.queue_id < 0:
            reason = self.why_illegal_place(inner.topic, inner.queue_id)
            if reason is not None:
                return _ILLEGAL, reason
        if len(inner.body) > self.config.max_message_size:
            return _ILLEGAL, (
                f"body of {len(inner.body)} bytes, at most {self.config.max_message_size}"
            )
        if len(inner.properties) > MAX_PROPERTIES:
            return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, (
                f"properties of {len(inner.properties)} bytes, at most {MAX_PROPERTIES}"
            )
        if inner.sys_flag & _SPECIAL or self._multi_dispatch:
            reason = self._illegal_special(inner)
            return (_ILLEGAL, reason) if reason else None
        return None

    def why_illegal_place(self, topic: str, queue_id: int) -> str | None:
        """Reason why topic name and queue id are illegal, None if they are legal."""
        name = topic.encode("utf-8", "replace")
        if len(name) > TOPIC_MAX_SIZE or (len(name) > 127 and name[:7] != b"%RETRY%"):
            return f"topic of {len(name)} bytes"
        if not is_queue_name(name) or queue_id < 0:
            return f"topic {topic!r}, queue {queue_id}"
        return None

    def _illegal_special(self, inner: MessageExtBrokerInner) -> str:
        """Reason why an inner batch or the LMQ names of a message are illegal; empty if legal.

        **Source:** RocketMQ HookUtils#checkInnerBatch.
        """
        if inner.sys_flag & TRANSACTION_MASK not in (0, TRANSACTION_COMMIT):
            return ""
        if inner.sys_flag & INNER_BATCH:
            topic = self.queue_table.topics.get(inner.topic)
            if topic is None or not topic.batch:
                return "inner batch, but no BatchCQ topic"
        elif self._multi_dispatch and MULTI_DISPATCH in inner.properties:
            return check_names(inner.topic, inner.properties)
        return ""

    def _refuse(self, status: PutMessageStatus, remark: str) -> PutMessageResult:
        self.put_failed += 1
        return PutMessageResult(status, remark=remark)

    def _append_failed(self, error: Exception) -> PutMessageResult:
        """Result of a put that stored no message; re-raises errors unrelated to files."""
        if isinstance(error, (RecordTooLargeError, FileNameError)):
            return self._refuse(_ILLEGAL, str(error))
        if not isinstance(error, (StoreError, OSError)):
            raise error
        if isinstance(error, DiskFullError):
            self._disk_full(error)
            return self._refuse(_REFUSED, error.message)
        if str(error) != self._told_error:
            self._told_error = str(error)
            _log.error("a file for the next message cannot be made: %s", error)
        return self._refuse(PutMessageStatus.CREATE_MAPPED_FILE_FAILED, str(error))

    def _special(
        self, inner: MessageExtBrokerInner, queue_offset: int
    ) -> tuple[int, Sequence[ConsumeQueue]]:
        """Prepare a non-plain message; (number of queue offsets it takes, further queues).

        Prepared and rollback records take none. An inner batch takes one per message in it, and
        INNER_BASE is set; with INNER_MULTI_DISPATCH the offsets in the further queues are set.

        **Source:** RocketMQ CommitLog#getMessageNum, MultiDispatchUtils.
        """
        kind = inner.sys_flag & TRANSACTION_MASK
        if kind and kind != TRANSACTION_COMMIT:
            return 0, ()
        if inner.sys_flag & INNER_BATCH:
            base = str(queue_offset).encode()
            inner.properties = set_property(inner.properties, b"INNER_BASE", base)
            return inner_count(inner.properties) or 1, ()
        if self._multi_dispatch and MULTI_DISPATCH in inner.properties:
            inner.properties, drawn = draw_offsets(self.queue_table, inner)
            return 1, drawn
        return 1, ()

    @property
    def dispatch_behind_bytes(self) -> int:
        """Bytes of the log not yet dispatched."""
        return max(0, self.log.max_offset - self.reput.offset)

    @property
    def dispatch_failed(self) -> int:
        """Number of records not dispatched to all of their queues since load()."""
        return self.reput.quarantined

    # --- writable or not ----------------------------------------------------------------------

    @property
    def writable(self) -> bool:
        """Whether puts are accepted."""
        return self.flags.writable

    @property
    def not_writable_reason(self) -> str:
        """Reason why puts are refused, empty while they are accepted."""
        return self.flags.refusal or ""

    def _dispatch_failed(self, reason: str) -> None:
        if self.flags.writable:
            _log.error("the store takes no more writes: %s", reason)
        self.flags.make_dispatch_failed(reason)

    def _background_died(self, reason: str) -> None:
        _log.critical("the store takes no more writes: %s", reason)
        self.flags.make_background_failed(reason)

    def _flush_failed(self, reason: str) -> None:
        """Refuse writes until the store is opened again: a sync has failed.

        The mark in ``abort`` makes the next start rewrite and sync all data.
        """
        if self.disk.refusal:
            # The directory is lost and already reported; its abort file may be another broker's.
            return
        self.flags.make_sync_failed(reason)
        _log.critical("the store takes no more writes: %s", reason)
        abort = os.path.join(self.config.root, ABORT)
        try:
            self.disk.write(
                abort, abort_content(self.disk, self.config.root) + SYNC_FAILED, sync=False
            )
        except (OSError, StoreError) as error:
            _log.error("%s: the failed sync cannot be noted: %s", abort, error)

    def _store_lost(self, reason: str) -> None:
        """Refuse writes and file changes permanently: another broker may use the directory."""
        reason += ": stop this broker, restore the directory, then start it"
        self.disk.revoke(reason)
        self.flags.make_directory_lost(reason)
        self.flusher.fail(reason)
        _log.critical("the store takes no more writes: %s", reason)

    def _disk_full(self, error: DiskFullError) -> None:
        if not self._disk_full_reported and not self.flags.sync_failed:
            _log.error("disk full, the store takes no writes for now: %s", error.message)
        self._disk_full_reported = True
        self._full_since = self.clock.monotonic_ms()
        self.flags.make_disk_full(error.message)

    def _may_retry(self) -> bool:
        """Retry the allocation after a full disk, at most once a second; True if now writable."""
        flags = self.flags
        if not flags.disk_full or self.clock.monotonic_ms() - self._full_since < _RETRY_SPACE_MS:
            return False
        self._full_since = self.clock.monotonic_ms()
        try:
            self.log.ready()
            if self.index is not None:
                self.index.catch_up()
        except DiskFullError as error:
            self._disk_full(error)
            return False
        except (StoreError, OSError) as error:
            _log.error("the disk was full and cannot be used again: %s", error)
            return False
        flags.disk_has_space()
        self.dispatch()
        return flags.writable

    def _report_space_recovered(self) -> None:
        """Log that a full disk is over, after a quiet time: on a nearly full disk it alternates."""
        quiet_ms = self.clock.monotonic_ms() - self._full_since
        if self._disk_full_reported and self.flags.writable and quiet_ms >= _ROOM_MS:
            self._disk_full_reported = False
            _log.warning("there is room on the disk again: the store takes writes")
