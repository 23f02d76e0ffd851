"""Recover messages from damaged, orphaned or single CommitLog files.

:mod:`~mqadmin.repair.store_repair` repairs a complete store; this module reads every intact record
of single files and parts of files, also after zeroed pages and flipped bits. :func:`salvage`
yields records and losses in file order; :func:`~mqadmin.repair.new_store.recover_store` writes the
records into a new store.

Theory of operation
    The length of a good record gives the position of the next one. Where that chain breaks, the
    next record is searched by its magic code; it is accepted if its lengths and its checksum are
    valid and its physical offset matches its position in the file. Only if no such record follows,
    a chain with other physical offsets is accepted: a part of another log. A copy of a record
    in the body of a message is therefore not read as a message. A record that the chain reaches is
    accepted even if its physical offset is wrong, because that field may be the corrupt one.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from broker.common.java import INT64_MAX
from broker.errors import RemoteProtocolError, StoreError, StorePathError
from broker.message.batch import unwrap_inner_batch
from broker.message.message import MessageExt
from broker.message.record import decode_record
from broker.store.format.commitlog import (
    BAD_CRC,
    BAD_PROPERTY_CRC,
    BLANK_HERE,
    MAGIC_AT,
    RECORD_MAGICS,
    check_record,
    file_start,
    own_offset,
    read_record,
    written_end,
)
from broker.store.format.consumequeue import PRE_BLANK_SIZE, UNIT_SIZE, UNIT_STRUCT
from mqadmin.inspector.damage import KINDS
from mqadmin.inspector.directory import COMMITLOG, StoreDirectory
from mqadmin.inspector.files import FileBytes, open_bytes
from mqadmin.inspector.queries.loss import Extents, LossTally, QueueKey, QueueLoss, indexed_places
from mqadmin.inspector.queries.messages import message_row
from mqadmin.inspector.query import Query
from mqadmin.inspector.rows import DamageRow
from mqadmin.inspector.store_manifest import read_queue_ends
from mqadmin.inspector.verify.log_walk import has_columns
from mqadmin.inspector.verify.queue_checks import OpenFiles, Queue
from mqadmin.inspector.verify.report import Findings
from mqadmin.message_row import MessageRow
from mqadmin.repair.filler import TOPIC as FILLER_TOPIC
from mqadmin.repair.survey import arrange

LOST: Final = "lost"
_FILLER_WORDS: Final = b"mqadmin store repair:"


class SalvagedRecord(msgspec.Struct, frozen=True):
    """A salvaged record: its position, bytes and message.

    ``position`` is the byte position in the file, ``place`` the physical offset of that position.
    ``note`` is "" if the record contains ``place`` as its physical offset, "moved" if another one,
    and "crc" if the body is damaged (only with ``bad_bodies``).
    """

    path: str
    position: int
    place: int
    data: bytes
    message: MessageExt
    note: str = ""


class Recovery(msgspec.Struct, kw_only=True):
    """All records and losses of :func:`salvage` in memory, for small sources and tests."""

    records: list[SalvagedRecord]
    losses: list[DamageRow]

    @property
    def lost_bytes(self) -> int:
        """Bytes that could not be read as records, zeros included."""
        return sum(row.length or 0 for row in self.losses)


def recover(sources: Sequence[Path]) -> Recovery:
    """Read all records of the sources into memory."""
    found = Recovery(records=[], losses=[])
    for item in salvage(sources):
        if isinstance(item, SalvagedRecord):
            found.records.append(item)
        else:
            found.losses.append(item)
    return found


def salvage(
    sources: Sequence[Path], *, bad_bodies: bool = False
) -> Iterator[SalvagedRecord | DamageRow]:
    """Yield records and losses of the sources in file order.

    A source is a store, its CommitLog folder, any other folder (all files in it) or a file.
    ``bad_bodies`` also yields records with damaged bodies, with the note "crc", after their losses.
    An unreadable file is a loss. Raises StorePathError if a source does not exist.
    """
    for source in sources:
        for path, base in _files(source):
            try:
                with open_bytes(path, sequential=True) as file:
                    yield from _salvage_file(file, base, bad_bodies=bad_bodies)
            except StoreError as error:
                yield _loss(path, base or 0, path.stat().st_size, error.message)


def _files(source: Path) -> list[tuple[Path, int | None]]:
    """Return the files of a source with their start as a physical offset, None if unknown."""
    if source.is_file():
        return [(source, file_start(source.name))]
    if not source.is_dir():
        raise StorePathError(
            f"no such file or directory: {source}", "is the path right?", path=str(source)
        )
    store = _directory(source)
    if store is None or (store.root is None and store.kind != COMMITLOG):
        paths = sorted(path for path in source.iterdir() if path.is_file())
        return [(path, file_start(path.name)) for path in paths]
    found = arrange(store)
    known: list[tuple[Path, int | None]] = [
        (file.path, file.start) for file in (*found.files, *found.doubles)
    ]
    unnamed = [path for path in store.unexpected_log_names() if path not in found.paths]
    return known + [(path, None) for path in unnamed]


def _salvage_file(
    file: FileBytes, base: int | None, *, bad_bodies: bool
) -> Iterator[SalvagedRecord | DamageRow]:
    """Yield records and losses of one file; ``base`` is the physical offset of its first byte.

    ``base`` comes from the file name. Without a record that confirms it, and after a jump to a
    part of another log, it follows from the records; None: not known yet.
    """
    data = file.data
    position = 0
    if base is not None and not _begins_at(data, 0, base):
        base = _likely_base(data, base)
    while position < file.data_end:
        status = check_record(data, position)
        if status > 0 and _is_torn(data, position, status):
            yield _damaged(file, position, base, "misses the end of its properties")
            if bad_bodies and (salvaged := _decode(file, position, base, "crc")) is not None:
                yield salvaged
            position += status
            continue
        if status > 0:
            salvaged = _decode(file, position, base)
            if salvaged is not None:
                base = own_offset(data, position) - position if base is None else base
                yield salvaged
                position += status
                continue
        if status == BLANK_HERE:
            return
        if status in (BAD_CRC, BAD_PROPERTY_CRC):
            yield _damaged(file, position, base, "has another body than was stored")
            if bad_bodies and (salvaged := _decode(file, position, base, "crc")) is not None:
                yield salvaged
            position += read_record(data, position, base or 0).total_size
            continue
        following, base_there = _next(file, position + 1, base)
        stop = following if following >= 0 else written_end(data, position, file.data_end)
        if stop > position:
            yield _loss(file.path, (base or 0) + position, stop - position, "no record here")
        if following < 0:
            return
        position, base = following, base_there


def _is_torn(data: bytes, position: int, length: int) -> bool:
    """Whether a record's properties end in zeros and no valid record follows."""
    end = position + length
    if data[end - 1] or not read_record(data, position).properties.endswith(b"\0"):
        return False
    following = check_record(data, end, check_crc=False)
    return following < 0


def _damaged(file: FileBytes, position: int, base: int | None, reason: str) -> DamageRow:
    """Return the loss of a record whose header is readable."""
    record = read_record(file.data, position, base or 0)
    where = f"{record.topic.decode('utf-8', 'replace')}/{record.queue_id}"
    detail = f"the message of {where}, queue offset {record.queue_offset}, {reason}"
    return _loss(file.path, (base or 0) + position, record.total_size, detail)


def _begins_at(data: bytes, position: int, base: int) -> bool:
    """Whether a valid record is at a position and contains ``base + position`` as its offset."""
    return check_record(data, position) > 0 and own_offset(data, position) == base + position


def _likely_base(data: bytes, named: int) -> int | None:
    """Return the start in a file's name if any record in it matches that start, else None."""
    if any(_begins_at(data, hit.start() - MAGIC_AT, named) for hit in RECORD_MAGICS.finditer(data)):
        return named
    return None


def _next(file: FileBytes, start: int, base: int | None) -> tuple[int, int | None]:
    """Return the position and base of the next acceptable record, position -1 if none follows."""
    data = file.data
    other = -1
    at = start + MAGIC_AT
    while (hit := RECORD_MAGICS.search(data, at, file.data_end)) is not None:
        position = hit.start() - MAGIC_AT
        at = hit.start() + 1
        if check_record(data, position) <= 0:
            continue
        recorded = own_offset(data, position) - position
        if recorded == base:
            return position, base
        if other < 0 and _is_chain(data, position, recorded):
            other = position
            if base is None:
                break
    if other < 0:
        return -1, base
    return other, own_offset(data, other) - other


def _is_chain(data: bytes, position: int, base: int) -> bool:
    """Whether a valid record is not accidental: it has a body, or a valid record follows it."""
    record = read_record(data, position)
    if base < 0:
        return False
    return record.body_length > 0 or _begins_at(data, position + record.total_size, base)


def _decode(
    file: FileBytes, position: int, base: int | None, note: str = ""
) -> SalvagedRecord | None:
    """Return the record at a position, None if its properties cannot be decoded."""
    try:
        message = decode_record(file.data, position)
    except RemoteProtocolError:
        return None
    if not note and base is not None and message.physical_offset != base + position:
        note = "moved"
    data = bytes(file.data[position : position + message.total_size])
    place = message.physical_offset if base is None else base + position
    return SalvagedRecord(str(file.path), position, place, data, message, note)


def is_filler(message: MessageExt) -> bool:
    """Whether a record is a filler record of a repair."""
    return message.topic == FILLER_TOPIC and message.body.startswith(_FILLER_WORDS)


def is_wanted(message: MessageExt, query: Query) -> bool:
    """Whether a message has the topic, and a storeTimestamp in the range, of a query."""
    if query.topic not in (None, message.topic):
        return False
    if query.begin_ms is not None and message.store_timestamp < query.begin_ms:
        return False
    return query.end_ms is None or message.store_timestamp < query.end_ms


def _loss(path: Path, physical_offset: int, length: int, detail: str) -> DamageRow:
    return DamageRow(
        kind=LOST,
        severity="error",
        path=str(path),
        physical_offset=physical_offset,
        length=length,
        detail=detail,
        suggestion=KINDS["magic"].advice.split(";")[0],
    )


class Salvaged:
    """The salvaged records as ranges, from which the lost messages are computed.

    The message of a ConsumeQueue unit is lost if neither its physical offset nor its queue offset
    is that of a salvaged record. The second test is for units that are themselves corrupt.
    """

    def __init__(self, sources: Sequence[Path]) -> None:
        self._stores = [store for source in sources if (store := _store_of(source)) is not None]
        self._recorded = [read_queue_ends(store) for store in self._stores]
        self._places = Extents()
        self._offsets: dict[QueueKey, Extents] = {}

    def add(self, item: SalvagedRecord) -> None:
        """Add a record whose body is valid."""
        message = item.message
        # A damaged offset of an only record may be the largest one.
        self._places.add(item.place, min(item.place + len(item.data), INT64_MAX))
        if self.is_deleted(item):
            return
        key = (message.topic, message.queue_id)
        offset = message.queue_offset
        self._offsets.setdefault(key, Extents()).add(offset, offset + 1)

    def is_deleted(self, item: SalvagedRecord) -> bool:
        """Whether a message was deleted with its topic, according to queueEnds.json."""
        topic = item.message.topic.encode("utf-8", "surrogateescape")
        return any(item.place < recorded.deleted.get(topic, 0) for recorded in self._recorded)

    def lost_messages(self) -> list[QueueLoss]:
        """Return the messages in queues, index or queueEnds.json that were not salvaged.

        Empty unless the source is exactly one store: equal offsets of several stores mean different
        messages.
        """
        if len(self._stores) != 1:
            return []
        (store,) = self._stores
        tally = LossTally(self._places.end)
        files = OpenFiles()
        ends = {key: offsets.end for key, offsets in self._offsets.items()}
        # Records below the first file have expired.
        begin = min((file.start for file in store.log_files()), default=0)
        for found in store.queue_files():
            self._count_lost(Queue(found, files), begin, tally)
        files.close()
        end = self._places.end
        rows = list(tally.add_recorded(self._recorded[0], ends, end))
        tally.add_indexed(indexed_places(store, end), sum(count for _, _, count in rows))
        return tally.rows()

    def _count_lost(self, queue: Queue, begin: int, tally: LossTally) -> None:
        """Count the lost units of one queue."""
        if queue.is_batch:
            queue.load_batches(Findings())
            for base, (batch, _) in queue.batch_units.items():
                place = batch.physical_offset
                if place >= begin and place not in self._places:
                    key = (queue.topic, queue.queue_id)
                    tally.add(key, base, batch.batch_size, place=place)
        offsets = self._offsets.get((queue.topic, queue.queue_id), Extents())
        for file in queue.files:
            for at in self._units_without_record(queue.open.get(file.path).data, file.count, begin):
                unit = queue.unit(file.first + at)
                if unit is not None and file.first + at not in offsets:
                    key = (queue.topic, queue.queue_id)
                    tally.add(key, file.first + at, place=unit.physical_offset)

    def _units_without_record(self, data: bytes, count: int, begin: int) -> Iterator[int]:
        """Yield the index in the file of each unit whose record was not salvaged."""
        if has_columns():
            from mqadmin.inspector.verify.vectorized.queue_columns import units_outside

            yield from units_outside(data, count, begin, self._places)
            return
        for at, (physical, size, _) in enumerate(
            UNIT_STRUCT.iter_unpack(data[: count * UNIT_SIZE])
        ):
            real = size > 0 and size != PRE_BLANK_SIZE and physical >= begin
            if real and physical not in self._places:
                yield at


def _directory(source: Path) -> StoreDirectory | None:
    """Return a source as a store or a part of one, else None."""
    try:
        return StoreDirectory(source)
    except StoreError:
        return None


def _store_of(source: Path) -> StoreDirectory | None:
    """Return the store if a source is the root of one, else None."""
    store = _directory(source) if source.is_dir() else None
    return store if store is not None and store.root == store.path else None


class SalvagedRows:
    """The salvaged messages as rows, in a single pass.

    Iteration yields the messages that match ``query`` (topic, times) with bodies in its form. After
    it ``losses`` has the unreadable regions and :meth:`lost` the messages known to be lost.
    """

    def __init__(self, sources: Sequence[Path], query: Query, *, bad_bodies: bool = False) -> None:
        self._sources = sources
        self._query = query
        self._bad_bodies = bad_bodies
        self.losses: list[DamageRow] = []
        self._salvaged = Salvaged(sources)
        self.count = 0

    def __iter__(self) -> Iterator[MessageRow]:
        for source in self._sources:
            store = _directory(source)
            broker_name = None if store is None else store.broker_name()
            yield from self._source_rows(source, broker_name)

    def _source_rows(self, source: Path, broker_name: str | None) -> Iterator[MessageRow]:
        for item in salvage([source], bad_bodies=self._bad_bodies):
            if isinstance(item, DamageRow):
                self.losses.append(item)
                continue
            if item.note != "crc":
                self._salvaged.add(item)
            if not is_filler(item.message):
                yield from self._rows(item, broker_name)

    def _rows(self, item: SalvagedRecord, broker_name: str | None) -> Iterator[MessageRow]:
        message, query = item.message, self._query
        if not is_wanted(message, query):
            return
        try:
            messages = unwrap_inner_batch(message)
        except RemoteProtocolError:
            messages = [message]
        for one in messages:
            row, _ = message_row(one, query, broker_name, crc_ok=item.note != "crc")
            self.count += 1
            yield row

    @property
    def lost_bytes(self) -> int:
        """Bytes that could not be read as records."""
        return sum(row.length or 0 for row in self.losses)

    def lost(self) -> list[QueueLoss]:
        """Return the lost messages by topic and queue; complete after the iteration."""
        return self._salvaged.lost_messages()
