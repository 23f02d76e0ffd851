"""The rows that inspection hands out; field names are RocketMQ's in camelCase when encoded."""

from typing import Any

import msgspec


class DamageRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Something in a file that should not be so.

    ``physicalOffset`` is the place in the log; in other files the byte position in the row of
    files (ConsumeQueue) or in the file. ``severity`` is "error" (data lost or unreadable) or
    "warning" (nothing acknowledged needs to be lost, but a broker will act on it).
    """

    kind: str
    severity: str
    path: str
    physical_offset: int | None
    length: int | None
    detail: str
    suggestion: str


class QueueUnitRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One ConsumeQueue unit; ``batchSize`` is None in a classic queue."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_size: int
    tags_code: int
    batch_size: int | None = None
    path: str


class IndexRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file header (``record`` "file") or an entry ("entry"); the other's fields are None."""

    record: str
    path: str
    slot: int | None = None
    entry: int | None = None
    key_hash: int | None = None
    physical_offset: int | None = None
    time_diff_seconds: int | None = None
    previous_entry: int | None = None
    begin_timestamp: int | None = None
    end_timestamp: int | None = None
    begin_physical_offset: int | None = None
    end_physical_offset: int | None = None
    hash_slot_count: int | None = None
    index_count: int | None = None
    slots: int | None = None


class CheckpointRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The store checkpoint; times in epoch ms, 0 for never."""

    path: str | None = None
    physic_msg_timestamp: int
    logics_msg_timestamp: int
    index_msg_timestamp: int
    master_flushed_offset: int
    confirm_physical_offset: int


class ConfigRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One file of ``config/``: its value as read; ``fromBackup`` if that is what could be read."""

    path: str
    name: str
    from_backup: bool
    value: dict[str, Any]


class StateRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the marker files say.

    ``cleanStop``: there is no abort file. ``abortPid`` is what 5.x wrote into it. ``heldBy`` is the
    process that holds the lock, 0 if it is free, None if that cannot be told.
    """

    path: str
    clean_stop: bool
    abort: bool
    abort_pid: int | None
    lock: bool
    held_by: int | None


class QueueRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Bounds of one message queue: queue offsets ``minOffset`` (first) to ``maxOffset`` (end)."""

    topic: str
    queue_id: int
    min_offset: int
    max_offset: int
    units: int
    first_physical_offset: int | None
    last_physical_offset: int | None
    kind: str
    path: str


class TopicSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the log holds of one topic."""

    topic: str
    queues: int
    messages: int
    bytes: int


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A store in one record; timestamps in epoch ms, None for an empty log.

    ``bodiesChecked``: whether damages were also looked for within bodies (CRC).
    """

    path: str
    min_physical_offset: int
    max_physical_offset: int
    messages: int
    bytes: int
    blanks: int
    damages: int
    bodies_checked: bool
    first_store_timestamp: int | None
    last_store_timestamp: int | None
    topics: list[TopicSummary]
    clean_stop: bool
    checkpoint: CheckpointRow | None


class DlqRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Dead letters of one consumer group; ``growthPerHour`` counts the last hour's."""

    group: str
    topic: str
    messages: int
    oldest_timestamp: int | None
    newest_timestamp: int | None
    growth_per_hour: int | None
