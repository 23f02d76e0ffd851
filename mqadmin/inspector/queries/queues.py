"""Return ConsumeQueue units as rows, and the bounds of queues checked against the log."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from broker.message.record import decode_record
from broker.store.format.commitlog import LogRecord
from mqadmin.inspector.directory import QueueFiles, StoreDirectory
from mqadmin.inspector.log import LogReader
from mqadmin.inspector.queries.messages import Matcher
from mqadmin.inspector.query import ALL_ROWS, Query
from mqadmin.inspector.rows import DamageRow, QueueRow, QueueUnitRow
from mqadmin.inspector.units import Unit, scan_queue

# Bound of units at the end of a queue that may remain from before a truncation and are looked up
# in the log one by one; a truncation removes the last few seconds.
TAIL_UNITS: Final = 100_000


def unit_rows(store: StoreDirectory, query: Query = ALL_ROWS) -> Iterator[QueueUnitRow | DamageRow]:
    """Yield matching ConsumeQueue units and corruption by topic, queue id and queue offset.

    Times, keys and ids are read from the log; a unit without a record does not match them.
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
    """Whether a record is the one that a unit of a queue refers to.

    LMQs contain records of other topics under other queue offsets: only the size is compared.
    """
    if record.total_size != unit.size:
        return False
    if queue.topic.startswith("%LMQ%"):
        return True
    named = record.topic.decode("utf-8", "replace") == queue.topic
    return named and (record.queue_id, record.queue_offset) == (queue.queue_id, unit.queue_offset)


def live_units(queue: QueueFiles, log: LogReader) -> Iterator[Unit]:
    """Yield the units of a queue whose records are in the log.

    Units below the start of the log are skipped, and at the tail units without a record: they
    remain from before a truncation. Without a log all units are yielded.
    """
    units = (unit for unit in scan_queue(queue) if isinstance(unit, Unit))
    least = log.min_offset
    if least is None:
        yield from units
        return
    # Only the last TAIL_UNITS can remain from a truncation: they are buffered and checked at the
    # end, because looking up every unit of a queue in the log would be slow.
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
    """Yield the message queues of a store with their bounds."""
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
    """Return the queue offset after a unit."""
    return unit.queue_offset + (unit.batch_size or 1)


def _end_of_files(queue: QueueFiles) -> int:
    """Return the queue offset after the last unit of a queue without live units, else 0."""
    end = 0
    for unit in scan_queue(queue):
        if isinstance(unit, Unit):
            end = _end_of(unit)
    return end
