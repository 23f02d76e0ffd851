"""Dispatch (reput): from records of the log to ConsumeQueues, index and listeners.

Dispatch has its own position, ``offset``, which may lag behind the end of the log: with SYNC_FLUSH
it never exceeds the flushed position. Two paths produce the same derived bytes. The fast path
takes the entries that puts of this process left in ``pending``. The slow path reads the log; it
serves recovery, and records that did not fit into ``pending``.

**Source:** RocketMQ DefaultMessageStore.ReputMessageService, CommitLogDispatcherBuildConsumeQueue,
CommitLogDispatcherBuildIndex.
"""

import logging
from collections.abc import Callable, Container, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Final

from broker.common.java import INT16_MAX, INT32_MAX, parse_number, string_hash
from broker.common.sysflag import (
    INNER_BATCH,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_ROLLBACK,
)
from broker.errors import FileNameError, StoreError
from broker.message.properties import peek_property
from broker.message.record import FIXED_SIZES, FIXED_STRUCTS, MAGIC_V1, MAGIC_V2, Buffer
from broker.store.commitlog import CommitLog
from broker.store.consumequeue import multi_dispatch
from broker.store.consumequeue.batch_consume_queue import BatchConsumeQueue
from broker.store.consumequeue.consume_queue import ConsumeQueue, Topic, Unit
from broker.store.consumequeue.consume_queue_store import ConsumeQueueStore
from broker.store.format.commitlog import BLANK_HERE, check_record
from broker.store.format.consumequeue import UNIT_SIZE, is_ext_address
from broker.store.index.index_service import IndexService
from broker.store.logfile.mapped_file import MappedFileQueue

if TYPE_CHECKING:
    from broker.store.recovery.queue_offset_validator import QueueOffsetValidator

_log = logging.getLogger(__name__)

# (physical offset, size, storeTimestamp, sysFlag, queue offset, queue, properties, tags code)
Dispatch = tuple[int, int, int, int, int, ConsumeQueue, bytes, int | None]
ArrivingListener = Callable[[str, int, int, int, int, bytes], None]

# One event-loop turn adds far fewer entries; above the limit dispatch reads the log instead.
MAX_PENDING: Final = 65_536
# Records that cannot be dispatched are logged one by one up to this number; then only counted.
MAX_QUARANTINE_LOGS: Final = 100
# Bounds of the tags cache, which is cleared when full: clients can send arbitrary tags.
MAX_TAGS: Final = 10_000
MAX_KEPT_TAG_BYTES: Final = 256

_UNPACKS: Final = tuple(fixed.unpack_from for fixed in FIXED_STRUCTS)


class TagCodes:
    """Cache of tags codes by TAGS text."""

    __slots__ = ("codes",)

    def __init__(self) -> None:
        self.codes: dict[bytes, int] = {}

    def code(self, tags: bytes) -> int:
        """The tags code of a message with these TAGS."""
        code = self.codes.get(tags)
        if code is None:
            if len(tags) > MAX_KEPT_TAG_BYTES:
                return string_hash(tags)
            if len(self.codes) >= MAX_TAGS:
                self.codes.clear()
            code = self.codes[tags] = string_hash(tags)
        return code


def schedule_code(
    properties: bytes, store_timestamp: int, delay_levels: Mapping[int, int]
) -> int | None:
    """Delivery time (epoch ms), the tags code in a schedule queue; None without a delay level.

    **Source:** RocketMQ CommitLog#checkMessageAndReturnSize,
    ScheduleMessageService#computeDeliverTimestamp.
    """
    text = peek_property(properties, b"DELAY")
    asked = None if text is None else parse_number(text, 1, INT32_MAX)
    if asked is None:
        return None
    level = min(asked, max(delay_levels, default=0))
    return store_timestamp + delay_levels.get(level, 1000)


def inner_count(properties: bytes) -> int | None:
    """Number of messages in an inner batch record; None if INNER_NUM is not 1 to 32767.

    **Source:** RocketMQ CommitLog#getMessageNum (a short).
    """
    text = peek_property(properties, b"INNER_NUM")
    return None if text is None else parse_number(text, 1, INT16_MAX)


def tags_of(properties: bytes) -> bytes:
    """The TAGS of a property string, empty without; same result as peek_property, but faster."""
    at = properties.rfind(b"\x02TAGS\x01") + 6
    if at > 5 or (at := properties.startswith(b"TAGS\x01") * 5):
        end = properties.find(b"\x02", at)
        if end > at:
            return properties[at:end]
        return peek_property(properties, b"TAGS") or b""
    return b""


def message_keys(properties: bytes) -> list[bytes]:
    """The index keys of a message: UNIQ_KEY, then each word of KEYS.

    The fast path searches each property once and takes it if it is delimited on both sides;
    otherwise peek_property decides.
    """
    uniq_key: bytes | None = None
    at = properties.rfind(b"UNIQ_KEY\x01")
    if at >= 0:
        start = at + 9
        end = properties.find(b"\x02", start)
        if end > start and (at == 0 or properties[at - 1] == 2):
            uniq_key = properties[start:end]
        else:
            uniq_key = peek_property(properties, b"UNIQ_KEY")
    start = properties.rfind(b"\x02KEYS\x01") + 6
    if start > 5:
        end = properties.find(b"\x02", start)
        keys = properties[start:end] if end > start else peek_property(properties, b"KEYS")
    else:
        keys = peek_property(properties, b"KEYS") if properties[:5] == b"KEYS\x01" else None
    if not keys:
        return [uniq_key] if uniq_key else []
    if 32 in keys:
        words = [word for word in keys.split(b" ") if word]
        return [uniq_key, *words] if uniq_key else words
    return [uniq_key, keys] if uniq_key else [keys]


class ReputService:
    """The dispatcher.

    All records before physical offset ``offset`` are dispatched. With ``recovering`` a queue whose
    offsets restart (its topic was deleted and recreated) is truncated and refilled; otherwise
    units with an old queue offset are dropped.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueueStore,
        index: IndexService | None,
        delay_levels: Mapping[int, int],
        *,
        lmq_enabled: bool = False,
    ) -> None:
        self.offset = 0
        self.pending: list[Dispatch] = []
        self.overflow = False
        self.recovering = False
        # Whether recovery replaces a unit whose tags code differs from the record's. Only after a
        # crash: after a clean stop the unit may come from a broker with other delay levels.
        self.compare_codes = False
        self.skip: Callable[[Topic, int], bool] | None = None
        self.order: QueueOffsetValidator | None = None
        self.last_store_timestamp = 0
        # For the recovery report: the fast path of run() does not count its records.
        self.dispatched = 0
        # Number of records in the log that could not be dispatched to all of their queues.
        self.quarantined = 0
        self.on_quarantined: Callable[[int, int, str], None] | None = None
        self._log = log
        self.queues = queues
        self.index = index
        self._delay_levels = delay_levels
        self.lmq_enabled = lmq_enabled
        self._tags = TagCodes()
        # Placeholder queue for records whose topic is not a valid name.
        self._nowhere = ConsumeQueue(
            Topic("/"), 0, MappedFileQueue(queues.disk, "", UNIT_SIZE), lambda queue: None
        )
        self._listeners: list[tuple[ArrivingListener, Container[str] | None]] = []

    def add_listener(
        self, listener: ArrivingListener, topics: Container[str] | None = None
    ) -> None:
        """Call ``listener(topic, queue_id, max_queue_offset, tags_code, store_timestamp, raw)``.

        Called for each dispatched message in the appending thread; ``raw``: its encoded
        properties. With ``topics`` only for topics it contains at dispatch: pass a live container,
        such as the table of suspended pulls.
        """
        self._listeners.append((listener, topics))

    def tags_code(self, properties: bytes) -> int:
        """The tags code of a message's properties, 0 without TAGS."""
        tags = tags_of(properties)
        return self._tags.code(tags) if tags else 0

    def note(self, entry: Dispatch) -> None:
        """Queue a newly appended record for the fast path; when full, switch to the slow path."""
        if len(self.pending) < MAX_PENDING:
            self.pending.append(entry)
        else:
            self.pending.clear()
            self.overflow = True

    def forget(self, topics: Container[str]) -> None:
        """Skip the pending records of these deleted topics: mark them as rolled back."""
        self.pending = [
            (*entry[:3], TRANSACTION_ROLLBACK, *entry[4:])
            if entry[5].topic.name in topics
            else entry
            for entry in self.pending
        ]

    def run(self, limit: int, most: int | None = None) -> None:
        """Dispatch up to physical offset ``limit``, at most ``most`` records.

        DiskFullError or StoreError if a derived file cannot be created; ``offset`` is then the
        start of the record that needs it.
        """
        if self.overflow:
            self.pending.clear()
            self.run_log(limit, most)
            if self.offset >= self._log.max_offset:
                self.overflow = False
            return
        pending = self.pending
        if not pending or pending[0][0] >= limit:
            return
        done = 0
        codes = self._tags.codes
        index = self.index
        listeners = self._listeners
        rare = TRANSACTION_MASK | INNER_BATCH
        plain = not self.lmq_enabled
        try:
            for entry in islice(pending, most):
                physical_offset, size, stored, sys_flag, queue_offset, queue, properties, code = (
                    entry
                )
                if physical_offset + size > limit:
                    break
                topic = queue.topic
                if plain and not topic.special and not sys_flag & rare:
                    # Inlined dispatch_record for a plain message: this loop is the hot path.
                    try:
                        if code is None:
                            tags = tags_of(properties)
                            code = (codes.get(tags) or self._tags.code(tags)) if tags else 0
                        queue.append(queue_offset, physical_offset, size, code)
                        if listeners:
                            self._tell(entry, code)
                        if index is not None and (keys := message_keys(properties)):
                            index.put_keys(topic.key_prefix, keys, physical_offset, stored)
                    except Exception as error:
                        self._quarantine(entry, error)
                    self.last_store_timestamp = stored
                else:
                    self.dispatch_record(entry)
                done += 1
        finally:
            # Also after an error: the dispatched entries must not be dispatched twice.
            if done:
                last = pending[done - 1]
                self.offset = last[0] + last[1]
                if done == len(pending):
                    pending.clear()
                else:
                    del pending[:done]
            if self.index is not None:
                self.index.settle()

    def run_log(self, limit: int, most: int | None = None) -> None:
        """Dispatch up to ``limit``, at most ``most`` records, by reading the log from ``offset``.

        Stops where no record can be read; recovery skips such damaged regions.
        """
        try:
            for entry in islice(self._entries(limit), most):
                self.dispatch_record(entry)
                self.offset = entry[0] + entry[1]
        finally:
            if self.index is not None:
                self.index.settle()

    def skip_to(self, physical_offset: int) -> None:
        """Resume after bytes that are not a record."""
        self.offset = max(self.offset, physical_offset)

    def dispatch_record(self, entry: Dispatch) -> None:
        """Add one record to its queues and the index; for recovery and for non-plain records."""
        try:
            self._dispatch(entry)
        except Exception as error:
            self._quarantine(entry, error)
        self.last_store_timestamp = entry[2]

    def _quarantine(self, entry: Dispatch, error: Exception) -> None:
        """Count and report a record that cannot be dispatched, so that dispatch continues after it.

        Called in the ``except`` block of ``error``. An error that would occur for every record (a
        full disk, a file that cannot be created) is raised again: dispatch of the record is then
        retried later.
        """
        every_record = isinstance(error, (OSError, StoreError, MemoryError))
        if every_record and not isinstance(error, FileNameError):
            raise error
        self.quarantined += 1
        physical_offset, size, queue = entry[0], entry[1], entry[5]
        reason = f"{queue.topic.name!r:.80} queue {queue.queue_id}: {error}"
        if self.quarantined <= MAX_QUARANTINE_LOGS:
            _log.error(
                "the record at physical offset %d (%d bytes) stays in the log, not in all of its"
                " queues: %s",
                *(physical_offset, size, reason),
            )
        if self.on_quarantined is not None:
            self.on_quarantined(physical_offset, size, reason)

    def _dispatch(self, entry: Dispatch) -> None:
        physical_offset, size, store_timestamp, sys_flag, queue_offset, queue, properties, code = (
            entry
        )
        topic = queue.topic
        kind = sys_flag & TRANSACTION_MASK
        if kind == 0 or kind == TRANSACTION_COMMIT:
            if topic.scheduled:
                code = schedule_code(properties, store_timestamp, self._delay_levels)
            if code is None:
                tags = tags_of(properties)
                code = self._tags.code(tags) if tags else 0
            if self.recovering:
                self._append_again(entry, code)
            else:
                if topic.batch:
                    self._append_batch(entry, code)
                else:
                    queue.append(queue_offset, physical_offset, size, code)
                if self.lmq_enabled:
                    self._append_lmq(entry, code)
                self._tell(entry, code)
        elif kind == TRANSACTION_ROLLBACK:
            return
        index = self.index
        if index is not None and topic.usable:
            keys = message_keys(properties)
            if keys:
                index.put_keys(topic.key_prefix, keys, physical_offset, store_timestamp)
        self.dispatched += 1

    def _tell(self, entry: Dispatch, code: int) -> None:
        """Call the listeners registered for the topic of a message."""
        queue = entry[5]
        name = queue.topic.name
        for listener, topics in self._listeners:
            if topics is None or name in topics:
                listener(name, queue.queue_id, entry[4] + 1, code, entry[2], entry[6])

    def _append_again(self, entry: Dispatch, code: int) -> None:
        """During recovery: add a record's unit, unless its topic was deleted."""
        queue, physical_offset = entry[5], entry[0]
        topic = queue.topic
        if not topic.usable or (self.skip is not None and self.skip(topic, physical_offset)):
            return
        if self.order is not None and not topic.batch:
            self.order.offer(entry, code)
        else:
            self.append_repaired(entry, code)

    def append_repaired(self, entry: Dispatch, code: int, queue_offset: int = -1) -> None:
        """During recovery: store a record's unit in its queue, truncating the queue if needed.

        ``queue_offset`` -1 takes the record's own; another value replaces a damaged one.
        """
        queue, physical_offset = entry[5], entry[0]
        if queue_offset < 0:
            queue_offset = entry[4]
        self._make_way(queue, queue_offset, (physical_offset, entry[1], code))
        if queue.topic.batch:
            self._append_batch(entry, code)
        else:
            queue.append(queue_offset, physical_offset, entry[1], code)
        if self.lmq_enabled:
            self._append_lmq(entry, code)

    def _make_way(self, queue: ConsumeQueue, queue_offset: int, unit: Unit) -> None:
        """During recovery: truncate a queue at a unit that differs from the log.

        The later units are dispatched again, since the log is read to its end. A unit differs if a
        power cut left an older state of the file, or if a topic was deleted and recreated: the
        later record wins. A queue whose first offset is above ``queue_offset`` has lost files.
        """
        if queue_offset < queue.first_offset:
            queue.truncate_units(0)
        elif queue_offset < queue.max_offset:
            there = queue.unit(queue_offset)
            if (
                there is None
                or there[:2] != unit[:2]
                or (self.compare_codes and there[2] != unit[2] and not is_ext_address(there[2]))
            ):
                queue.truncate_units(queue_offset)

    def _append_lmq(self, entry: Dispatch, code: int) -> None:
        """Add the record's units in further queues; a failed one does not prevent the others."""
        units = multi_dispatch.units(entry[5].topic.name, entry[6])
        for name, queue_offset in units:
            try:
                queue = multi_dispatch.queue_of(self.queues, name, entry[5].queue_id)
                lost = queue_offset - queue.max_offset
                free_bytes = max(0, entry[0] - max(0, queue.max_physical_offset)) * len(units)
                if lost * FIXED_SIZES[0] > free_bytes:
                    raise ValueError(
                        f"offset {queue_offset} in queue {name[:40]!r}, which ends at"
                        f" {queue.max_offset}: so many records have no space in between"
                    )
                if self.recovering:
                    self._make_way(queue, queue_offset, (entry[0], entry[1], code))
                queue.append(queue_offset, entry[0], entry[1], code)
            except Exception as error:
                self._quarantine(entry, error)

    def _append_batch(self, entry: Dispatch, code: int) -> None:
        """Add the unit of a record, which may contain many messages, to a batch queue."""
        physical_offset, size, store_timestamp, sys_flag, queue_offset, queue, properties, _ = entry
        count = 1
        if sys_flag & INNER_BATCH:
            count = inner_count(properties) or 1
        assert isinstance(queue, BatchConsumeQueue)
        queue.append_batch(queue_offset, physical_offset, size, code, (store_timestamp, count))

    def _entries(self, limit: int) -> Iterator[Dispatch]:
        """Records from ``offset`` up to ``limit``, read from the log."""
        log = self._log
        while self.offset < limit:
            file = log.files.find(self.offset)
            if file is None:
                return
            position = self.offset - file.start
            mapping = file.mapping
            end = min(file.written, limit - file.start, file.size)
            while position < end:
                size = check_record(mapping, position, end, check_crc=False)
                if size <= 0:
                    break
                yield self.read(mapping, position, file.start)
                position += size
            else:
                if position < file.size:
                    return
            if position < file.size and check_record(mapping, position) != BLANK_HERE:
                return
            self.offset = file.start + file.size

    def read(self, mapping: Buffer, position: int, base: int) -> Dispatch:
        """Decode the fields that dispatch needs from the valid record at ``position``.

        ``base`` is the physical offset of the file. The physical offset is computed from the
        record's position, not read from the record: a unit must never refer to other bytes.
        """
        shape = mapping[position + 39] >> 4 & 3
        fields = _UNPACKS[shape](mapping, position)
        size, magic, queue_id, queue_offset = fields[0], fields[1], fields[3], fields[5]
        at = position + FIXED_SIZES[shape] + fields[14]
        if magic == MAGIC_V1:
            topic_end = at + 1 + mapping[at]
            data = bytes(mapping[at + 1 : topic_end])
        else:
            assert magic == MAGIC_V2
            topic_end = at + 2 + int.from_bytes(mapping[at : at + 2], "big")
            data = bytes(mapping[at + 2 : topic_end])
        topic = self.queues.topic_of_data(data)
        queue = self.queues.queue(topic, queue_id) if topic.usable else self._nowhere
        properties = bytes(mapping[topic_end + 2 : position + size])
        return (
            base + position,
            size,
            fields[10],
            fields[7],
            queue_offset,
            queue,
            properties,
            None,
        )
