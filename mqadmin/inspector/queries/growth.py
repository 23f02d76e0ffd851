"""Compute how fast a store grows by topic, and when its disk reaches the broker's limits.

**Source:** RocketMQ ``DefaultMessageStore.CleanCommitLogService`` (effects of the limits).
"""

import os
from typing import Final

import msgspec

from broker.errors import ConfigError, StoreError
from broker.store.format.vectorized.record_count import Tally
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogWalk
from mqadmin.inspector.queries.messages import start_by_time

HOUR_MS: Final = 3_600_000
# Used space in percent, and the action of a broker with default settings from there.
LIMITS: Final = {75: "deleteAtAnyHour", 85: "deleteUnexpired", 90: "refuseWrites"}


class TopicGrowth(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Growth of one topic; ``share`` is its fraction of all bytes, 0 to 1."""

    topic: str
    messages: int
    bytes: int
    messages_per_hour: float
    bytes_per_hour: float
    share: float


class Growth(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Growth of a store within a window, and its disk.

    ``hoursTo…`` is the time at this rate until 75, 85 and 90 percent are used: 0 if reached,
    None if the store does not grow. ``maxPhysicalOffset`` is the end of the log.
    """

    path: str
    begin_timestamp: int
    end_timestamp: int
    max_physical_offset: int
    messages: int
    bytes: int
    bytes_per_hour: float
    disk_bytes: int
    disk_used_bytes: int
    disk_used_ratio: float
    hours_to_75: float | None = msgspec.field(name="hoursTo75")
    hours_to_85: float | None = msgspec.field(name="hoursTo85")
    hours_to_90: float | None = msgspec.field(name="hoursTo90")
    topics: list[TopicGrowth]


def growth(store: StoreDirectory, begin_ms: int, end_ms: int) -> Growth:
    """Count the records stored in ``[begin_ms, end_ms)`` by topic, and project the disk usage.

    Raises ConfigError if the window is empty, StoreError if statvfs fails.
    """
    if end_ms <= begin_ms:
        raise ConfigError("the window is empty", "give one that begins before now")
    tally = Tally()
    walk = LogWalk(store, start=start_by_time(store, begin_ms), check_crc=False)
    for item in walk:
        record = item.record
        if record is not None and begin_ms <= record.store_timestamp < end_ms:
            tally.add(record.topic, 0, record.total_size)
    rows = [
        (topic.decode("utf-8", "replace"), messages, size)
        for topic, _, messages, size in tally.totals()
    ]
    whole = sum(size for _, _, size in rows)
    hours = (end_ms - begin_ms) / HOUR_MS
    pace = whole / hours
    total, used = _disk(store)
    left = {limit: total * limit / 100 - used for limit in LIMITS}
    return Growth(
        path=str(store.path),
        begin_timestamp=begin_ms,
        end_timestamp=end_ms,
        max_physical_offset=walk.end,
        messages=sum(messages for _, messages, _ in rows),
        bytes=whole,
        bytes_per_hour=round(pace, 1),
        disk_bytes=total,
        disk_used_bytes=used,
        disk_used_ratio=round(used / total, 4) if total else 0.0,
        hours_to_75=_hours(left[75], pace),
        hours_to_85=_hours(left[85], pace),
        hours_to_90=_hours(left[90], pace),
        topics=[
            TopicGrowth(
                topic=topic,
                messages=messages,
                bytes=size,
                messages_per_hour=round(messages / hours, 1),
                bytes_per_hour=round(size / hours, 1),
                share=round(size / whole, 4) if whole else 0.0,
            )
            for topic, messages, size in sorted(rows, key=lambda row: -row[2])
        ],
    )


def _hours(left: float, pace: float) -> float | None:
    if left <= 0:
        return 0.0
    return round(left / pace, 1) if pace > 0 else None


def _disk(store: StoreDirectory) -> tuple[int, int]:
    """Return (total bytes available to users, used bytes) of the log's file system."""
    folder = store.folder("commitlog") or store.path
    try:
        status = os.statvfs(folder)
    except OSError as error:
        raise StoreError(
            f"{folder}: the file system cannot be asked: {error.strerror}", path=str(folder)
        ) from error
    used = (status.f_blocks - status.f_bfree) * status.f_frsize
    return used + status.f_bavail * status.f_frsize, used
