"""StoreWriter: everything that appends — puts, their limits, and when puts are refused.

**Source:** RocketMQ CommitLog#asyncPutMessage, HookUtils#checkBeforePutMessage, RunningFlags.
"""

import logging
import os
from collections.abc import Sequence
from typing import Final

from broker.common.clock import Clock
from broker.common.sysflag import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_MASK
from broker.errors import DiskFullError, StoreError
from broker.message.properties import peek_property, set_property
from broker.message.record import TOPIC_MAX_SIZE
from broker.store.commitlog import MAX_PROPERTIES, CommitLog, RecordTooLargeError
from broker.store.config import MessageStoreConfig
from broker.store.consumequeue import ConsumeQueue, Topic
from broker.store.files import Disk
from broker.store.flush import FlushService
from broker.store.format.state import ABORT
from broker.store.index import IndexService
from broker.store.multi_dispatch import MULTI_DISPATCH, draw_offsets
from broker.store.queue_table import ConsumeQueueTable
from broker.store.recovery import SYNC_FAILED, abort_content
from broker.store.reput import ReputService
from broker.store.results import MessageInner, PutMessageResult, PutMessageStatus

_log = logging.getLogger(__name__)

_PUT_OK: Final = PutMessageStatus.PUT_OK
_REFUSED: Final = PutMessageStatus.SERVICE_NOT_AVAILABLE
_ILLEGAL: Final = PutMessageStatus.MESSAGE_ILLEGAL
_SPECIAL: Final = TRANSACTION_MASK | INNER_BATCH
DISK_FULL: Final = "disk full: "
# "No space" is over when nothing has failed for so long.
_ROOM_MS: Final = 10_000
# After "no space" the disk is asked again no sooner than this.
_RETRY_SPACE_MS: Final = 1_000


class StoreWriter:
    """The writing half of a store; counts what it stores."""

    config: MessageStoreConfig
    clock: Clock
    disk: Disk
    log: CommitLog
    queue_table: ConsumeQueueTable
    index: IndexService | None
    reput: ReputService
    flusher: FlushService

    def __init__(self) -> None:
        # Why puts are refused, None while they are not; read by every put.
        self._refusal: str | None = "the store is not open"
        # A sync failed: until the store is opened again nothing is stored.
        self._failed = False
        self._full = ""
        self._full_since = 0.0
        self._told_full = False
        self._warned_full = False
        self._deferred = False
        self._multi_dispatch = self.config.enable_multi_dispatch
        self.put_count = 0
        self.put_bytes = 0
        self.put_failed = 0

    def dispatch(self) -> None:
        """Make appended messages visible."""
        raise NotImplementedError

    def _turn(self) -> None:
        """See to it that what was appended is dispatched and flushed."""
        raise NotImplementedError

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
        queue_offset = queue.next_offset
        taken = 1
        if sys_flag & _SPECIAL or self._multi_dispatch:
            taken = self._special(inner, queue_offset)
            if taken < 0:
                return self._refuse(_ILLEGAL, "inner batch without INNER_NUM, or no BatchCQ topic")
            if taken == 0:
                queue_offset = 0
        try:
            if queue_offset >= queue.room:
                queue.make_room(queue_offset)
            physical_offset, size = self.log.append(inner, topic, queue_offset, self.clock.now_ms())
        except (DiskFullError, RecordTooLargeError, StoreError, OSError) as error:
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
            self._turn()
        return PutMessageResult(_PUT_OK, queue_offset, physical_offset, size, store_timestamp)

    def put_messages(self, inners: Sequence[MessageInner]) -> list[PutMessageResult]:
        """Append messages of one queue next to each other, in one file; one result each.

        All or none: a refusal (a list of one result) stores nothing. What depends on the queue
        alone is looked at once.

        **Source:** RocketMQ CommitLog#asyncPutMessages.
        """
        if self._refusal is not None and not self._may_retry():
            return [self._refuse(_REFUSED, self._refusal)]
        for inner in inners:
            reason = self._illegal(inner)
            if reason is not None:
                return [self._refuse(*reason)]
        first = inners[0]
        topic = self.queue_table.topic(first.topic)
        queue = self.queue_table.queue(topic, first.queue_id)
        try:
            self.log.make_room(sum([self.log.record_size(inner, topic) for inner in inners]))
            if queue.next_offset + len(inners) > queue.room:
                queue.make_room(queue.next_offset + len(inners) - 1)
        except (DiskFullError, RecordTooLargeError, StoreError, OSError) as error:
            return [self._append_failed(error)]
        deferred = self._deferred
        self._deferred = True  # one turn for all of them
        try:
            if self._multi_dispatch or first.sys_flag & _SPECIAL:
                results = [self.put_message(inner) for inner in inners]
            else:
                results = self._put_plain(inners, topic, queue)
        finally:
            self._deferred = deferred
        if not deferred:
            self._turn()
        return results

    def _put_plain(
        self, inners: Sequence[MessageInner], topic: Topic, queue: ConsumeQueue
    ) -> list[PutMessageResult]:
        """What :meth:`put_message` does, for messages that are checked and have their room."""
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

    def _illegal(self, inner: MessageInner) -> tuple[PutMessageStatus, str] | None:
        """Why a message cannot be stored at all, None if it can.

        **Source:** RocketMQ HookUtils#checkBeforePutMessage, MessageExtEncoder#encode.
        """
        if inner.topic not in self.queue_table.topics or inner.queue_id < 0:
            topic_size = len(inner.topic.encode("utf-8", "replace"))
            if topic_size > TOPIC_MAX_SIZE or (
                topic_size > 127 and not inner.topic.startswith("%RETRY%")
            ):
                return _ILLEGAL, f"topic of {topic_size} bytes"
            if not inner.topic or set(inner.topic) & {"/", "\0"} or inner.queue_id < 0:
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

    def _special(self, inner: MessageInner, queue_offset: int) -> int:
        """Prepare what is no plain message; how many queue offsets it takes, -1 if it is illegal.

        Prepared and rollback records take none. An inner batch takes one per message in it and
        gets INNER_BASE; a message with INNER_MULTI_DISPATCH gets its offsets in the other queues.

        **Source:** RocketMQ CommitLog#getMessageNum, MultiDispatchUtils, HookUtils#checkInnerBatch.
        """
        kind = inner.sys_flag & TRANSACTION_MASK
        if kind and kind != TRANSACTION_COMMIT:
            return 0
        if inner.sys_flag & INNER_BATCH:
            number = peek_property(inner.properties, b"INNER_NUM")
            topic = self.queue_table.topics.get(inner.topic)
            if number is None or not number.isdigit() or topic is None or not topic.batch:
                return -1
            inner.properties = set_property(
                inner.properties, b"INNER_BASE", str(queue_offset).encode()
            )
            return int(number)
        if self._multi_dispatch and MULTI_DISPATCH in inner.properties:
            inner.properties = draw_offsets(self.queue_table, inner)
        return 1

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
        if not self._failed:
            _log.error("the store takes no more writes: %s", reason)
            self._refusal = reason

    def _flush_failed(self, reason: str) -> None:
        """A sync failed: for good, until the store is opened again."""
        self._failed = True
        self._full = ""
        self._refusal = reason
        _log.critical("the store takes no more writes: %s", reason)
        abort = os.path.join(self.config.root, ABORT)
        try:
            self.disk.write(
                abort, abort_content(self.disk, self.config.root) + SYNC_FAILED, sync=False
            )
        except (OSError, StoreError) as error:
            _log.error("%s: the failed sync cannot be noted: %s", abort, error)

    def _disk_full(self, error: DiskFullError) -> None:
        if self._failed:
            return
        if not self._told_full:
            _log.error("disk full, the store takes no writes for now: %s", error.message)
        self._told_full = True
        self._full = error.message
        self._full_since = self.clock.monotonic_ms()
        self._refusal = DISK_FULL + error.message

    def _may_retry(self) -> bool:
        """Try again after a full disk, at most once a second."""
        if not self._full or self.clock.monotonic_ms() - self._full_since < _RETRY_SPACE_MS:
            return False
        self._full_since = self.clock.monotonic_ms()
        try:
            self.log.ready()
            if self.index is not None:
                self.index.catch_up()
        except DiskFullError as error:
            self._disk_full(error)
            return False
        self._full = ""
        self._refusal = None
        self.dispatch()
        return self._refusal is None

    def _tell_room(self) -> None:
        """Say that a full disk is over once it has been so for a while: small puts may fit."""
        quiet_ms = self.clock.monotonic_ms() - self._full_since
        if self._told_full and self._refusal is None and quiet_ms >= _ROOM_MS:
            self._told_full = False
            _log.warning("there is room on the disk again: the store takes writes")
