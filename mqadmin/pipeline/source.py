"""``rocketmq-store``: CommitLog files as a table, for any Spark session.

::

    spark.read.format("rocketmq-store").load("/data/store").where("topic = 'orders'")

Options (all text; what Spark pushes down narrows the same way):

==================== ==========================================================================
``path``, ``paths``  store directories, commitlog folders, globs or single files
``columns``          comma list of columns: only these are decoded (Spark itself never prunes)
``topic``            comma list of topics
``since``, ``until`` store time, RFC 3339 or epoch ms; ``until`` is exclusive
``offset.from``      first physical offset; ``offset.to`` the end, exclusive
``damages``          ``true``: a row for each damage too (column ``damage`` says what)
``crc``              ``true``: check every body, also when ``crc_ok`` is not read; ``false``:
                     do not check them for ``damages``
``splitBytes``       bytes per split, default 128 MiB or a quarter of a core's share
``rows``             rows per Arrow batch, default 8192
``pushdown``         ``true``: take filters from Spark; the session must have
                     ``spark.sql.python.filterPushdown.enabled`` on
==================== ==========================================================================

Theory of operation: the driver lists files and cuts them (``splits``). A worker maps the file and
hands Arrow batches to the engine. Filters drop rows before anything is copied out of the file;
whole files are left out by physical offset and by the store time of their first records.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
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

from mqadmin.pipeline.failure import noted
from mqadmin.pipeline.options import (
    Wanted,
    check_columns,
    lower_names,
    option_columns,
    option_paths,
    option_true,
    option_wanted,
)
from mqadmin.pipeline.splits import Split, plan, read_split, settle

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

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


class StoreSource(DataSource):
    """The data source ``rocketmq-store``."""

    @classmethod
    def name(cls) -> str:
        """Its name in ``format(...)``."""
        return NAME

    def schema(self) -> str:
        """The columns asked for, or all (``damage`` with damages only); ConfigError."""
        with noted():
            names = option_columns(self.options, tuple(COLUMN_TYPES), NAME)
        if names is None:
            with_damages = option_true(self.options, "damages")
            names = [name for name in COLUMN_TYPES if name != "damage" or with_damages]
        return ", ".join(f"{name} {COLUMN_TYPES[name]}" for name in names)

    def reader(self, schema: StructType) -> "StoreReader":
        """A batch reader; one that takes filters from Spark if the options say so."""
        options = dict(self.options)
        kind = FilteringReader if option_true(self.options, "pushdown") else StoreReader
        return kind(schema, options)

    def streamReader(self, schema: StructType) -> Any:
        """A streaming reader that follows the logs."""
        from mqadmin.pipeline.stream import StoreStreamReader

        return StoreStreamReader(schema, dict(self.options))


class StoreReader(DataSourceReader):
    """Plans splits on the driver and reads one on a worker."""

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self.names = list(schema.names)
        self.options = lower_names(options)
        with noted():
            check_columns(self.names, tuple(COLUMN_TYPES), NAME)
            self.wanted = option_wanted(self.options)
            self.paths = option_paths(self.options, NAME)

    def partitions(self) -> list[InputPartition]:
        """The splits of every file that can hold wanted rows. StoreError for a path not there."""
        with noted():
            return [*plan(self.paths, self.wanted, self.options)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Arrow batches of one split. StoreError naming the file if it cannot be read."""
        if isinstance(partition, Split):  # without splits Spark asks for an empty one
            settle()
            with noted():
                yield from read_split(partition, self.names, self.wanted, self.options)


class FilteringReader(StoreReader):
    """The reader that takes filters from Spark; for sessions that have that switched on."""

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:
        """Narrow by what we understand; Spark applies every filter itself as well."""
        self.wanted = narrowed(self.wanted, filters)
        yield from filters


def narrowed(wanted: Wanted, filters: list[Filter]) -> Wanted:
    """``wanted`` with what an AND-ed list of Spark filters adds to it."""
    topics = wanted.topics
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

    def lowest(own: int | None, more: list[int]) -> int | None:
        return max([*more, *([] if own is None else [own])], default=None)

    def highest(own: int | None, more: list[int]) -> int | None:
        return min([*more, *([] if own is None else [own])], default=None)

    return Wanted(
        topics=topics,
        since_ms=lowest(wanted.since_ms, bounds["since"]),
        until_ms=highest(wanted.until_ms, bounds["until"]),
        from_offset=lowest(wanted.from_offset, bounds["from"]),
        to_offset=highest(wanted.to_offset, bounds["to"]),
    )


def _bound(item: Filter, value: int, lower: list[int], upper: list[int]) -> None:
    """A comparison as a half-open bound; too wide by one is fine, Spark looks again."""
    if isinstance(item, GreaterThan | GreaterThanOrEqual | EqualTo):
        lower.append(value)
    if isinstance(item, LessThan | LessThanOrEqual | EqualTo):
        upper.append(value + 1)


def register(session: "SparkSession") -> None:
    """Make our sources known to a session."""
    from mqadmin.pipeline.tables import IndexSource, OffsetsSource, QueueSource
    from mqadmin.pipeline.verified import VerifySource

    for source in (StoreSource, QueueSource, IndexSource, OffsetsSource, VerifySource):
        session.dataSource.register(source)
