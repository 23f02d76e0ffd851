"""ConsumeQueues: their units as rows, and their bounds checked against the log."""

from collections import deque
from collections.abc import Generator, Iterator
from typing import Final, NamedTuple

from broker.errors import StoreError
from broker.message.record import decode_record
from broker.store.format.commitlog import Damage, LogRecord
from broker.store.format.consumequeue import (
    BATCH_UNIT_SIZE,
    UNIT_SIZE,
    is_pre_blank,
    scan_batch_units,
    scan_units,
)
from mqadmin.inspector.damage import WARNING, damage_row, found
from mqadmin.inspector.directory import Query, QueueFiles, StoreDirectory
from mqadmin.inspector.files import FileBytes, open_bytes
from mqadmin.inspector.log import LogReader
from mqadmin.inspector.messages import Matcher
from mqadmin.inspector.rows import DamageRow, QueueRow, QueueUnitRow

# Units at the end of a queue that may be left over from before a truncation and are looked up in
# the log one by one; a truncation reaches back a few seconds.
TAIL_UNITS: Final = 100_000


class Unit(NamedTuple):
    """A unit of either kind of queue with its place."""

    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int
    batch_size: int | None
    path: str


def scan_queue(queue: QueueFiles) -> Iterator[Unit | DamageRow]:
    """The units of a queue over all its files, without fillers, up to the last one written.

    A unit that does not lie behind the one before it in the log is what a truncation has left:
    it ends the queue.
    """
    last = -1
    whole = 0
    for path, start in queue.files:
        try:
            with open_bytes(path) as file:
                yield from _file_damages(queue, file, whole)
                whole = whole or len(file)
                ended = yield from _scan_file(queue, file, start, last)
        except StoreError as error:
            yield found("unreadable", str(path), error.message)
            continue
        if ended is None:
            return
        last = ended


def _file_damages(queue: QueueFiles, file: FileBytes, whole: int) -> Iterator[DamageRow]:
    size = UNIT_SIZE if queue.kind == "classic" else BATCH_UNIT_SIZE
    if whole and len(file) != whole and len(file) % size == 0 and len(file):
        yield found(
            "fileSize",
            str(file.path),
            f"the file has {len(file)} bytes, the first one {whole}",
            length=abs(whole - len(file)),
            severity=WARNING,
        )


def _scan_file(
    queue: QueueFiles, file: FileBytes, start: int, last: int
) -> Generator[Unit | DamageRow, None, int | None]:
    """Units of one file; returns the last physical offset, None if the queue ends here."""
    path = str(file.path)
    for unit in _units(queue, file, start):
        if isinstance(unit, Damage):
            yield damage_row(unit, path)
            continue
        if unit.physical_offset <= last:
            yield found(
                "order",
                path,
                f"queue offset {unit.queue_offset} leads back in the log, to"
                f" {unit.physical_offset}: left over from before a truncation, or damaged",
                physical_offset=unit.queue_offset * UNIT_SIZE,
                length=UNIT_SIZE,
                severity=WARNING,
            )
            return None
        last = unit.physical_offset
        yield unit
    return last


def _units(queue: QueueFiles, file: FileBytes, start: int) -> Iterator[Unit | Damage]:
    path = str(file.path)
    if queue.kind == "batch":
        for found_unit in scan_batch_units(file.data, start):
            if isinstance(found_unit, Damage):
                yield found_unit
                continue
            yield Unit(
                found_unit.base_offset,
                found_unit.physical_offset,
                found_unit.size,
                found_unit.tags_code,
                found_unit.batch_size,
                path,
            )
        return
    for found_item in scan_units(file.data, start // UNIT_SIZE):
        if isinstance(found_item, Damage):
            yield found_item
            continue
        queue_offset, unit = found_item
        if not is_pre_blank(unit):
            yield Unit(queue_offset, *unit, None, path)


def unit_rows(store: StoreDirectory, query: Query) -> Iterator[QueueUnitRow | DamageRow]:
    """ConsumeQueue units that match, by topic, queue and queue offset.

    Times, keys and ids are looked up in the log; units whose record is gone then do not match.
    """
    needs_log = (query.begin_ms, query.end_ms, query.key, query.id) != (None,) * 4
    match = _UnitMatcher(query)
    with LogReader(store) as log:
        for queue in store.queue_files(query.topic, query.queue_id):
            for unit in scan_queue(queue):
                if isinstance(unit, DamageRow):
                    yield unit
                elif match.unit(unit) and (not needs_log or match.log(log, unit)):
                    yield QueueUnitRow(
                        topic=queue.topic,
                        queue_id=queue.queue_id,
                        queue_offset=unit.queue_offset,
                        physical_offset=unit.physical_offset,
                        store_size=unit.size,
                        tags_code=unit.tags_code,
                        batch_size=unit.batch_size,
                        path=unit.path,
                    )


class _UnitMatcher:
    def __init__(self, query: Query) -> None:
        self._query = query
        self._record = Matcher(Query(begin_ms=query.begin_ms, end_ms=query.end_ms, key=query.key))

    def unit(self, unit: Unit) -> bool:
        query = self._query
        if query.from_offset is not None and _end_of(unit) <= query.from_offset:
            return False
        return query.to_offset is None or unit.queue_offset < query.to_offset

    def log(self, log: LogReader, unit: Unit) -> bool:
        place = log.record(unit.physical_offset)
        if place is None or not self._record.record(place[1]):
            return False
        message = decode_record(place[0].data, place[1].position)
        wanted = self._query.id
        if wanted is not None and wanted.upper() not in (
            message.offset_msg_id,
            (message.uniq_key or "").upper(),
        ):
            return False
        return self._record.message(message)


def belongs(queue: QueueFiles, unit: Unit, record: LogRecord) -> bool:
    """Whether a record is the one that a unit of a queue means.

    Light queues hold records of other topics under offsets of their own.
    """
    if record.total_size != unit.size:
        return False
    if queue.topic.startswith("%LMQ%"):
        return True
    named = record.topic.decode("utf-8", "replace") == queue.topic
    return named and (record.queue_id, record.queue_offset) == (queue.queue_id, unit.queue_offset)


def live_units(queue: QueueFiles, log: LogReader) -> Iterator[Unit]:
    """The units of a queue whose records are in the log.

    At the head those below the begin of the log are dropped, at the tail those whose record is
    not there: they are left over from before a truncation. Without a log all are kept.
    """
    units = (unit for unit in scan_queue(queue) if isinstance(unit, Unit))
    least = log.min_offset
    if least is None:
        yield from units
        return
    # Only the tail can be left over: it is held back until a unit behind it is seen to be good.
    held: deque[Unit] = deque()
    for unit in units:
        if unit.physical_offset < least:
            continue
        held.append(unit)
        if len(held) > TAIL_UNITS:
            yield held.popleft()
    while held:
        place = log.record(held[-1].physical_offset)
        if place is not None and belongs(queue, held[-1], place[1]):
            break
        held.pop()
    yield from held


def queue_rows(store: StoreDirectory, topic: str | None = None) -> Iterator[QueueRow]:
    """The message queues of a store with their bounds."""
    with LogReader(store) as log:
        for queue in store.queue_files(topic):
            first = last = None
            count = 0
            for last in live_units(queue, log):
                first = first or last
                count += 1
            end = _end_of_files(queue) if last is None else _end_of(last)
            yield QueueRow(
                topic=queue.topic,
                queue_id=queue.queue_id,
                min_offset=end if first is None else first.queue_offset,
                max_offset=end,
                units=count,
                first_physical_offset=None if first is None else first.physical_offset,
                last_physical_offset=None if last is None else last.physical_offset,
                kind=queue.kind,
                path=str(queue.path),
            )


def _end_of(unit: Unit) -> int:
    """The queue offset behind a unit."""
    return unit.queue_offset + (unit.batch_size or 1)


def _end_of_files(queue: QueueFiles) -> int:
    """The queue offset behind a queue without live units: its last unit's, 0 for an empty one."""
    end = 0
    for unit in scan_queue(queue):
        if isinstance(unit, Unit):
            end = _end_of(unit)
    return end
