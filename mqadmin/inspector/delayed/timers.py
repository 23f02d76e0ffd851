"""List the pending timer messages of a store.

They are the chains of the wheel's slots that are not delivered yet, and the messages of the timer
queue that are not in the wheel yet (from lastTimerQueueOffset on). Without a wheel all messages of
the timer queue are examined.
"""

import heapq
from collections.abc import Iterator
from itertools import chain
from typing import Final

from broker.common.topic import TIMER_TOPIC
from broker.errors import RemoteProtocolError, StoreError
from broker.message.message import MessageExt
from broker.message.record import decode_record
from broker.store.format.timer import TimerSlot
from mqadmin.inspector.delayed.timer_files import TimerFiles
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogReader
from mqadmin.inspector.queries.queues import live_units
from mqadmin.system_topics.timers import (
    PendingTimers,
    Recalls,
    TimerRow,
    recalled_key,
    timer_row,
)

MAX_SLOT_UNITS: Final = 1_000_000  # units of one slot that are kept at a time


def pending_timers(store: StoreDirectory, *, now_ms: int) -> Iterator[TimerRow]:
    """Yield the pending timer messages by due time; a rolled one by the time of its slot."""
    name = store.broker_name()
    with TimerFiles(store) as files, LogReader(store) as log:
        read_ms = files.read_ms()
        first = _first_unread(files) if files.exist else 0
        rest = PendingTimers(name, now_ms, read_ms=read_ms)
        rest.add_all(timer_messages(store, log, first))
        later = list(rest.rows())
        if rest.truncated:
            raise StoreError(
                f"{store.path}: too many messages of {TIMER_TOPIC} are not in the wheel yet",
                "start a broker on a copy: it enqueues them",
                path=str(store.path),
            )
        if not files.exist:
            yield from later
            return
        listed = {row.physical_offset for row in later}
        slots = files.pending_slots(read_ms)
        waiting = chain.from_iterable(
            _slot_rows(files, log, slot, (name, now_ms), rest.recalls, listed) for _, slot in slots
        )
        tail = ((row.due_timestamp, row) for row in later)
        for _, row in heapq.merge(waiting, tail, key=lambda item: item[0]):
            yield row


def _first_unread(files: TimerFiles) -> int:
    """Return the first queue offset that the wheel does not contain."""
    try:
        found = files.checkpoint()
    except (RemoteProtocolError, StoreError):
        return 0
    return 0 if found is None else max(0, found.last_timer_queue_offset)


def _slot_rows(
    files: TimerFiles,
    log: LogReader,
    slot: TimerSlot,
    context: tuple[str | None, int],
    recalls: Recalls,
    listed: set[int],
) -> Iterator[tuple[int, TimerRow]]:
    """Yield (time of the slot, row) of one slot in the order of arrival."""
    own = Recalls()
    rows: list[TimerRow] = []
    for _, unit in files.chain(slot):
        if unit is None or len(rows) >= MAX_SLOT_UNITS:
            break
        message = record_at(log, unit.physical_offset)
        if message is None or unit.physical_offset in listed:
            continue
        if recalled_key(message) is not None:
            own.add(message)
            continue
        try:
            rows.append(timer_row(message, *context))
        except RemoteProtocolError:
            continue
    for row in reversed(rows):
        if not own.cover(row) and not recalls.cover(row):
            yield slot.time * files.precision_ms, row


def record_at(log: LogReader, physical_offset: int) -> MessageExt | None:
    """Return the message at a physical offset, None if it is not readable."""
    place = log.record(physical_offset)
    if place is None:
        return None
    try:
        return decode_record(place[0].data, place[1].position)
    except RemoteProtocolError:
        return None


def timer_messages(store: StoreDirectory, log: LogReader, first: int = 0) -> Iterator[MessageExt]:
    """Yield the readable records of the timer queue from a queue offset on."""
    return queue_messages(store, log, TIMER_TOPIC, 0, first)


def queue_messages(
    store: StoreDirectory, log: LogReader, topic: str, queue_id: int, first: int
) -> Iterator[MessageExt]:
    """Yield the readable records of a queue from a queue offset on."""
    for queue in store.queue_files(topic, queue_id):
        for unit in live_units(queue, log):
            if unit.queue_offset < first:
                continue
            message = record_at(log, unit.physical_offset)
            if message is None or message.topic != topic:
                continue
            if message.queue_offset == unit.queue_offset:
                yield message
