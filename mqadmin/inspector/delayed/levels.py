"""List delay levels and the messages that wait in them, from the files of a store.

The tags code of a ConsumeQueue unit of SCHEDULE_TOPIC_XXXX is the time of delivery.

**Source:** RocketMQ ScheduleMessageService.
"""

import heapq
from collections.abc import Iterator

from broker.common.topic import SCHEDULE_TOPIC
from broker.store.format import config
from broker.store.format.state import CONFIG_DIR
from mqadmin.inspector.delayed.timers import record_at
from mqadmin.inspector.directory import QueueFiles, StoreDirectory
from mqadmin.inspector.files import read_all
from mqadmin.inspector.log import LogReader
from mqadmin.inspector.queries.queues import live_units
from mqadmin.inspector.units import Unit
from mqadmin.inspector.verify.config_checks import read_settings
from mqadmin.system_topics.delay_levels import (
    DELAY_LEVELS,
    DelayedRow,
    DelayFilter,
    DelayLevelRow,
    check_level,
    delayed_row,
    level_row,
    parse_levels,
)


def delay_levels(store: StoreDirectory, *, now_ms: int) -> list[DelayLevelRow]:
    """Return one row per level of messageDelayLevel, and per further level with a queue."""
    name = store.broker_name()
    delays = parse_levels(read_settings(store).delay_levels or DELAY_LEVELS)
    offsets = _offsets(store)
    queues = {queue.queue_id + 1: queue for queue in store.queue_files(SCHEDULE_TOPIC)}
    rows = []
    with LogReader(store) as log:
        for level in sorted({*range(1, len(delays) + 1), *queues}):
            queue = queues.get(level)
            first, end = _bounds(queue, log, offsets.get(level, 0))
            delay_ms = delays[level - 1] if level <= len(delays) else None
            due_ms = None if first is None else first.tags_code
            offset = min(offsets.get(level, 0), end) if first is None else first.queue_offset
            rows.append(level_row(name, level, delay_ms, (offset, end), due_ms, now_ms))
    return rows


def delayed_messages(
    store: StoreDirectory, wanted: DelayFilter, *, now_ms: int
) -> Iterator[DelayedRow]:
    """Yield the messages that wait in delay levels, by time of delivery.

    ConfigError for a level that the broker does not have.
    """
    name = store.broker_name()
    offsets = _offsets(store)
    files = list(store.queue_files(SCHEDULE_TOPIC))
    defined = len(parse_levels(read_settings(store).delay_levels or DELAY_LEVELS))
    check_level(wanted.level, {*range(1, defined + 1), *(queue.queue_id + 1 for queue in files)})
    with LogReader(store) as log:
        queues = [
            _rows(queue, log, offsets.get(queue.queue_id + 1, 0), name, now_ms)
            for queue in files
            if wanted.level in (None, queue.queue_id + 1)
        ]
        # Each level is in order of delivery, unless the clock was set back.
        merged = heapq.merge(*queues, key=lambda row: row.due_timestamp)
        yield from (row for row in merged if wanted.accepts(row))


def _rows(
    queue: QueueFiles, log: LogReader, first: int, name: str | None, now_ms: int
) -> Iterator[DelayedRow]:
    for unit in live_units(queue, log):
        if unit.queue_offset < first:
            continue
        message = record_at(log, unit.physical_offset)
        if message is not None and message.topic == SCHEDULE_TOPIC:
            yield delayed_row(message, name, unit.tags_code, now_ms)


def _bounds(queue: QueueFiles | None, log: LogReader, offset: int) -> tuple[Unit | None, int]:
    """Return the first unit that is not delivered, and the end of a queue."""
    if queue is None:
        return None, 0
    first, end = None, 0
    for unit in live_units(queue, log):
        end = unit.queue_offset + 1
        if first is None and unit.queue_offset >= offset:
            first = unit
    return first, end


def _offsets(store: StoreDirectory) -> dict[int, int]:
    """Return delivered offset by level."""
    data = read_all(store.root / CONFIG_DIR / config.DELAY_OFFSET) if store.root else None
    return {} if data is None else dict(config.decode_delay_offset(data).offsets)
