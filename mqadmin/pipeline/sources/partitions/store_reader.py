"""The batch reader of ``rocketmq-store``; ``store`` documents its options."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from mqadmin.pipeline.failure import annotated_errors
from mqadmin.pipeline.sources.options import (
    RowFilter,
    check_columns,
    lower_names,
    option_filter,
    option_paths,
)
from mqadmin.pipeline.sources.partitions.split_reader import freeze_loaded_modules, read_split
from mqadmin.pipeline.sources.partitions.splits import Split, plan_splits

NAME: Final = "rocketmq-store"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)

COLUMN_TYPES: Final = {
    "topic": "string",
    "queue_id": "int",
    "queue_offset": "bigint",
    "physical_offset": "bigint",
    "size": "int",
    "sys_flag": "int",
    "flag": "int",
    "born_time": "timestamp",
    "born_host": "string",
    "store_time": "timestamp",
    "store_host": "string",
    "reconsume_times": "int",
    "prepared_offset": "bigint",
    "body_crc": "bigint",
    "body_len": "int",
    "body": "binary",
    "crc_ok": "boolean",
    "tags": "string",
    "keys": "string",
    "uniq_key": "string",
    "properties": "string",
    "offset_msg_id": "string",
    "store": "string",
    "damage": "string",
}


class StoreReader(DataSourceReader):
    """Plans splits on the driver and reads one on a worker."""

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self.names = list(schema.names)
        self.options = lower_names(options)
        with annotated_errors():
            check_columns(self.names, tuple(COLUMN_TYPES), NAME)
            self.rows = option_filter(self.options)
            self.paths = option_paths(self.options, NAME)

    def partitions(self) -> list[InputPartition]:
        """Return the splits of every file that can contain selected rows.

        StoreError for a path that does not exist.
        """
        with annotated_errors():
            return [*plan_splits(self.paths, self.rows, self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return Arrow batches of one split. StoreError if its file cannot be read."""
        if isinstance(partition, Split):  # without splits Spark passes an empty partition
            freeze_loaded_modules()
            with annotated_errors():
                yield from read_split(partition, self.names, self.rows, self.options)


class FilteringReader(StoreReader):
    """The reader that accepts filters from Spark (option ``pushdown``)."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Narrow the read by the supported filters; Spark applies all of them again itself."""
        self.rows = narrow(self.rows, filters)
        yield from filters


def narrow(rows: RowFilter, filters: list[Filter]) -> RowFilter:
    """Return the intersection of a row filter and Spark filters; unsupported ones are ignored."""
    topics = rows.topics
    bounds: dict[str, list[int]] = {"since": [], "until": [], "from": [], "to": []}
    for item in filters:
        column = ".".join(getattr(item, "attribute", ()))
        value: Any = getattr(item, "value", None)
        if column == "topic" and isinstance(item, EqualTo | In):
            named = frozenset([value] if isinstance(item, EqualTo) else value)
            topics = named if topics is None else topics & named
        elif column == "store_time" and isinstance(value, datetime):
            _bound(item, (value - EPOCH) // MILLISECOND, bounds["since"], bounds["until"])
        elif column == "physical_offset" and isinstance(value, int):
            _bound(item, value, bounds["from"], bounds["to"])

    def highest(own: int | None, more: list[int]) -> int | None:
        return max([*more, *([] if own is None else [own])], default=None)

    def lowest(own: int | None, more: list[int]) -> int | None:
        return min([*more, *([] if own is None else [own])], default=None)

    return RowFilter(
        topics=topics,
        since_ms=highest(rows.since_ms, bounds["since"]),
        until_ms=lowest(rows.until_ms, bounds["until"]),
        from_offset=highest(rows.from_offset, bounds["from"]),
        to_offset=lowest(rows.to_offset, bounds["to"]),
    )


def _bound(item: Filter, value: int, lower: list[int], upper: list[int]) -> None:
    """Add a comparison as a half-open bound; one too wide is allowed, Spark filters again."""
    if isinstance(item, GreaterThan | GreaterThanOrEqual | EqualTo):
        lower.append(value)
    if isinstance(item, LessThan | LessThanOrEqual | EqualTo):
        upper.append(value + 1)
