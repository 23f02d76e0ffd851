"""The rows that inspection returns; encoded field names are RocketMQ's in camelCase."""

from typing import Any

import msgspec


class DamageRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Corruption in a file, or an inconsistency between files.

    ``physicalOffset`` is an offset in the log; for other files the byte position over all files of
    the queue (ConsumeQueue) or in the file. ``severity`` is "error" (data is lost or unreadable),
    "warning" (acknowledged messages may be complete, but a broker will act on it) or, in
    verification, "notice" (no action required).
    """

    kind: str
    severity: str
    path: str
    physical_offset: int | None
    length: int | None
    detail: str
    suggestion: str


class QueueUnitRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One ConsumeQueue unit; ``batchSize`` is None in a SimpleCQ."""

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_size: int
    tags_code: int
    batch_size: int | None = None
    path: str


class IndexRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A file header (``record`` "file") or an entry ("entry"); the fields of the other are None."""

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
    """The store checkpoint; times in epoch ms, None if never set (0 in the file)."""

    path: str | None = None
    physic_msg_timestamp: int | None
    logics_msg_timestamp: int | None
    index_msg_timestamp: int | None
    master_flushed_offset: int
    confirm_physical_offset: int


class ConfigRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One file of ``config/`` and its value; ``fromBackup`` if it was read from its backup."""

    path: str
    name: str
    from_backup: bool
    value: dict[str, Any]


class StateRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of the marker files.

    ``cleanStop``: there is no abort file. ``abortPid`` is the process id that 5.x writes into it.
    ``heldBy`` is the process that holds the lock, None if it is free or unknown.
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
    """Counts of one topic's records in the log."""

    topic: str
    queues: int
    messages: int
    bytes: int


class Summary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Summary of a store; timestamps in epoch ms, None for an empty log.

    ``bodiesChecked``: whether the CRC of bodies was checked.
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
    """The dead-letter queue of a group; ``growthPerHour`` counts messages of the last hour."""

    group: str
    topic: str
    messages: int
    oldest_timestamp: int | None
    newest_timestamp: int | None
    growth_per_hour: int | None
