"""PopReviveService: read the revive queues and redeliver the messages not acknowledged in time.

``run`` reads new records, decides the check points that are due, and returns when it must be
called again. To decide a check point is to store each of its unacknowledged messages in the pop
retry topic of the group, with reconsumeTimes increased, which wakes a suspended pop of the group.
The revive offset advances only after that, so a crash repeats work and loses none. The maximum of
reconsumeTimes is not checked here: the consumer moves a message to the DLQ (the proxy, by
CONSUMER_SEND_MSG_BACK).

A message that the store refuses permanently gets a separate check point that is due later; with
skipWhenCKRePutReachMaxTimes it is skipped after the last of those delays. While the store is not
writable, the check point stays open and is retried.

**Source:** RocketMQ PopReviveService.
"""

import logging
from collections import deque
from typing import Final

from broker.common.java import parse_number
from broker.common.topic import RETRY_PREFIX, is_retry_topic, pop_retry_topic
from broker.errors import RemoteProtocolError
from broker.message import message as props
from broker.message.check_point import REVIVE_GROUP, AckMsg, PopCheckPoint
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import decode_record, scan_records
from broker.server.metrics.message_type import count_put
from broker.server.pop.in_flight import InFlightCounter
from broker.server.pop.parts import PopParts
from broker.server.pop.revive.revive_queue import ReviveQueue
from broker.server.pop.revive.revive_topic import REWRITE_S, ReviveTopic, flush_soon
from broker.store.results import GetMessageStatus, MessageExtBrokerInner, PutMessageStatus

log = logging.getLogger("broker.server")

RECORDS_PER_READ: Final = 32
READS_PER_RUN: Final = 16
MESSAGES_PER_RUN: Final = 64  # check points and messages; then the event loop serves others
MAX_WAIT_MS: Final = 1_000  # longest time between two calls while a check point is open
TIMER_PRECISION_MS: Final = 1_000  # timerPrecisionMs
RETRY_MS: Final = 100  # after a failed write, or while the timer is late
MAX_LOGGED: Final = 100  # skipped records that are logged since the start

_PERMANENT_REFUSALS: Final = {
    PutMessageStatus.MESSAGE_ILLEGAL,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
}
# Nothing to read at the offset; the result contains the next offset to read.
_GAP: Final = {
    GetMessageStatus.OFFSET_TOO_SMALL,
    GetMessageStatus.OFFSET_FOUND_NULL,
    GetMessageStatus.MESSAGE_WAS_REMOVING,
    GetMessageStatus.NO_MATCHED_MESSAGE,
}


class PopReviveService:
    """All revive queues of a broker.

    Since the start: number of messages ``revived``, number of records or messages ``skipped``.
    """

    def __init__(self, parts: PopParts, topic: ReviveTopic, in_flight: InFlightCounter) -> None:
        self._parts = parts
        self._topic = topic
        self._in_flight = in_flight
        self.queues: list[ReviveQueue] = []
        self.revived = 0
        self.skipped = 0
        self._first = 0  # queue of the next run to start with, in turn
        # Acknowledgements of revived check points, each with the end of the log that must be
        # flushed before it, its queue, and the offset of its check point there.
        self._unwritten: deque[tuple[int, AckMsg, ReviveQueue, int]] = deque()

    def load(self) -> None:
        """Continue after the committed revive offsets; called when store and tables are open."""
        parts, name = self._parts, self._topic.name
        own_broker = parts.config().broker_name
        self.queues = []
        for queue_id in range(self._topic.queues):
            committed = parts.offsets.query(REVIVE_GROUP, name, queue_id)
            queue = ReviveQueue(queue_id, committed, own_broker)
            end = parts.store.get_max_offset(name, queue_id)
            if queue.next_read > end:  # a power cut has lost the end of the log
                queue.rewind(end)
            self.queues.append(queue)

    @property
    def open_check_points(self) -> int:
        """Number of check points that were read and are not decided."""
        return sum(map(len, self.queues))

    def run(self) -> float | None:
        """Read and decide; return the time until the next call in ms.

        0: the limit of this call is used up. None: call again when the revive topic has a new
        record; without a timer there is nothing to do.
        """
        if not self._parts.timer.available:
            return None
        self._write_acks()
        # Taken before reading: everything due until then is in the queues already.
        delivered_until_ms = self._parts.timer.delivered_until_ms()
        budget = MESSAGES_PER_RUN
        wait_ms: float | None = None
        count = len(self.queues)
        for step in range(count):
            queue = self.queues[(self._first + step) % count]
            complete = self._read(queue)
            if complete:
                budget = self._decide(queue, budget, delivered_until_ms)
            elif queue.full:
                # An unread record may be an acknowledgement that was due up to 1 s before
                # the latest record read: the timer delivers each second in any order.
                budget = self._decide(queue, budget, queue.read_until_ms - TIMER_PRECISION_MS)
            # Else the rest is read first: after a restart records that were due earlier may
            # follow, since they came into the wheel later.
            self._commit(queue)
            if budget <= 0 or not (complete or queue.full):
                self._first = (queue.queue_id + 1) % count
                return 0.0
            queue_wait_ms = self._wait_ms(queue)
            if queue_wait_ms is not None and (wait_ms is None or queue_wait_ms < wait_ms):
                wait_ms = queue_wait_ms
        return wait_ms

    def _wait_ms(self, queue: ReviveQueue) -> float | None:
        """Return the time until a check point of a queue may be due, None if none is open."""
        due_ms = queue.next_due_ms()
        if due_ms is None:
            return None
        left_ms = due_ms - self._parts.clock.now_ms()
        return RETRY_MS if left_ms <= 0 else min(left_ms, MAX_WAIT_MS)

    # ---- reading

    def _read(self, queue: ReviveQueue) -> bool:
        """Read new records; True if the end of the queue was reached."""
        for _ in range(READS_PER_RUN):
            if queue.full:
                return False
            result = self._parts.store.get_message(
                self._topic.name, queue.queue_id, queue.next_read, RECORDS_PER_READ
            )
            if result.status is GetMessageStatus.FOUND:
                for message in scan_records(b"".join(result.buffers)):
                    self._accept(queue, message)
                queue.next_read = max(queue.next_read, result.next_begin_offset)
            elif result.status in _GAP and result.next_begin_offset > queue.next_read:
                queue.next_read = result.next_begin_offset
            else:
                return True
        return False

    def _accept(self, queue: ReviveQueue, message: MessageExt) -> None:
        """Pass a record to its queue, with the time at which the timer delivered it."""
        due = message.get_property(props.PROPERTY_TIMER_OUT_MS)
        due_ms = parse_number(due) if due is not None else None
        try:
            queue.accept(message.tags, message.body, message.queue_offset, due_ms or 0)
        except RemoteProtocolError as error:
            self._skip(queue.queue_id, message.queue_offset, error.message)

    def _skip(self, queue_id: int, queue_offset: int, reason: str) -> None:
        """Count and log a record of the revive topic that is not processed, or only in part."""
        self.skipped += 1
        if self.skipped <= MAX_LOGGED:
            log.error(
                "revive queue %d, queue offset %d: skipped: %s%s",
                queue_id,
                queue_offset,
                reason,
                "; further ones are only counted" if self.skipped == MAX_LOGGED else "",
            )

    # ---- deciding

    def _decide(self, queue: ReviveQueue, budget: int, safe_ms: int) -> int:
        """Decide due check points; return the unused rest of ``budget`` messages."""
        now_ms = self._parts.clock.now_ms()
        while budget > 0 and (ck := queue.due(now_ms, safe_ms)) is not None:
            budget -= 1
            left = ck.unacknowledged if self._subscribed(ck) else []
            for queue_offset in left:
                if not self._revive(queue, ck, queue_offset):
                    return budget
                ck.acknowledge([queue_offset])  # a second attempt starts at the next one
                budget -= 1
            if left and queue.overtakes(ck):
                self._acknowledge_revived(queue, ck)
            queue.done(ck)
        return budget

    def _acknowledge_revived(self, queue: ReviveQueue, ck: PopCheckPoint) -> None:
        """Acknowledge a check point that is decided before an earlier one in the log.

        The revive offset stays before the earlier one: a restart reads this one again, and must
        not redeliver its messages a second time. Java decides in the order of the queue instead,
        which can delay a message by another second. The acknowledgement is written when the copies
        in the retry topic are flushed: a power cut that kept only the acknowledgement would lose
        the messages. Until then the earlier check point is open, and :meth:`run` is called.
        """
        ack = AckMsg(
            topic=ck.topic,
            group=ck.group,
            queue_id=ck.queue_id,
            start_offset=ck.start_offset,
            pop_time=ck.pop_time,
            broker_name=ck.broker_name or self._parts.config().broker_name,
            offsets=[ck.offset_at(index) for index in range(ck.count)],
            batched=True,
        )
        end = self._parts.store.max_physical_offset
        self._unwritten.append((end, ack, queue, ck.revive_offset))

    def _write_acks(self) -> None:
        """Write the acknowledgements of revived check points whose copies are flushed."""
        flushed_where = self._parts.store.flushed_where
        while self._unwritten and self._unwritten[0][0] <= flushed_where:
            _, ack, queue, revive_offset = self._unwritten.popleft()
            if queue.committed < revive_offset:  # else a restart does not read it again
                self._topic.put_ack(ack, queue.queue_id, self._parts.clock.now_ms())

    def stop(self) -> None:
        """Flush the copies and write the acknowledgements that wait for it."""
        if self._unwritten and self._parts.store.flush():
            self._write_acks()

    def _subscribed(self, ck: PopCheckPoint) -> bool:
        """Return whether topic and group still exist; without them nothing is redelivered."""
        groups = self._parts.groups
        known = ck.group in groups or groups.find(ck.group) is not None
        return known and normal_topic(ck.topic, ck.group) in self._parts.topics

    def _revive(self, queue: ReviveQueue, ck: PopCheckPoint, queue_offset: int) -> bool:
        """Store one message in the retry topic; False if it must be tried again later."""
        parts = self._parts
        found = parts.store.get_message(ck.topic, ck.queue_id, queue_offset, 1)
        message = _message_at(found.buffers[0], queue_offset) if found.buffers else None
        if message is None:
            self._skip(
                queue.queue_id,
                ck.revive_offset,
                f"no message at queue offset {queue_offset} any more",
            )
            return True
        inner = self._retry_message(ck, message)
        reason = parts.store.why_illegal_place(inner.topic, inner.queue_id)
        if reason is None:
            if not self._retry_topic_ready(inner.topic, ck.group):
                return False
            result = parts.store.put_message(inner)
            if result.status is PutMessageStatus.PUT_OK:
                flush_soon(parts, result)
                self._record_revived(ck, inner.topic, result.store_size)
                return True
            if result.status not in _PERMANENT_REFUSALS:
                return False
            reason = result.remark or result.status.name
        if ck.re_put_times >= len(REWRITE_S) and parts.config().skip_when_ck_re_put_reach_max_times:
            self._skip(queue.queue_id, ck.revive_offset, f"given up: {reason}")
            return True
        again = self._topic.rewrite(ck, queue_offset, queue.queue_id)
        return again.status is PutMessageStatus.PUT_OK

    def _retry_topic_ready(self, topic: str, group: str) -> bool:
        """Create the retry topic if necessary; False until topics.json contains it."""
        parts = self._parts
        if topic not in parts.topics:
            parts.topics.ensure(topic, 1)
            if parts.offsets.query(group, topic, 0) < 0:
                parts.offsets.commit(group, topic, 0, 0)
        return parts.topics.is_persisted(topic)

    def _retry_message(self, ck: PopCheckPoint, message: MessageExt) -> MessageExtBrokerInner:
        """Return the copy for the retry topic.

        **Source:** RocketMQ PopReviveService#reviveRetry.
        """
        parts = self._parts
        topic = ck.topic
        if not is_retry_topic(topic):
            version_2 = parts.config().enable_retry_topic_v2
            topic = pop_retry_topic(topic, ck.group, version_2=version_2)
        properties = dict(message.properties)
        if message.reconsume_times == 0 or props.PROPERTY_FIRST_POP_TIME not in properties:
            properties[props.PROPERTY_FIRST_POP_TIME] = str(ck.pop_time)
        host = parts.store_host()
        return MessageExtBrokerInner(
            topic=topic,
            queue_id=0,
            body=message.body,
            properties=encode_properties(properties),
            flag=message.flag,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp,
            born_host=host,
            store_host=host,
            reconsume_times=message.reconsume_times + 1,
        )

    def _record_revived(self, ck: PopCheckPoint, retry_topic: str, size: int) -> None:
        """Count a redelivered message of ``size`` bytes; it is no longer in flight."""
        count_put(self._parts.stats, retry_topic, size)
        self.revived += 1
        self._in_flight.remove(ck.topic, ck.group, ck.queue_id, ck.pop_time)

    def _commit(self, queue: ReviveQueue) -> None:
        """Commit the revive offset of a queue if it has changed."""
        offsets, name = self._parts.offsets, self._topic.name
        committed = queue.committed
        if committed >= 0 and committed != offsets.query(REVIVE_GROUP, name, queue.queue_id):
            offsets.commit(REVIVE_GROUP, name, queue.queue_id, committed)


def normal_topic(topic: str, group: str) -> str:
    """Return the topic that a pop retry topic of ``group`` belongs to, else the topic itself.

    **Source:** RocketMQ KeyBuilder#parseNormalTopic.
    """
    for separator in "+_":
        prefix = f"{RETRY_PREFIX}{group}{separator}"
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return topic


def _message_at(record: memoryview, queue_offset: int) -> MessageExt | None:
    """Decode a record; None if it is corrupt or belongs to another queue offset."""
    try:
        message = decode_record(record, check_crc=True)
    except RemoteProtocolError:
        return None
    return message if message.queue_offset == queue_offset else None
