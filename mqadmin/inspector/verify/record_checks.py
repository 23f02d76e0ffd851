"""Derive from each record of the log the units and index entries that it must have.

:class:`RecordChecks` handles every kind of record. The fast path
(:mod:`mqadmin.inspector.verify.vectorized.column_checks`) checks plain records and passes the
others to it: delayed messages, commit and op records, inner batches, LMQ, non-ASCII text.
"""

import re
from typing import Final, NamedTuple

from broker.common.java import INT32_MAX, parse_number
from broker.common.sysflag import (
    INNER_BATCH,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_PREPARED,
    TRANSACTION_ROLLBACK,
)
from broker.common.topic import SCHEDULE_TOPIC, TRANS_HALF_TOPIC, TRANS_OP_HALF_TOPIC
from broker.message.properties import peek_property
from broker.store.format import consumequeue
from broker.store.format.commitlog import LogRecord
from broker.store.format.consumequeue import peek_tags
from broker.store.format.indexfile import key_hash, peek_message_keys, topic_prefix
from mqadmin.inspector.damage import NOTICE, WARNING
from mqadmin.inspector.files import FileBytes
from mqadmin.inspector.log import LogReader
from mqadmin.inspector.verify.log_walk import Selection, lmq_enabled, messages_in
from mqadmin.inspector.verify.queue_checks import Queue, QueueTable
from mqadmin.inspector.verify.report import Findings

SCHEDULE: Final = SCHEDULE_TOPIC.encode()
HALF: Final = TRANS_HALF_TOPIC.encode()
OP_HALF: Final = TRANS_OP_HALF_TOPIC.encode()

# A larger step back is a warning, a smaller one (time synchronisation) a notice.
CLOCK_STEP_MS: Final = 3_600_000
# At most 19 digits: a longer number is not a queue offset, and int refuses very long ones.
_OP_BODY: Final = re.compile(rb"\d{1,19}(,\d{1,19})*,?")
_NOT_IN_QUEUES: Final = (TRANSACTION_PREPARED, TRANSACTION_ROLLBACK)

Key = tuple[int, int, int]  # physical offset, hash, storeTimestamp


def tags_code(record: LogRecord) -> int:
    """Return the tags code of a record's unit: the hash of TAGS, 0 without tags."""
    return consumequeue.tags_code(peek_tags(record.properties))


def key_hashes(record: LogRecord) -> list[int]:
    """Return the key hashes under which a record is indexed, in the order of the index.

    **Source:** RocketMQ ``IndexService#buildIndex``.
    """
    if record.sys_flag & TRANSACTION_MASK == TRANSACTION_ROLLBACK:
        return []
    words = peek_message_keys(record.properties)
    if not words:
        return []
    prefix = topic_prefix(record.topic.decode("utf-8", "replace"))
    return [key_hash(prefix, word) for word in words]


class Delay(NamedTuple):
    """The messages of a delay level with one delay; the offsets are those of the first one."""

    messages: int
    queue_offset: int
    physical_offset: int


class RecordChecks:
    """Checks records one by one; ``keys`` collects index keys, and the caller clears it."""

    def __init__(self, queues: QueueTable, log: LogReader, findings: Findings) -> None:
        self.queues = queues
        self.log = log
        self.findings = findings
        self.keys: list[Key] = []
        self.records = 0
        self.last_timestamp = 0
        self.newest_timestamp = 0
        # (physical offset, highest half offset) of the op record with the highest one
        self.ops: list[tuple[int, int]] = []
        self.delays: dict[int, dict[int, Delay]] = {}
        self.lost_delays: dict[int, Delay] = {}

    def take(self, file: FileBytes, record: LogRecord) -> None:
        """Check one complete record at its physical offset."""
        self.records += 1
        self.check_time(file, record.physical_offset, record.store_timestamp)
        self.take_rare(file, record)

    def take_rare(self, file: FileBytes, record: LogRecord) -> None:
        """As :meth:`take`, for a record whose count and time were already noted."""
        if not self.queues.is_wanted(record.topic):
            for wanted in lmq_enabled(record):
                self._place(wanted, record, tags_code(record))
            return
        self.keys += [
            (record.physical_offset, value, record.store_timestamp) for value in key_hashes(record)
        ]
        kind = record.sys_flag & TRANSACTION_MASK
        if kind in _NOT_IN_QUEUES:
            return
        is_deleted = self.queues.deleted.take(record.topic, record.physical_offset)
        if not is_deleted:
            self._take_own(file, record)
        for light in lmq_enabled(record):
            # LMQs keep the messages of a deleted topic, as in brokers; unless they were disabled.
            if not is_deleted or self.queues.is_known(light.topic, light.queue_id):
                self._place(light, record, tags_code(record))

    def _take_own(self, file: FileBytes, record: LogRecord) -> None:
        """Check the unit of a record in the queue of its topic."""
        if record.sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT:
            self.check_commit(file, record)
        wanted = Selection(record.topic, record.queue_id, record.queue_offset)
        if record.topic == SCHEDULE:
            self._place_delayed(wanted, record)
        elif record.topic in self.queues.batch_topics or record.sys_flag & INNER_BATCH:
            self._place_batch(file, wanted, record)
        else:
            self._place(wanted, record, tags_code(record))
        if record.topic == OP_HALF:
            self._note_op(file, record)

    def check_time(self, file: FileBytes, physical_offset: int, timestamp: int) -> None:
        """Report a storeTimestamp (ms) that is before that of the preceding record."""
        back = self.last_timestamp - timestamp
        if back > 0:
            self.findings.add(
                "timestamp",
                file.path,
                f"storeTimestamp {timestamp} is {back} ms before that of the record before it",
                physical_offset=physical_offset,
                severity=WARNING if back > CLOCK_STEP_MS else NOTICE,
            )
        self.last_timestamp = timestamp
        self.newest_timestamp = max(self.newest_timestamp, timestamp)

    def _place(self, wanted: Selection, record: LogRecord, tags: int | None) -> Queue | None:
        queue = self.queues.queues.get((wanted.topic, wanted.queue_id))
        if queue is None:
            if self.queues.topic is None or self.queues.is_wanted(wanted.topic):
                key = (wanted.topic, wanted.queue_id)
                self.queues.lacks(key, wanted.queue_offset, record.physical_offset)
            return None
        if queue.is_batch:
            return None
        code = queue.match(wanted.queue_offset, record.physical_offset, record.total_size, tags)
        if not code:
            self.queues.matched_end = record.physical_offset + record.total_size
        return queue

    def _place_delayed(self, wanted: Selection, record: LogRecord) -> None:
        """Collect the delivery time of a delayed message, which is its unit's tags code.

        **Source:** RocketMQ ``CommitLog#checkMessageAndReturnSize``,
        ``ScheduleMessageService#computeDeliverTimestamp``.
        """
        level = peek_property(record.properties, b"DELAY")
        if level is None or parse_number(level, 1, INT32_MAX) is None:
            self._place(wanted, record, tags_code(record))
            return
        queue = self._place(wanted, record, None)
        unit = None if queue is None else queue.unit(wanted.queue_offset)
        if unit is None or unit.physical_offset != record.physical_offset:
            return
        delay = unit.tags_code - record.store_timestamp
        if unit.tags_code == tags_code(record):
            # Recovery in 4.9.3 to 4.9.8 replaces the time by the tags hash: delivered at once.
            found, known = self.lost_delays, self.lost_delays.get(wanted.queue_id)
            key = wanted.queue_id
        else:
            found = self.delays.setdefault(wanted.queue_id, {})
            known = found.get(delay)
            key = delay
        if known is None:
            known = Delay(0, wanted.queue_offset, record.physical_offset)
        found[key] = known._replace(messages=known.messages + 1)

    def _place_batch(self, file: FileBytes, wanted: Selection, record: LogRecord) -> None:
        """Compare a record of a batch queue with its 46-byte unit."""
        queue = self.queues.queues.get((wanted.topic, wanted.queue_id))
        if queue is None or not queue.is_batch:
            self._place(wanted, record, tags_code(record))
            return
        if self._is_before_restart(queue, record):
            self.queues.note_deleted(wanted.topic, record.physical_offset)
            return
        found = queue.batch_units.get(wanted.queue_offset)
        if found is None:
            self.findings.add(
                "unitMissing",
                queue.found.path,
                f"no unit for queue offset {wanted.queue_offset}",
                physical_offset=record.physical_offset,
                queue=(queue.topic, queue.queue_id),
            )
            return
        unit, path = found
        queue.batch_seen.add(wanted.queue_offset)
        self.queues.matched_end = record.physical_offset + record.total_size
        want = {
            "physical offset": (unit.physical_offset, record.physical_offset),
            "size": (unit.size, record.total_size),
            "tags code": (unit.tags_code, tags_code(record)),
            "storeTimestamp": (unit.store_timestamp, record.store_timestamp),
            "batch size": (unit.batch_size, messages_in(record)),
        }
        wrong = [
            f"{name} {has}, the record {is_}" for name, (has, is_) in want.items() if has != is_
        ]
        if wrong:
            self.findings.add(
                "unit",
                path,
                f"the unit of queue offset {wanted.queue_offset}: " + "; ".join(wrong),
                physical_offset=record.physical_offset,
                queue=(queue.topic, queue.queue_id),
            )

    def _is_before_restart(self, queue: Queue, record: LogRecord) -> bool:
        """Whether a record of a batch queue is stored before the record of the queue's offset 0.

        It is of a deleted topic then, whose deletion queueEnds.json does not have: that of a Java
        broker.
        """
        first = queue.batch_units.get(0)
        if first is None or record.physical_offset >= first[0].physical_offset:
            return False
        place = self.log.record(first[0].physical_offset)
        return place is not None and (
            (place[1].topic, place[1].queue_id, place[1].queue_offset)
            == (record.topic, record.queue_id, 0)
        )

    def check_commit(self, file: FileBytes, record: LogRecord) -> None:
        """Check that a committed message points to a half message with the same uniqKey.

        Offset 0 is also the value of records without a half message: copies made by retries and
        delays keep the bits, and a client may set them in a plain send.

        **Source:** RocketMQ ``EndTransactionProcessor#endMessageTransaction``.
        """
        at = record.prepared_transaction_offset
        least = self.log.min_offset
        if at == 0 or least is None or at < least:
            return  # no half message, or one that has expired
        place = self.log.record(at)
        wrong = None
        if place is None:
            wrong = f"no record begins at its half message's physical offset {at}"
        elif place[1].topic != HALF:
            wrong = f"the record at its half message's physical offset {at} is not a half message"
        else:
            own = peek_property(record.properties, b"UNIQ_KEY")
            half = peek_property(place[1].properties, b"UNIQ_KEY")
            if own != half:
                wrong = f"its half message at physical offset {at} has another uniqKey"
        if wrong:
            self.findings.add(
                "transaction",
                file.path,
                f"committed message: {wrong}",
                physical_offset=record.physical_offset,
                length=record.total_size,
            )

    def _note_op(self, file: FileBytes, record: LogRecord) -> None:
        """Check that the body of an op record is a list of queue offsets of half messages."""
        body = bytes(file.data[record.body_position : record.body_position + record.body_length])
        if not _OP_BODY.fullmatch(body):
            self.findings.add(
                "transaction",
                file.path,
                f"op record: {body[:40]!r} is not a list of queue offsets",
                physical_offset=record.physical_offset,
                length=record.total_size,
            )
            return
        highest = max(int(number) for number in body.strip(b",").split(b","))
        self.ops.append((record.physical_offset, highest))
        if len(self.ops) > 1:
            # Only the highest offset is compared with the queue's end.
            self.ops = [max(self.ops, key=lambda op: op[1])]
