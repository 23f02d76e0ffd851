"""``rocketmq-store``: CommitLog files as a table, for any Spark session.

::

    spark.read.format("rocketmq-store").load("/data/store").where("topic = 'orders'")

Options (all text; what Spark pushes down narrows the same way):

==================  ============================================================================
``path``, ``paths``  store directories, commitlog folders, globs or single files
``columns``          comma list of columns: only these are decoded (Spark itself never prunes)
``topic``            comma list of topics
``since``, ``until`` store time, RFC 3339 or epoch ms; ``until`` is exclusive
``offset.from``      first physical offset; ``offset.to`` the end, exclusive
``damages``          ``true``: a row for each damage too (column ``damage`` says what)
``crc``              ``true``: check every body, also when ``crc_ok`` is not read
``splitBytes``       bytes per split, default 128 MiB or a quarter of a core's share
``rows``             rows per Arrow batch, default 8192
==================  ============================================================================

Theory of operation: the driver lists files and cuts them at multiples of the split size, anywhere
in a record. A worker owns the records that *start* in its split: it looks for the first one by
magic code and own physical offset, and reads the last one to its end. So any way of cutting gives
the same rows. Filters drop rows before anything is copied out of the file.
"""

import gc
import glob
import json
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
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

from broker.common.clock import SystemClock
from broker.common.times import parse_time
from broker.errors import ConfigError, StoreError
from mqadmin.inspector.directory import StoreDirectory

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray
    from pyspark.sql import SparkSession

    from broker.store.format.columns import ScanBatch

NAME: Final = "rocketmq-store"
SPLIT_BYTES: Final = 128 << 20  # a task costs tens of ms: smaller splits are all overhead
SPLITS_PER_CORE: Final = 4

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


@dataclass
class Split(InputPartition):
    """The records that start in ``[start, end)`` of one file; positions within the file."""

    path: str
    base: int
    start: int
    end: int
    store: str

    def __init__(self, path: str, base: int, start: int, end: int, store: str) -> None:
        super().__init__(0)
        self.path, self.base, self.start, self.end, self.store = path, base, start, end, store


@dataclass(frozen=True)
class Wanted:
    """Which rows are wanted; None everywhere means all. Times in ms, ``until`` exclusive."""

    topics: frozenset[str] | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None

    def selects(self) -> bool:
        """Whether any row can be dropped."""
        return any(
            value is not None
            for value in (
                *(self.topics, self.since_ms, self.until_ms),
                *(self.from_offset, self.to_offset),
            )
        )

    def rows(self, batch: "ScanBatch", buf: Any) -> "NDArray[Any]":
        """Row numbers of a scan batch that are wanted."""
        import numpy as np

        keep = np.ones(batch.count, dtype=bool)
        times = batch.column("store_timestamp")
        offsets = batch.physical_offset
        if self.since_ms is not None:
            keep &= times >= self.since_ms
        if self.until_ms is not None:
            keep &= times < self.until_ms
        if self.from_offset is not None:
            keep &= offsets >= self.from_offset
        if self.to_offset is not None:
            keep &= offsets < self.to_offset
        if self.topics is not None:
            keep &= topic_mask(batch, buf, self.topics)
        return np.flatnonzero(keep)


def topic_mask(batch: "ScanBatch", buf: Any, topics: frozenset[str]) -> "NDArray[Any]":
    """Which rows of a batch belong to one of the topics; compared as bytes, length first."""
    import numpy as np

    view = np.frombuffer(buf, dtype=np.uint8)
    starts, lengths = batch.column("topic_at"), batch.column("topic_length")
    found = np.zeros(batch.count, dtype=bool)
    for topic in topics:
        name = np.frombuffer(topic.encode(), dtype=np.uint8)
        rows = np.flatnonzero(lengths == len(name))
        if len(rows) and len(name):
            same = (view[starts[rows][:, None] + np.arange(len(name))] == name).all(axis=1)
            found[rows[same]] = True
    return found


def option_paths(options: dict[str, str]) -> list[str]:
    """The paths of a read: ``path`` and ``paths`` (a JSON list), globs expanded. ConfigError."""
    given: list[str] = []
    if options.get("path"):
        given.append(options["path"])
    if options.get("paths"):
        given += json.loads(options["paths"])
    if not given:
        raise ConfigError(f"{NAME}: no path", 'spark.read.format("rocketmq-store").load(DIR)')
    found = []
    for path in given:
        plain = path.removeprefix("file://")
        matches = sorted(glob.glob(plain)) if glob.has_magic(plain) else [plain]
        if not matches:
            raise ConfigError(f"{NAME}: nothing matches {path}")
        found += matches
    return found


def option_time(options: dict[str, str], name: str) -> int | None:
    """A time option in ms. ConfigError if it is none."""
    text = options.get(name)
    return None if text is None else parse_time(text, SystemClock().now_ms())[0]


def option_true(options: dict[str, str], name: str) -> bool:
    """A switch option."""
    return options.get(name, "false").lower() in ("true", "1", "yes")


class StoreSource(DataSource):
    """The data source ``rocketmq-store``."""

    @classmethod
    def name(cls) -> str:
        """Its name in ``format(...)``."""
        return NAME

    def schema(self) -> str:
        """The columns asked for, or all but ``damage``; ConfigError for an unknown one."""
        return ", ".join(f"{name} {COLUMN_TYPES[name]}" for name in self._columns())

    def _columns(self) -> list[str]:
        text = self.options.get("columns")
        if not text:
            with_damages = option_true(dict(self.options), "damages")
            return [name for name in COLUMN_TYPES if name != "damage" or with_damages]
        names = [name.strip() for name in text.split(",") if name.strip()]
        for name in names:
            if name not in COLUMN_TYPES:
                raise ConfigError(
                    f"{NAME}: no column {name!r}", f"there are {', '.join(COLUMN_TYPES)}"
                )
        return names

    def reader(self, schema: StructType) -> "StoreReader":
        """A batch reader; one that takes filters from Spark where the session allows that."""
        options = dict(self.options)
        if option_true(options, "pushdown"):
            return FilteringReader(schema, options)
        return StoreReader(schema, options)

    def streamReader(self, schema: StructType) -> Any:
        """A streaming reader that follows the logs."""
        from mqadmin.pipeline.stream import StoreStreamReader

        return StoreStreamReader(schema, dict(self.options))


class StoreReader(DataSourceReader):
    """Plans splits on the driver and reads one on a worker."""

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self.names = list(schema.names)
        self.options = {name.lower(): value for name, value in options.items()}
        topics = self.options.get("topic")
        self.wanted = Wanted(
            topics=frozenset(topics.split(",")) if topics else None,
            since_ms=option_time(self.options, "since"),
            until_ms=option_time(self.options, "until"),
            from_offset=int(self.options["offset.from"]) if "offset.from" in self.options else None,
            to_offset=int(self.options["offset.to"]) if "offset.to" in self.options else None,
        )

    def partitions(self) -> list[InputPartition]:
        """The splits of every file that can hold wanted rows."""
        files = []
        for path in option_paths(self.options):
            directory = StoreDirectory(path)
            store = str(directory.root or directory.path)
            for file in directory.log_files():
                if self._may_hold(file.start, file.length):
                    files.append((file, store))
        size = self._split_bytes(sum(file.length for file, _ in files))
        splits: list[InputPartition] = []
        for file, store in files:
            for start in range(0, file.length, size):
                end = min(start + size, file.length)
                splits.append(Split(str(file.path), file.start, start, end, store))
        return splits

    def _may_hold(self, start: int, length: int) -> bool:
        wanted = self.wanted
        return (wanted.to_offset is None or start < wanted.to_offset) and (
            wanted.from_offset is None or start + length > wanted.from_offset
        )

    def _split_bytes(self, total: int) -> int:
        given = self.options.get("splitbytes")
        if given:
            return max(int(given), 1)
        cores = os.cpu_count() or 1
        return max(SPLIT_BYTES, total // (SPLITS_PER_CORE * cores))

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Arrow batches of one split. StoreError naming the file if it cannot be read."""
        if isinstance(partition, Split):  # without splits Spark asks for an empty one
            settle()
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
        elif column == "store_time" and hasattr(value, "timestamp"):
            _bound(item, int(value.timestamp() * 1000), bounds["since"], bounds["until"])
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


_settled = False


def settle() -> None:
    """Once per worker process: keep what is loaded out of the collections after every task."""
    global _settled
    if not _settled:
        from mqadmin.inspector import arrow  # noqa: F401 - loads what the tasks need

        gc.collect()
        gc.freeze()
        _settled = True


def map_file(path: str) -> Any:
    """A file as a read-only map, None if it is empty. StoreError naming it if it cannot be read."""
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else None
    except OSError as error:
        raise StoreError(
            f"cannot read {path}: {error.strerror}",
            "store directories must be readable under the same path on every worker",
            path=path,
        ) from error


def read_split(
    split: Split, names: list[str], wanted: Wanted, options: dict[str, str]
) -> Iterator["pa.RecordBatch"]:
    """Arrow batches of the wanted rows of one split."""
    from broker.store.format.columns import ROWS
    from mqadmin.inspector.arrow import BatchMaker, file_batches

    view = map_file(split.path)
    if view is None:
        return
    keep = (lambda batch: wanted.rows(batch, view)) if wanted.selects() else None
    maker = BatchMaker(view, names, store=split.store, keep=keep)
    yield from file_batches(
        view,
        split.base,
        maker,
        start=split.start,
        end=min(split.end, len(view)),
        check_crc=option_true(options, "crc") or option_true(options, "damages"),
        damages=option_true(options, "damages"),
        rows=int(options.get("rows", ROWS)),
    )


def register(session: "SparkSession") -> None:
    """Make our sources known to a session."""
    session.dataSource.register(StoreSource)


def store_name(path: str) -> str:
    """The store directory a path belongs to, as the column ``store`` shows it."""
    directory = StoreDirectory(Path(path))
    return str(directory.root or directory.path)
