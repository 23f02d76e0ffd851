"""StoreWriter: append messages after checking their limits and the store's RunningFlags.

**Source:** RocketMQ CommitLog#asyncPutMessage, HookUtils#checkBeforePutMessage.
"""

from collections.abc import Sequence
from typing import Final

from broker.common.clock import Clock
from broker.common.sysflag import INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_MASK
from broker.common.topic import TIMER_TOPIC
from broker.errors import DiskFullError, FileNameError, StoreError
from broker.message.properties import PROPERTIES_MAX_SIZE, set_property
from broker.message.record import TOPIC_MAX_SIZE
from broker.store.commitlog import CommitLog
from broker.store.config import MessageStoreConfig
from broker.store.consumequeue.consume_queue import ConsumeQueue, Topic
from broker.store.consumequeue.multi_dispatch import (
    MULTI_DISPATCH,
    check_names,
    draw_offsets,
    return_offsets,
)
from broker.store.dispatch.reput import ReputService
from broker.store.dispatch.request import PendingBatch
from broker.store.dispatch.scheduler import DispatchScheduler
from broker.store.encoded_batch import EncodedBatch
from broker.store.faults.handler import FaultHandler
from broker.store.faults.running_flags import RunningFlags
from broker.store.format.consumequeue import is_queue_name, peek_inner_count
from broker.store.format.ha import ReplicatedRecord
from broker.store.results import (
    MessageExtBrokerInner,
    PutBatchResult,
    PutMessageResult,
    PutMessageStatus,
    RecordTooLargeError,
)

_PUT_OK: Final = PutMessageStatus.PUT_OK
_REFUSED: Final = PutMessageStatus.SERVICE_NOT_AVAILABLE
_ILLEGAL: Final = PutMessageStatus.MESSAGE_ILLEGAL
_LMQ_EXCEEDED: Final = PutMessageStatus.LMQ_CONSUME_QUEUE_NUM_EXCEEDED
_SPECIAL: Final = TRANSACTION_MASK | INNER_BATCH


class StoreWriter:
    """The write side of a store; counts puts, bytes and refusals."""

    def __init__(
        self,
        config: MessageStoreConfig,
        clock: Clock,
        log: CommitLog,
        reput: ReputService,
        scheduler: DispatchScheduler,
        *,
        flags: RunningFlags,
        faults: FaultHandler,
    ) -> None:
        self._config = config
        self._clock = clock
        self._log = log
        self._reput = reput
        self._queues = reput.queues
        self._scheduler = scheduler
        self._flags = flags
        self._faults = faults
        self.multi_dispatch = config.enable_multi_dispatch
        self.put_count = 0
        self.put_bytes = 0
        self.put_failed = 0

    def set_config(self, config: MessageStoreConfig) -> None:
        """Apply a changed maxMessageSize."""
        self._config = config

    def put_message(self, inner: MessageExtBrokerInner) -> PutMessageResult:
        """Append one message. PUT_OK means that it is in the log, not that it is flushed.

        With :meth:`CommitLog.gather` it is in the log after the next call of that function.
        Does not raise for an illegal message or a disk error: status and ``remark`` give the
        reason.

        **Source:** RocketMQ CommitLog#asyncPutMessage.
        """
        if self._flags.refusal is not None and not self._scheduler.retry_allocation():
            return self._refuse(_REFUSED, self._flags.refusal or "")
        topic = self._queues.topics.get(inner.topic)
        if (
            topic is None
            or len(inner.properties) > PROPERTIES_MAX_SIZE
            or (len(inner.body) > self._config.max_message_size)
        ):
            reason = self._illegal(inner)
            if reason is not None:
                return self._refuse(*reason)
            topic = self._queues.topic(inner.topic)
        queue = topic.queues.get(inner.queue_id)
        if queue is None:
            queue = self._queues.queue(topic, inner.queue_id)
        sys_flag = inner.sys_flag
        queue_offset = queue.next_offset
        taken = 1
        drawn: Sequence[ConsumeQueue] = ()
        try:
            if sys_flag & _SPECIAL or self.multi_dispatch:
                illegal = self._illegal_special(inner)
                if illegal:
                    return self._refuse(_ILLEGAL, illegal)
                if self.multi_dispatch and self._too_many_lmqs(inner):
                    limit = self._config.max_lmq_consume_queue_num
                    return self._refuse(_LMQ_EXCEEDED, f"more than {limit} light message queues")
                taken, drawn = self._special(inner, queue_offset)
                if taken == 0:
                    queue_offset = 0
            if taken and queue_offset >= queue.reserved_offset:
                self._log.check_numbers(inner)
                queue.ensure_capacity(queue_offset)
            physical_offset, size = self._log.append(
                inner, topic, queue_offset, self._clock.now_ms()
            )
        except Exception as error:
            return_offsets(drawn)
            return self._append_failed(error)
        if taken:
            queue.next_offset = queue_offset + taken
        store_timestamp = self._log.last_store_timestamp
        self.put_count += 1
        self.put_bytes += size
        self._reput.note(
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
        if not self._scheduler.scheduled:
            self._scheduler.schedule()
        return PutMessageResult(_PUT_OK, queue_offset, physical_offset, size, store_timestamp)

    def append_replica(
        self,
        data: bytes,
        physical_offset: int,
        last_store_timestamp: int,
        records: Sequence[ReplicatedRecord] = (),
    ) -> None:
        """Append validated bytes of the master's log; dispatch and flush follow as after a put.

        ``records``: those in ``data``, if it consists of records. They are dispatched without
        reading the log again.
        Errors as in CommitLog.append_replica; a full disk is recorded, too.
        """
        try:
            self._log.append_replica(data, physical_offset, last_store_timestamp)
        except DiskFullError as error:
            self._faults.disk_full(error)
            raise
        self._reput.note_replica(physical_offset, records)
        if not self._scheduler.scheduled:
            self._scheduler.schedule()

    def put_messages(self, inners: Sequence[MessageExtBrokerInner]) -> list[PutMessageResult]:
        """Append messages of one queue consecutively in one file; one result per message.

        A refusal before the first append is a list of one result, and no message is stored; nor is
        one if struct.error is raised for a number that does not fit its field. Conditions of the
        queue are checked once for all messages.

        **Source:** RocketMQ CommitLog#asyncPutMessages.
        """
        if self._flags.refusal is not None and not self._scheduler.retry_allocation():
            return [self._refuse(_REFUSED, self._flags.refusal or "")]
        for inner in inners:
            reason = self._illegal(inner)
            if reason is not None:
                return [self._refuse(*reason)]
            self._log.check_numbers(inner)
        first = inners[0]
        topic = self._queues.topic(first.topic)
        queue = self._queues.queue(topic, first.queue_id)
        try:
            self._log.ensure_capacity(
                sum([self._log.record_size(inner, topic) for inner in inners])
            )
            if queue.next_offset + len(inners) > queue.reserved_offset:
                queue.ensure_capacity(queue.next_offset + len(inners) - 1)
        except (DiskFullError, RecordTooLargeError, StoreError, OSError) as error:
            return [self._append_failed(error)]
        scheduled = self._scheduler.pause()  # one dispatch and flush for all of them
        try:
            if self.multi_dispatch or first.sys_flag & _SPECIAL:
                return [self.put_message(inner) for inner in inners]
            return self._put_plain(inners, topic, queue)
        finally:
            self._scheduler.resume(scheduled)

    def new_batch(self, shared: MessageExtBrokerInner) -> EncodedBatch | None:
        """Return an empty batch for :meth:`put_batch`, whose records have the fields of ``shared``.

        None for messages whose properties are completed when they are appended: with multi-dispatch
        and for inner batches. struct.error if a number does not fit its field.
        """
        if self.multi_dispatch or shared.sys_flag & _SPECIAL:
            return None
        refused = None
        topic = self._queues.topics.get(shared.topic)
        if topic is None or shared.queue_id < 0:
            refused = self.why_illegal_place(shared.topic, shared.queue_id)
            topic = Topic(shared.topic) if refused else self._queues.topic(shared.topic)
        queue = topic.queues.get(shared.queue_id)
        place = self._log.next_place(queue.next_offset if queue else 0, self._clock.now_ms())
        batch = EncodedBatch(topic, shared, place, self._config.max_message_size)
        if refused is not None:
            batch.refused = _ILLEGAL, refused
        return batch

    def put_batch(self, batch: EncodedBatch) -> PutBatchResult:
        """Append an encoded batch: all records consecutively in one file, or none.

        **Source:** RocketMQ CommitLog#asyncPutMessages.
        """
        refused = None
        if self._flags.refusal is not None and not self._scheduler.retry_allocation():
            refused = self._refuse(_REFUSED, self._flags.refusal or "")
        elif batch.refused is not None:
            refused = self._refuse(*batch.refused)
        if refused is not None:
            return PutBatchResult(refused.status, remark=refused.remark)
        count = len(batch.starts)
        queue = self._queues.queue(self._queues.topic(batch.topic.name), batch.queue_id)
        first = queue.next_offset
        try:
            if first + count > queue.reserved_offset:
                queue.ensure_capacity(first + count - 1)
            start = self._log.append_batch(batch, first, self._clock.now_ms())
        except (DiskFullError, RecordTooLargeError, StoreError, OSError) as error:
            refused = self._append_failed(error)
            return PutBatchResult(refused.status, remark=refused.remark)
        size = len(batch.data)
        offsets = [start + position for position in batch.starts]
        stored = self._log.last_store_timestamp
        self._reput.note_batch(
            PendingBatch(
                queue, first, [*offsets, start + size], batch.properties, stored, batch.sys_flag
            )
        )
        queue.next_offset = first + count
        self.put_count += count
        self.put_bytes += size
        if not self._scheduler.scheduled:
            self._scheduler.schedule()
        return PutBatchResult(_PUT_OK, first, offsets, size, start + size)

    def _put_plain(
        self, inners: Sequence[MessageExtBrokerInner], topic: Topic, queue: ConsumeQueue
    ) -> list[PutMessageResult]:
        """Append plain messages after their checks and reservations, as :meth:`put_message`."""
        append, note = self._log.append, self._reput.note
        now = self._clock.now_ms()
        queue_offset = queue.next_offset
        results = []
        try:
            for inner in inners:
                physical_offset, size = append(inner, topic, queue_offset, now)
                stored = self._log.last_store_timestamp
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
                result = PutMessageResult(_PUT_OK, queue_offset, physical_offset, size, stored)
                results.append(result)
                queue_offset += 1
                self.put_bytes += size
        finally:
            # Also after an error in the middle: the offsets of stored records are taken.
            queue.next_offset = queue_offset
            self.put_count += len(results)
        return results

    def _illegal(self, inner: MessageExtBrokerInner) -> tuple[PutMessageStatus, str] | None:
        """Status and reason why a message is illegal, None if it is legal.

        **Source:** RocketMQ HookUtils#checkBeforePutMessage, MessageExtEncoder#encode.
        """
        if inner.topic not in self._queues.topics or inner.queue_id < 0:
            reason = self.why_illegal_place(inner.topic, inner.queue_id)
            if reason is not None:
                return _ILLEGAL, reason
        if len(inner.body) > self._config.max_message_size:
            return _ILLEGAL, (
                f"body of {len(inner.body)} bytes, at most {self._config.max_message_size}"
            )
        if len(inner.properties) > PROPERTIES_MAX_SIZE:
            return PutMessageStatus.PROPERTIES_SIZE_EXCEEDED, (
                f"properties of {len(inner.properties)} bytes, at most {PROPERTIES_MAX_SIZE}"
            )
        if inner.sys_flag & _SPECIAL or self.multi_dispatch:
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
            if inner.topic == TIMER_TOPIC:
                return ""  # checked with its own topic, before the timer took it
            topic = self._queues.topics.get(inner.topic)
            if topic is None or not topic.batch:
                return "inner batch, but no BatchCQ topic"
        elif self.multi_dispatch and MULTI_DISPATCH in inner.properties:
            return check_names(inner.topic, inner.properties)
        return ""

    def _too_many_lmqs(self, inner: MessageExtBrokerInner) -> bool:
        """Whether a message names LMQs although their number is above the limit.

        **Source:** RocketMQ DefaultMessageStore#checkLmqMessage.
        """
        exceeded = self._queues.lmq_count > self._config.max_lmq_consume_queue_num
        return exceeded and MULTI_DISPATCH in inner.properties

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
            self._faults.disk_full(error)
            return self._refuse(_REFUSED, error.message)
        self._faults.allocation_failed(error)
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
            if inner.topic == TIMER_TOPIC:
                return 1, ()
            base = str(queue_offset).encode()
            inner.properties = set_property(inner.properties, b"INNER_BASE", base)
            return peek_inner_count(inner.properties) or 1, ()
        if self.multi_dispatch and MULTI_DISPATCH in inner.properties:
            self._log.check_numbers(inner)
            inner.properties, drawn = draw_offsets(self._queues, inner)
            return 1, drawn
        return 1, ()
