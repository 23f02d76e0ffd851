"""Rebuild ConsumeQueues and IndexFiles from a repaired log.

The code with which verification derives units and keys from records
(:class:`~mqadmin.inspector.verify.record_checks.RecordChecks` and its columns) feeds writers here
instead of comparisons, so the result is as verification expects.
"""

from typing import Any

from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.log import LogReader, LogWalk
from mqadmin.inspector.verify.index_checks import plain_columns
from mqadmin.inspector.verify.log_walk import ColumnWalk, has_columns
from mqadmin.repair.derived_files.build_index import IndexWriter
from mqadmin.repair.derived_files.build_queues import (
    PART_KEYS,
    BuildRecords,
    BuildTable,
    OldUnits,
    QueueWriter,
)


def rebuild(
    store: StoreDirectory,
    table: BuildTable,
    old: OldUnits,
    index: IndexWriter | None,
    delay_levels: str | None,
) -> int:
    """Build queues and index from the log of ``store``; returns the latest storeTimestamp (ms).

    ``store`` is the output, whose log is already repaired. ``delay_levels`` None: the defaults.
    """
    with LogReader(store) as log:
        table.log_start = log.min_offset or 0
        records = BuildRecords(table, log, old, delay_levels)
        if has_columns():
            _by_columns(store, records, index)
        else:
            _plainly(store, records, index)
    for writer in table.queues.values():
        if isinstance(writer, QueueWriter):
            writer.finish()
    table.close()
    return records.newest_timestamp


def _plainly(store: StoreDirectory, records: BuildRecords, index: IndexWriter | None) -> None:
    for item in LogWalk(store, check_crc=False):
        if item.record is not None:
            records.take(item.file, item.record)
        if len(records.keys) >= PART_KEYS or len(records.table.pending) >= PART_KEYS:
            _flush_plainly(records, index)
    _flush_plainly(records, index)


def _flush_plainly(records: BuildRecords, index: IndexWriter | None) -> None:
    records.table.write_pending()
    if index is not None:
        index.add(*plain_columns(records.keys))
    records.keys.clear()


def _by_columns(store: StoreDirectory, records: BuildRecords, index: IndexWriter | None) -> None:
    from mqadmin.repair.derived_files.build_columns import ColumnBuild

    build = ColumnBuild(records)

    def take(file: Any, batch: Any, untrusted: frozenset[int]) -> None:
        build.take(file, batch, untrusted)
        columns = build.take_keys()
        if index is not None:
            index.add(*columns)

    for _ in ColumnWalk(store, take, check_crc=False):
        pass
    build.flush()
