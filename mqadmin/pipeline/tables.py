"""The other files of a store as tables.

::

    spark.read.format("rocketmq-queue").option("topic", "orders").load("/data/store")
    spark.read.format("rocketmq-index").option("files", "true").load("/data/store")
    spark.read.format("rocketmq-offsets").load("/backup/offsets/*.json")

``rocketmq-queue`` (options ``topic``, ``columns``): the units of ConsumeQueues, without fillers, up
to the last one written; a unit that leads back in the log ends its queue, as in
``store inspect --kind consumequeue``.

``rocketmq-index`` (options ``files``, ``columns``): the entries of IndexFiles, or with ``files``
one row per file: its header, its load, its chains.

``rocketmq-offsets`` (options ``columns``, ``optional``): consumer offsets; a path is a store
directory or a copy of consumerOffset.json. Stores without that file are passed as long as another
path has offsets, with ``optional`` always. ``snapshot_time`` is what the file's name says
(``consumerOffset-20260102T030405Z.json``, or 10 or 13 digits), else the file's time of change.
"""

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from broker.errors import ConfigError, RemoteProtocolError, StoreError
from broker.store.format import config, state
from mqadmin.inspector.directory import QueueFiles, StoreDirectory
from mqadmin.inspector.files import open_bytes, read_all
from mqadmin.pipeline.failure import noted
from mqadmin.pipeline.options import (
    check_columns,
    lower_names,
    option_columns,
    option_paths,
    option_true,
)
from mqadmin.pipeline.splits import settle, store_label

if TYPE_CHECKING:
    import pyarrow as pa

QUEUE: Final = "rocketmq-queue"
INDEX: Final = "rocketmq-index"
OFFSETS: Final = "rocketmq-offsets"

QUEUE_TYPES: Final = {
    "topic": "string",
    "queue_id": "int",
    "queue_offset": "bigint",
    "physical_offset": "bigint",
    "size": "int",
    "tags_code": "bigint",
    "batch_size": "int",
    "kind": "string",
    "store": "string",
}
INDEX_TYPES: Final = {
    "file": "string",
    "entry": "int",
    "slot": "int",
    "key_hash": "int",
    "physical_offset": "bigint",
    "store_time": "timestamp",
    "previous_entry": "int",
    "store": "string",
}
INDEX_FILE_TYPES: Final = {
    "file": "string",
    "begin_time": "timestamp",
    "end_time": "timestamp",
    "begin_physical_offset": "bigint",
    "end_physical_offset": "bigint",
    "entries": "int",
    "entries_most": "int",
    "slots": "int",
    "slots_used": "int",
    "longest_chain": "int",
    "store": "string",
}
OFFSETS_TYPES: Final = {
    "topic": "string",
    "group": "string",
    "queue_id": "int",
    "consumer_offset": "bigint",
    "snapshot_time": "timestamp",
    "file": "string",
    "store": "string",
}

_ARROW: Final = {
    "string": ("string",),
    "int": ("int32",),
    "bigint": ("int64",),
    "double": ("float64",),
    "timestamp": ("timestamp", "us", "UTC"),
}

# Queues of one task: few enough tasks that their cost does not count, many enough for all cores.
QUEUE_TASKS: Final = 32


class TableSource(DataSource):
    """What the three sources share: columns by option, paths, a reader per source."""

    title = ""
    types: dict[str, str] = {}  # noqa: RUF012 - a table of the class

    @classmethod
    def name(cls) -> str:
        """Its name in ``format(...)``."""
        return cls.title

    def columns(self) -> dict[str, str]:
        """Name and type of each column that there is."""
        return self.types

    def schema(self) -> str:
        """The columns asked for, or all; ConfigError for an unknown one."""
        types = self.columns()
        names = option_columns(self.options, tuple(types), self.title) or list(types)
        return ", ".join(f"`{name}` {types[name]}" for name in names)


class TableReader(DataSourceReader):
    """What the readers share: each plans its :meth:`work` and gives the :meth:`rows` of it."""

    def __init__(
        self, schema: StructType, options: dict[str, str], types: dict[str, str], source: str
    ) -> None:
        self.names = list(schema.names)
        self.types = types
        self.options = lower_names(options)
        with noted():
            check_columns(self.names, tuple(types), source)
            self.paths = option_paths(self.options, source)

    def work(self) -> Iterator["Work"]:
        """What the tasks are to read. StoreError for a path that is not there."""
        raise NotImplementedError

    def rows(self, work: "Work") -> Iterator["pa.RecordBatch"]:
        """Arrow batches of one task. StoreError for a file that cannot be read."""
        raise NotImplementedError

    def partitions(self) -> list[InputPartition]:
        """The tasks."""
        with noted():
            return [*self.work()]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Arrow batches of one task."""
        if isinstance(partition, Work):  # without tasks Spark asks for an empty one
            settle()
            with noted():
                yield from self.rows(partition)

    def batch(self, columns: dict[str, Any], count: int) -> "pa.RecordBatch":
        """Columns (arrays, lists or one value for all rows) as an Arrow batch."""
        import pyarrow as pa

        arrays = []
        fields = []
        for name in self.names:
            word, *rest = _ARROW[self.types[name]]
            kind = getattr(pa, word)(*rest)
            value = columns[name]
            if value is None or isinstance(value, str | int):
                value = [value] * count
            array = pa.array(value)
            arrays.append(array if array.type == kind else array.cast(kind))
            fields.append(pa.field(name, kind))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


class Work(InputPartition):
    """What one task reads: (store, thing) pairs."""

    def __init__(self, items: list[tuple[str, Any]]) -> None:
        super().__init__(0)
        self.items = items


# ---- ConsumeQueues


class QueueSource(TableSource):
    """The data source ``rocketmq-queue``."""

    title = QUEUE
    types = QUEUE_TYPES

    def reader(self, schema: StructType) -> "QueueReader":
        """A batch reader."""
        return QueueReader(schema, dict(self.options), self.types, self.title)


class QueueReader(TableReader):
    """Reads queues; a task takes several, each whole."""

    def work(self) -> Iterator[Work]:
        """Tasks of about the same number of bytes."""
        topics = self.options.get("topic")
        wanted = {name.strip() for name in topics.split(",")} if topics else None
        found: list[tuple[int, str, QueueFiles]] = []
        for path in self.paths:
            directory = StoreDirectory(path)
            store = store_label(directory)
            for queue in directory.queue_files():
                if wanted is None or queue.topic in wanted:
                    size = sum(file.stat().st_size for file, _ in queue.files)
                    found.append((size, store, queue))
        tasks: list[list[tuple[str, Any]]] = [[] for _ in range(min(QUEUE_TASKS, len(found)))]
        loads = [0] * len(tasks)
        for size, store, queue in sorted(found, key=lambda item: -item[0]):
            least = loads.index(min(loads))
            tasks[least].append((store, queue))
            loads[least] += size + 1
        yield from (Work(items) for items in tasks)

    def rows(self, work: Work) -> Iterator["pa.RecordBatch"]:
        """A batch per file."""
        for store, queue in work.items:
            last = -1
            for path, start in queue.files:
                columns, count, ended = queue_columns(queue, path, start, last)
                if count:
                    last = int(columns["physical_offset"][-1])
                    common = {
                        "topic": queue.topic,
                        "queue_id": queue.queue_id,
                        "kind": queue.kind,
                        "store": store,
                    }
                    yield self.batch({**columns, **common}, count)
                if ended:
                    break


def queue_columns(
    queue: QueueFiles, path: Path, start: int, last: int
) -> tuple[dict[str, Any], int, bool]:
    """Columns of one ConsumeQueue file, how many rows, and whether the queue ends in it.

    ``last`` is the physical offset of the last unit of the file before.
    """
    import numpy as np

    from broker.store.format.consumequeue import (
        PRE_BLANK_SIZE,
        UNIT_SIZE,
        BatchConsumeQueueUnit,
        scan_batch_units,
    )

    names = ("queue_offset", "physical_offset", "size", "tags_code")
    with open_bytes(path) as file:
        if queue.kind == "batch":
            units = [
                (unit.base_offset, unit.physical_offset, unit.size, unit.tags_code, unit.batch_size)
                for unit in scan_batch_units(file.data, start)
                if isinstance(unit, BatchConsumeQueueUnit)
            ]
            table = np.array(units, dtype=np.int64).reshape(-1, 5)
        else:
            kind = np.dtype([("physical", ">i8"), ("size", ">i4"), ("tags", ">i8")])
            raw = np.frombuffer(file.data, dtype=kind, count=len(file) // UNIT_SIZE)
            rows = np.flatnonzero((raw["size"] > 0) & (raw["size"] != PRE_BLANK_SIZE))
            table = np.stack(
                [rows + start // UNIT_SIZE, *(raw[name][rows] for name in kind.names or ())], axis=1
            ).astype(np.int64)
            del raw
    back = np.flatnonzero(np.diff(table[:, 1], prepend=last) <= 0)
    if len(back):
        table = table[: back[0]]
    columns: dict[str, Any] = {name: table[:, at].copy() for at, name in enumerate(names)}
    columns["batch_size"] = table[:, 4].copy() if queue.kind == "batch" else None
    return columns, len(table), bool(len(back))


# ---- IndexFiles


class IndexSource(TableSource):
    """The data source ``rocketmq-index``."""

    title = INDEX

    def columns(self) -> dict[str, str]:
        """Those of entries, or those of files."""
        return INDEX_FILE_TYPES if option_true(self.options, "files") else INDEX_TYPES

    def reader(self, schema: StructType) -> "IndexReader":
        """A batch reader."""
        return IndexReader(schema, dict(self.options), self.columns(), self.title)


class IndexReader(TableReader):
    """Reads IndexFiles, one per task."""

    def work(self) -> Iterator[Work]:
        """A task per file."""
        for path in self.paths:
            directory = StoreDirectory(path)
            store = store_label(directory)
            yield from (Work([(store, str(file))]) for file in directory.index_files())

    def rows(self, work: Work) -> Iterator["pa.RecordBatch"]:
        """The entries of a file in parts, or its one row. A file that is no index has no rows."""
        for store, path in work.items:
            if option_true(self.options, "files"):
                yield from self._file(store, Path(path))
            else:
                yield from self._entries(store, Path(path))

    def _entries(self, store: str, path: Path) -> Iterator["pa.RecordBatch"]:
        index = index_columns(path)
        if index is None:
            return
        header, slots, _, entries = index
        for begin in range(0, len(entries), 1 << 16):
            part = entries[begin : begin + (1 << 16)]
            times = header.begin_timestamp * 1000 + part[:, 2] * 1_000_000
            columns = {
                "file": str(path),
                "entry": _numbers(begin + 1, len(part)),
                "slot": part[:, 0] % slots,
                "key_hash": part[:, 0].copy(),
                "physical_offset": part[:, 1].copy(),
                "store_time": times,
                "previous_entry": part[:, 3].copy(),
                "store": store,
            }
            yield self.batch(columns, len(part))

    def _file(self, store: str, path: Path) -> Iterator["pa.RecordBatch"]:
        index = index_columns(path)
        if index is None:
            return
        header, slots, most, entries = index
        used, longest = chain_figures(entries, slots)
        columns = {
            "file": str(path),
            "begin_time": header.begin_timestamp * 1000,
            "end_time": header.end_timestamp * 1000,
            "begin_physical_offset": header.begin_physical_offset,
            "end_physical_offset": header.end_physical_offset,
            "entries": len(entries),
            "entries_most": most,
            "slots": slots,
            "slots_used": used,
            "longest_chain": longest,
            "store": store,
        }
        yield self.batch(columns, 1)


def _numbers(first: int, count: int) -> Any:
    import numpy as np

    return np.arange(first, first + count, dtype=np.int64)


def index_columns(path: Path) -> tuple[Any, int, int, Any] | None:
    """Header, slots, room for entries, and entries (hash, physical offset, seconds, previous).

    None for a file that is no IndexFile or holds nothing. StoreError if it cannot be read.
    """
    import numpy as np

    from broker.store.format.indexfile import (
        ENTRY_SIZE,
        decode_header,
        entry_position,
        guess_slots,
    )

    with open_bytes(path) as file:
        try:
            header = decode_header(file.data)
        except RemoteProtocolError:
            return None
        slots = guess_slots(file.data) if header.index_count > 1 else 0
        if not slots:
            return None
        start = entry_position(1, slots)
        room = (len(file) - start) // ENTRY_SIZE
        kind = np.dtype([("h", ">i4"), ("p", ">i8"), ("t", ">i4"), ("b", ">i4")])
        count = min(header.index_count - 1, room)
        raw = np.frombuffer(file.data, dtype=kind, count=count, offset=start)
        entries = np.stack([raw[name].astype(np.int64) for name in "hptb"], axis=1)
        del raw
    return header, slots, room, entries


def chain_figures(entries: Any, slots: int) -> tuple[int, int]:
    """How many slots are in use, and how long the longest chain is."""
    import numpy as np

    if not len(entries):
        return 0, 0
    _, lengths = np.unique(entries[:, 0] % slots, return_counts=True)
    return len(lengths), int(lengths.max())


# ---- consumer offsets


class OffsetsSource(TableSource):
    """The data source ``rocketmq-offsets``."""

    title = OFFSETS
    types = OFFSETS_TYPES

    def reader(self, schema: StructType) -> "OffsetsReader":
        """A batch reader."""
        return OffsetsReader(schema, dict(self.options), self.types, self.title)


class OffsetsReader(TableReader):
    """Reads files of consumer offsets, one per task."""

    def work(self) -> Iterator[Work]:
        """A task per snapshot. ConfigError if no path holds one, unless that is ``optional``."""
        found = [Work([(str(file), store)]) for file, store in self._files()]
        if not found and not option_true(self.options, "optional"):
            raise ConfigError(
                f"{OFFSETS}: {self.paths[0]} holds no {config.CONSUMER_OFFSET}",
                "name files of it: copies that were taken of config/consumerOffset.json",
            )
        yield from found

    def _files(self) -> Iterator[tuple[Path, str]]:
        for name in self.paths:
            path = Path(name)
            if path.is_file():
                yield path, ""
                continue
            directory = StoreDirectory(path)
            file = (directory.root or path) / state.CONFIG_DIR / config.CONSUMER_OFFSET
            backup = file.with_name(file.name + ".bak")
            if file.exists() or backup.exists():
                yield file, store_label(directory)

    def rows(self, work: Work) -> Iterator["pa.RecordBatch"]:
        """One batch per snapshot."""
        for name, store in work.items:
            path, offsets = read_offsets(Path(name))
            rows = [
                (topic, group, queue_id, offset)
                for (topic, group), queues in sorted(offsets.items())
                for queue_id, offset in sorted(queues.items())
            ]
            if not rows:
                continue
            topics, groups, queue_ids, values = zip(*rows, strict=True)
            columns = {
                "topic": list(topics),
                "group": list(groups),
                "queue_id": list(queue_ids),
                "consumer_offset": list(values),
                "snapshot_time": snapshot_time_ms(path) * 1000,
                "file": str(path),
                "store": store,
            }
            yield self.batch(columns, len(rows))


def read_offsets(path: Path) -> tuple[Path, dict[tuple[str, str], dict[int, int]]]:
    """(topic, group) -> queue id -> consumer offset; from the backup where the file is broken."""
    problem = f"cannot read {path}: no such file"
    for file in (path, path.with_name(path.name + ".bak")):
        try:
            data = read_all(file)
            if data is None:
                continue
            found = config.decode_consumer_offset(data)
        except (RemoteProtocolError, StoreError) as error:
            problem = f"{file}: {error.message}"
            continue
        return file, {
            config.split_topic_group(key): dict(queues) for key, queues in found.offsets.items()
        }
    raise StoreError(problem, "a copy of consumerOffset.json is wanted", path=str(path))


_DAY: Final = r"(20\d\d)-?(\d\d)-?(\d\d)"
_TIME: Final = r"(?:[T_ -]?(\d\d)[:.-]?(\d\d)(?:[:.-]?(\d\d))?)?"
_CALENDAR: Final = re.compile(_DAY + _TIME)
_EPOCH: Final = re.compile(r"(?<!\d)(\d{13}|\d{10})(?!\d)")


def snapshot_time_ms(path: Path) -> int:
    """When a snapshot was taken: what its name says (UTC), else the file's time of change."""
    epoch = _EPOCH.search(path.name)
    if epoch is not None:
        return int(epoch[1]) * (1000 if len(epoch[1]) == 10 else 1)
    found = _CALENDAR.search(path.name)
    if found is not None:
        try:
            parts = [int(part or 0) for part in found.groups()]
            moment = datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]
            return int(moment.timestamp()) * 1000
        except ValueError:
            pass
    return os.stat(path).st_mtime_ns // 1_000_000
