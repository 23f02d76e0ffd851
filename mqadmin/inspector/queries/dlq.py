"""List the consumer groups of a store with dead letters, their counts and times."""

from collections.abc import Iterator
from typing import Final

from broker.common.topic import DLQ_PREFIX
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogReader, LogWalk
from mqadmin.inspector.queries.queues import live_units
from mqadmin.inspector.rows import DlqRow

HOUR_MS: Final = 3_600_000


def dlq_rows(store: StoreDirectory, *, group: str | None = None, now_ms: int) -> list[DlqRow]:
    """Return one row per group whose dead-letter queue is not empty, by group.

    ConsumeQueues are read if the store has any, else the log. ``growthPerHour`` counts messages
    stored within the hour before ``now_ms``.
    """
    times: dict[str, list[int]] = {}
    for topic, timestamp in _stored(store, group):
        times.setdefault(topic, []).append(timestamp)
    return [
        DlqRow(
            group=topic[len(DLQ_PREFIX) :],
            topic=topic,
            messages=len(stored),
            oldest_timestamp=min(stored),
            newest_timestamp=max(stored),
            growth_per_hour=sum(now_ms - HOUR_MS < timestamp <= now_ms for timestamp in stored),
        )
        for topic, stored in sorted(times.items())
    ]


def _stored(store: StoreDirectory, group: str | None) -> Iterator[tuple[str, int]]:
    """Yield topic and storeTimestamp (ms) of each dead letter."""
    wanted = None if group is None else DLQ_PREFIX + group
    if not store.topics():
        for item in LogWalk(store, check_crc=False):
            record = item.record
            if record is not None and record.topic.startswith(DLQ_PREFIX.encode()):
                topic = record.topic.decode("utf-8", "replace")
                if wanted in (None, topic):
                    yield topic, record.store_timestamp
        return
    with LogReader(store) as log:
        for queue in store.queue_files(wanted):
            if not queue.topic.startswith(DLQ_PREFIX):
                continue
            for unit in live_units(queue, log):
                place = log.record(unit.physical_offset)
                if place is not None:
                    yield queue.topic, place[1].store_timestamp
