"""Trace one message: find every place of it and of its copies in a store.

Brokers copy messages: a delayed one into its topic, a half message when it is committed, a failed
one into retry topics and finally the dead-letter queue. All copies have the same UNIQ_KEY. The
places of a copy are its record in the log, its ConsumeQueue units and its index entries; op
records that close a half message also belong to it.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from broker.common.java import parse_number
from broker.common.sysflag import COMPRESSED, INNER_BATCH, TRANSACTION_COMMIT, TRANSACTION_MASK
from broker.common.topic import (
    DLQ_PREFIX,
    RETRY_PREFIX,
    REVIVE_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    TRANS_HALF_TOPIC,
    TRANS_OP_HALF_TOPIC,
)
from broker.errors import RemoteProtocolError, StoreError
from broker.message.message import MessageExt
from broker.message.record import decode_record
from broker.store.format.commitlog import LogRecord
from broker.store.format.indexfile import index_key, index_key_hash, message_keys, walk_chain
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.files import FileBytes, open_bytes
from mqadmin.inspector.log import LogReader, LogWalk
from mqadmin.inspector.queries.find import find_id, find_key
from mqadmin.inspector.queries.messages import Matcher, scan_messages, start_by_time
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow
from mqadmin.inspector.verify.index_chains import shape_of
from mqadmin.inspector.verify.log_walk import Selection, lmq_enabled
from mqadmin.inspector.verify.queue_checks import OpenFiles, Queue
from mqadmin.inspector.verify.report import Findings
from mqadmin.message_row import MessageRow

LOG: Final = "log"
QUEUE: Final = "queue"
INDEX: Final = "index"
_ORDER: Final = {LOG: 0, QUEUE: 1, INDEX: 2}
# Messages that one search may match: each of them is traced through the store.
MAX_SEEDS: Final = 1000
# Copies of one message that are traced, far above the number of deliveries by default.
MAX_COPIES: Final = 1000


class PlaceRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One place: ``place`` is log, queue or index; ``role`` classifies the record.

    Roles: message, half, op, committed, delayed, timer, retry, deadLetter, popLog. ``detail``
    describes the place: the size of a record, the tags code of a unit, the key of an entry.
    """

    store_timestamp: int
    place: str
    role: str
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    uniq_key: str | None
    detail: str
    path: str


class FoundRow(MessageRow, frozen=True, kw_only=True, rename="camel"):
    """A message with all places of it and of its copies, in the order of storage."""

    places: list[PlaceRow]


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """A search by one of ``key``, ``id``, ``offset`` (physical) and ``text`` (in a body).

    Without any of them all messages of ``query`` match; ``query`` also restricts the others.
    """

    key: str | None = None
    id: str | None = None
    offset: int | None = None
    text: str | None = None
    query: Query = Query()
    scan: str = "auto"
    most: int = MAX_SEEDS


class Found(msgspec.Struct, kw_only=True):
    """Messages with their places, corruption found by the search, and whether more would match."""

    messages: list[FoundRow]
    places: list[PlaceRow]
    damaged_regions: list[DamageRow]
    more: bool


def find_places(store: StoreDirectory, search: Search) -> Found:
    """Find messages and trace each through the store."""
    return _Timeline(store, search).run()


def role_of(topic: str, sys_flag: int) -> str:
    """Return the role of a record with a topic and sysFlag."""
    fixed = {
        SCHEDULE_TOPIC: "delayed",
        TIMER_TOPIC: "timer",
        TRANS_HALF_TOPIC: "half",
        TRANS_OP_HALF_TOPIC: "op",
    }
    if topic in fixed:
        return fixed[topic]
    for prefix, role in (
        (RETRY_PREFIX, "retry"),
        (DLQ_PREFIX, "deadLetter"),
        (REVIVE_TOPIC_PREFIX, "popLog"),
    ):
        if topic.startswith(prefix):
            return role
    return "committed" if sys_flag & TRANSACTION_MASK == TRANSACTION_COMMIT else "message"


class _Timeline:
    def __init__(self, store: StoreDirectory, search: Search) -> None:
        self.store = store
        self.search = search
        self.places: list[PlaceRow] = []
        self.damaged_regions: dict[tuple[str, int | None], DamageRow] = {}
        self.done: set[int] = set()
        self.halves: dict[int, str | None] = {}  # queue offset -> uniqKey of half messages
        self.files = OpenFiles()
        self.queues: dict[tuple[str, int], Queue] = {}
        for found in store.queue_files():
            queue = self.queues[found.topic, found.queue_id] = Queue(found, self.files)
            if queue.is_batch:
                queue.load_batches(Findings())  # a search does not report findings

    def run(self) -> Found:
        """Find the messages, trace them and sort their places."""
        seeds, more = self._messages(self._seeds(), self.search.most)
        keys = list(dict.fromkeys(row.uniq_key for row in seeds if row.uniq_key))
        found = {row.physical_offset for row in seeds}
        for key in keys:
            copies = find_key(self.store, key, Query(check_crc=False), self.search.scan)
            rows, _ = self._messages(copies, MAX_COPIES)
            found |= {row.physical_offset for row in rows if row.uniq_key == key}
        with LogReader(self.store) as log:
            for offset in sorted(found):
                self._place(log, offset)
            self._ops(log)
        self.files.close()
        self.places.sort(
            key=lambda row: (row.store_timestamp, row.physical_offset, _ORDER[row.place])
        )
        return Found(
            messages=[self._found(row) for row in seeds],
            places=self.places,
            damaged_regions=list(self.damaged_regions.values()),
            more=more,
        )

    def _found(self, row: MessageRow) -> FoundRow:
        places = [
            place
            for place in self.places
            if place.physical_offset == row.physical_offset
            or (row.uniq_key is not None and place.uniq_key == row.uniq_key)
        ]
        return FoundRow(**msgspec.structs.asdict(row), places=places)

    def _messages(
        self, rows: Iterator[MessageRow | DamageRow], most: int
    ) -> tuple[list[MessageRow], bool]:
        found: list[MessageRow] = []
        for row in rows:
            if isinstance(row, DamageRow):
                self.damaged_regions[row.path, row.physical_offset] = row
                continue
            if len(found) >= most:
                return found, True
            found.append(row)
        return found, False

    def _seeds(self) -> Iterator[MessageRow | DamageRow]:
        search, query = self.search, self.search.query
        if search.key is not None:
            return find_key(self.store, search.key, query, search.scan)
        if search.id is not None:
            return find_id(self.store, search.id, query, search.scan)
        if search.offset is not None:
            at = search.offset
            query = msgspec.structs.replace(query, from_offset=at, to_offset=at + 1)
            return scan_messages(self.store, query)
        if search.text is not None:
            return self._with_text(query, search.text)
        return scan_messages(self.store, query)

    def _with_text(self, query: Query, text: str) -> Iterator[MessageRow | DamageRow]:
        """Yield messages whose body contains a text."""
        wanted = text.encode("utf-8", "surrogateescape")
        match = Matcher(query)
        start = start_by_time(self.store, query.begin_ms)
        for item in LogWalk(self.store, start=start, check_crc=False):
            record = item.record
            if item.damage is not None:
                yield item.damage
            if record is not None and match.record(record) and _holds(item.file, record, wanted):
                at = record.physical_offset
                one = msgspec.structs.replace(query, from_offset=at, to_offset=at + 1)
                yield from scan_messages(self.store, one)

    def _place(self, log: LogReader, offset: int) -> None:
        """Add the places of the record at an offset: record, units and index entries."""
        place = log.record(offset)
        if place is None or offset in self.done:
            return
        self.done.add(offset)
        file, record = place
        try:
            message = decode_record(file.data, record.position, read_body=False)
        except RemoteProtocolError:
            return
        role = role_of(message.topic, message.sys_flag)
        if role == "half":
            self.halves[message.queue_offset] = message.uniq_key
        add = self._adder(message, role)
        size = f"{record.total_size} bytes"
        times = f", {message.reconsume_times} failed deliveries" if message.reconsume_times else ""
        add(LOG, size + times, str(file.path), message.topic, message.queue_id)
        self._units(add, message, record)
        self._entries(add, message)

    def _adder(
        self, message: MessageExt, role: str, uniq_key: str | None = None
    ) -> Callable[..., None]:
        def add(
            place: str, detail: str, path: str, topic: str, queue_id: int, at: int = -1
        ) -> None:
            self.places.append(
                PlaceRow(
                    store_timestamp=message.store_timestamp,
                    place=place,
                    role=role,
                    topic=topic,
                    queue_id=queue_id,
                    queue_offset=message.queue_offset if at < 0 else at,
                    physical_offset=message.physical_offset,
                    uniq_key=uniq_key or message.uniq_key,
                    detail=detail,
                    path=path,
                )
            )

        return add

    def _units(self, add: Callable[..., None], message: MessageExt, record: LogRecord) -> None:
        own = Selection(record.topic, message.queue_id, message.queue_offset)
        for wanted in (own, *lmq_enabled(record)):
            topic = wanted.topic.decode("utf-8", "replace")
            queue = self.queues.get((topic, wanted.queue_id))
            if queue is not None and queue.is_batch:
                self._batch_unit(add, queue, wanted, record)
                continue
            unit = None if queue is None else queue.unit(wanted.queue_offset)
            if queue is None or unit is None or unit.size == 0:
                continue
            good = (unit.physical_offset, unit.size) == (
                record.physical_offset,
                record.total_size,
            )
            detail = (
                f"tags code {unit.tags_code}"
                if good
                else f"the unit leads to physical offset {unit.physical_offset} instead"
            )
            path = str(queue.path_of(wanted.queue_offset))
            add(QUEUE, detail, path, topic, wanted.queue_id, wanted.queue_offset)

    def _batch_unit(
        self, add: Callable[..., None], queue: Queue, wanted: Selection, record: LogRecord
    ) -> None:
        found = queue.batch_units.get(wanted.queue_offset)
        if found is None:
            return
        unit, path = found
        detail = f"{unit.batch_size} messages, tags code {unit.tags_code}"
        if (unit.physical_offset, unit.size) != (record.physical_offset, record.total_size):
            detail = f"the unit leads to physical offset {unit.physical_offset} instead"
        add(QUEUE, detail, str(path), queue.topic, queue.queue_id, unit.base_offset)

    def _entries(self, add: Callable[..., None], message: MessageExt) -> None:
        words = message_keys(message.uniq_key, message.properties.get("KEYS"))
        for path in self.store.index_files():
            try:
                with open_bytes(path) as file:
                    slots = shape_of(file.data, 0)
                    for word in words if slots else ():
                        hashed = index_key_hash(message.topic, word)
                        for entry in walk_chain(file.data, hashed, slots):
                            if entry.physical_offset == message.physical_offset:
                                detail = f"{index_key(message.topic, word)}, entry {entry.number}"
                                add(INDEX, detail, str(path), message.topic, message.queue_id)
            except (StoreError, RemoteProtocolError):
                continue

    def _ops(self, log: LogReader) -> None:
        """Find op records that list one of the half messages."""
        queue = self.queues.get((TRANS_OP_HALF_TOPIC, 0))
        if queue is None or not self.halves:
            return
        for file in queue.files:
            for number in range(file.first, file.first + file.count):
                unit = queue.unit(number)
                place = None if unit is None else log.record(unit.physical_offset)
                if place is None or place[1].topic != TRANS_OP_HALF_TOPIC.encode():
                    continue
                body = _body(*place)
                named = {parse_number(word) for word in body.split(b",")}
                for half in sorted(self.halves.keys() & named):
                    self._op(place, half)

    def _op(self, place: tuple[FileBytes, LogRecord], half: int) -> None:
        """Add an op record as a place of a half message that it lists."""
        file, record = place
        message = decode_record(file.data, record.position)
        if record.physical_offset in self.done:
            # The search matched the op record itself: replace its places by those with the half.
            self.done.discard(record.physical_offset)
            self.places = [
                row for row in self.places if row.physical_offset != record.physical_offset
            ]
        add = self._adder(message, "op", self.halves[half])
        detail = f"closes half message {half}"
        add(LOG, detail, str(file.path), message.topic, message.queue_id)
        self._units(add, message, record)


def _body(file: FileBytes, record: LogRecord) -> bytes:
    return bytes(file.data[record.body_position : record.body_position + record.body_length])


def _holds(file: FileBytes, record: LogRecord, wanted: bytes) -> bool:
    """Whether a body, stored or decompressed, contains some bytes."""
    if wanted in _body(file, record):
        return True
    if not record.sys_flag & (COMPRESSED | INNER_BATCH):
        return False
    try:
        return wanted in decode_record(file.data, record.position).payload()
    except RemoteProtocolError:
        return False
