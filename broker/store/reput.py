"""Dispatch (reput): from records of the log to ConsumeQueues, index and listeners.

Dispatch has a pointer of its own, ``offset``, that may lag behind the log: with SYNC_FLUSH it
stays behind what is flushed. Two lanes lead to the same derived bytes. The quick lane takes what
puts of this process left in ``pending``, the slow one reads the log; recovery and anything the
quick lane had no room for go the slow way.

**Source:** RocketMQ DefaultMessageStore.ReputMessageService, CommitLogDispatcherBuildConsumeQueue,
CommitLogDispatcherBuildIndex.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from broker.common.java import string_hash
from broker.common.sysflag import (
    INNER_BATCH,
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    TRANSACTION_ROLLBACK,
)
from broker.message.properties import peek_property
from broker.message.record import FIXED_SIZES, FIXED_STRUCTS, MAGIC_V1, MAGIC_V2, Buffer
from broker.store import multi_dispatch
from broker.store.batchqueue import BatchConsumeQueue
from broker.store.commitlog import CommitLog
from broker.store.consumequeue import ConsumeQueue, Topic, Unit
from broker.store.format.commitlog import BLANK_HERE, check_record
from broker.store.format.consumequeue import UNIT_SIZE, is_ext_address
from broker.store.index import IndexService
from broker.store.mapped_file import MappedFileQueue
from broker.store.queue_table import ConsumeQueueTable

if TYPE_CHECKING:
    from broker.store.queue_order import QueueOrder

# (physical offset, size, storeTimestamp, sysFlag, queue offset, queue, properties, tags code)
Dispatch = tuple[int, int, int, int, int, ConsumeQueue, bytes, int | None]
ArrivingListener = Callable[[str, int, int, int, int, bytes], None]

# Messages of one event-loop turn are far fewer; beyond it dispatch reads the log instead.
MAX_PENDING: Final = 65_536
# Tags seen; emptied when full, since a tag may be anything a client sends.
MAX_TAGS: Final = 10_000

_UNPACKS: Final = tuple(fixed.unpack_from for fixed in FIXED_STRUCTS)


class TagCodes:
    """Tags code of a TAGS text, remembered per tag."""

    __slots__ = ("codes",)

    def __init__(self) -> None:
        self.codes: dict[bytes, int] = {}

    def code(self, tags: bytes) -> int:
        """The tags code of a message with these TAGS."""
        code = self.codes.get(tags)
        if code is None:
            if len(self.codes) >= MAX_TAGS:
                self.codes.clear()
            code = self.codes[tags] = string_hash(tags)
        return code


def schedule_code(
    properties: bytes, store_timestamp: int, delay_levels: Mapping[int, int]
) -> int | None:
    """Time of delivery that stands in a schedule queue's tags code; None without a delay level.

    **Source:** RocketMQ CommitLog#checkMessageAndReturnSize,
    ScheduleMessageService#computeDeliverTimestamp.
    """
    text = peek_property(properties, b"DELAY")
    if text is None or not text.isdigit() or int(text) <= 0:
        return None
    level = min(int(text), max(delay_levels, default=0))
    return store_timestamp + delay_levels.get(level, 1000)


def tags_of(properties: bytes) -> bytes:
    """The TAGS of a property string, empty without; what peek_property says, a little quicker."""
    at = properties.rfind(b"\x02TAGS\x01") + 6
    if at > 5 or (at := properties.startswith(b"TAGS\x01") * 5):
        end = properties.find(b"\x02", at)
        if end > at:
            return properties[at:end]
        return peek_property(properties, b"TAGS") or b""
    return b""


def message_keys(properties: bytes) -> list[bytes]:
    """The words a message is indexed under: UNIQ_KEY, then each word of KEYS.

    Each property is looked for once and taken if it stands there alone and whole; whatever is
    unusual goes the slow way.
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

    ``offset`` is the physical offset dispatched up to. ``recovering`` makes a queue offset that
    begins anew (a topic deleted and made again) restart its queue instead of being dropped.
    """

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueueTable,
        index: IndexService | None,
        delay_levels: Mapping[int, int],
        *,
        light_queues: bool = False,
    ) -> None:
        self.offset = 0
        self.pending: list[Dispatch] = []
        self.overflow = False
        self.recovering = False
        # Whether recovery takes another tags code for a torn unit. After a clean stop it is what
        # another broker made of other delay levels.
        self.compare_codes = False
        self.skip: Callable[[Topic, int], bool] | None = None
        self.order: QueueOrder | None = None
        self.last_store_timestamp = 0
        self.dispatched = 0
        self._log = log
        self.queues = queues
        self.index = index
        self._delay_levels = delay_levels
        self.light_queues = light_queues
        self._tags = TagCodes()
        # Stands for the queues of records whose topic cannot be a topic's name.
        self._nowhere = ConsumeQueue(
            Topic("/"), 0, MappedFileQueue(queues.disk, "", UNIT_SIZE), lambda queue: None
        )
        self._listeners: list[tuple[ArrivingListener, Container[str] | None]] = []

    def add_listener(self, listener: ArrivingListener, topics: Container[str] | None) -> None:
        """Tell ``listener`` of each dispatched message; with ``topics``, of theirs only."""
        self._listeners.append((listener, topics))

    def tags_code(self, properties: bytes) -> int:
        """The tags code of a message's properties, 0 without TAGS."""
        tags = tags_of(properties)
        return self._tags.code(tags) if tags else 0

    def note(self, entry: Dispatch) -> None:
        """Leave a record just appended for the quick lane."""
        if len(self.pending) < MAX_PENDING:
            self.pending.append(entry)
        else:
            self.pending.clear()
            self.overflow = True

    def forget(self, topics: Container[str]) -> None:
        """Records of these topics that wait for their dispatch are nobody's any more."""
        self.pending = [
            (*entry[:3], TRANSACTION_ROLLBACK, *entry[4:])
            if entry[5].topic.name in topics
            else entry
            for entry in self.pending
        ]

    def run(self, limit: int) -> None:
        """Dispatch everything up to physical offset ``limit``.

        DiskFullError or StoreError when a derived file cannot be made; ``offset`` then stands at
        the record that waits for it.
        """
        if self.overflow:
            self.pending.clear()
            self.run_log(limit)
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
        plain = not self.light_queues
        try:
            for entry in pending:
                physical_offset, size, stored, sys_flag, queue_offset, queue, properties, code = (
                    entry
                )
                if physical_offset + size > limit:
                    break
                topic = queue.topic
                if plain and not topic.special and not sys_flag & rare:
                    # The same as dispatch_record for a plain message, without its branches.
                    if code is None:
                        tags = tags_of(properties)
                        code = (codes.get(tags) or self._tags.code(tags)) if tags else 0
                    queue.append(queue_offset, physical_offset, size, code)
                    if listeners:
                        self._tell(entry, code)
                    if index is not None and (keys := message_keys(properties)):
                        index.put_keys(topic.key_prefix, keys, physical_offset, stored)
                    self.last_store_timestamp = stored
                else:
                    self.dispatch_record(entry)
                done += 1
        finally:
            if done:
                last = pending[done - 1]
                self.offset = last[0] + last[1]
                if done == len(pending):
                    pending.clear()
                else:
                    del pending[:done]
            if self.index is not None:
                self.index.settle()

    def run_log(self, limit: int) -> None:
        """Dispatch up to ``limit`` by reading the log from ``offset`` on.

        Stops where no record can be read; recovery knows about those places and steps over them.
        """
        try:
            for entry in self._entries(limit):
                self.dispatch_record(entry)
                self.offset = entry[0] + entry[1]
        finally:
            if self.index is not None:
                self.index.settle()

    def skip_to(self, physical_offset: int) -> None:
        """Go on behind bytes that are no record."""
        self.offset = max(self.offset, physical_offset)

    def dispatch_record(self, entry: Dispatch) -> None:
        """Add one record to its queue and the index; for recovery, and for what is not plain."""
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
                if self.light_queues:
                    self._append_light(entry, code)
                self._tell(entry, code)
        elif kind == TRANSACTION_ROLLBACK:
            self.last_store_timestamp = store_timestamp
            return
        index = self.index
        if index is not None and topic.usable:
            keys = message_keys(properties)
            if keys:
                index.put_keys(topic.key_prefix, keys, physical_offset, store_timestamp)
        self.last_store_timestamp = store_timestamp
        self.dispatched += 1

    def _tell(self, entry: Dispatch, code: int) -> None:
        """Call the listeners that wait for the topic of a message."""
        queue = entry[5]
        name = queue.topic.name
        for listener, topics in self._listeners:
            if topics is None or name in topics:
                listener(name, queue.queue_id, entry[4] + 1, code, entry[2], entry[6])

    def _append_again(self, entry: Dispatch, code: int) -> None:
        """Recovery's append: not for topics that are gone; queues that begin anew are restarted."""
        queue, physical_offset = entry[5], entry[0]
        topic = queue.topic
        if not topic.usable or (self.skip is not None and self.skip(topic, physical_offset)):
            return
        if self.order is not None and not topic.batch:
            self.order.offer(entry, code)
        else:
            self.place_again(entry, code)

    def place_again(self, entry: Dispatch, code: int, queue_offset: int = -1) -> None:
        """During recovery: have a record's unit in its queue, at another offset than it says."""
        queue, physical_offset = entry[5], entry[0]
        if queue_offset < 0:
            queue_offset = entry[4]
        self._make_way(queue, queue_offset, (physical_offset, entry[1], code))
        if queue.topic.batch:
            self._append_batch(entry, code)
        else:
            queue.append(queue_offset, physical_offset, entry[1], code)
        if self.light_queues:
            self._append_light(entry, code)

    def _make_way(self, queue: ConsumeQueue, queue_offset: int, unit: Unit) -> None:
        """During recovery: cut a queue where it holds something else than the log says.

        Everything behind is dispatched again, since the log is read to its end. A unit differs
        where a power cut left an older state of the file, and where a topic was deleted and made
        again: the later record counts. A queue that begins above the offset has lost files.
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

    def _append_light(self, entry: Dispatch, code: int) -> None:
        """Add the units that a record has in further queues."""
        topic = entry[5].topic.name
        for queue, queue_offset in multi_dispatch.units(
            self.queues, topic, entry[5].queue_id, entry[6]
        ):
            if self.recovering:
                self._make_way(queue, queue_offset, (entry[0], entry[1], code))
            queue.append(queue_offset, entry[0], entry[1], code)

    def _append_batch(self, entry: Dispatch, code: int) -> None:
        """Add the unit of a record, which may hold many messages, to a batch queue."""
        physical_offset, size, store_timestamp, sys_flag, queue_offset, queue, properties, _ = entry
        count = 1
        if sys_flag & INNER_BATCH:
            number = peek_property(properties, b"INNER_NUM")
            if number is not None and number.isdigit():
                count = int(number)
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
        """What dispatch needs of the whole record at ``position``.

        The physical offset is the place where it stands, whatever the record itself says: a unit
        must never lead to other bytes.
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
