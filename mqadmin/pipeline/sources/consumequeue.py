"""``rocketmq-queue``: the units of ConsumeQueues as a table.

::

    spark.read.format("rocketmq-queue").option("topic", "orders").load("/data/store")

Options: ``topic`` (comma-separated), ``columns``. Filler units are omitted and the rows end at the
last written unit; a unit whose physical offset is not greater than that of the unit before ends its
queue, as in ``store inspect --kind consumequeue``.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from broker.store.format.consumequeue import (
    PRE_BLANK_SIZE,
    UNIT_SIZE,
    BatchConsumeQueueUnit,
    scan_batch_units,
)
from mqadmin.inspector.directory import QueueFiles, StoreDirectory
from mqadmin.inspector.files import open_bytes
from mqadmin.pipeline.sources.options import Options, option_topics
from mqadmin.pipeline.sources.partitions.splits import store_label
from mqadmin.pipeline.sources.partitions.table import (
    ColumnTypes,
    Rows,
    TableFormat,
    TableSource,
    TableTask,
)

NAME: Final = "rocketmq-queue"
TYPES: Final = {
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

# Few enough tasks that their overhead does not matter, many enough for all cores.
MAX_TASKS: Final = 32


class QueueSource(TableSource):
    """The data source ``rocketmq-queue``."""

    SOURCE = NAME

    def column_types(self) -> ColumnTypes:
        """Return the Spark type of each column."""
        return TYPES

    def table_format(self) -> TableFormat:
        """Return the reader of the files."""
        return QueueFormat()


class QueueFormat:
    """Reads ConsumeQueues; a task reads several queues, each of them completely."""

    def tasks(self, paths: list[str], options: Options) -> Iterator[TableTask]:
        """Return tasks of about the same number of bytes."""
        topics = option_topics(options)
        found: list[tuple[int, str, QueueFiles]] = []
        for path in paths:
            directory = StoreDirectory(path)
            store = store_label(directory)
            for queue in directory.queue_files():
                if topics is None or queue.topic in topics:
                    size = sum(file.stat().st_size for file, _ in queue.files)
                    found.append((size, store, queue))
        tasks: list[list[tuple[str, Any]]] = [[] for _ in range(min(MAX_TASKS, len(found)))]
        loads = [0] * len(tasks)
        for size, store, queue in sorted(found, key=lambda item: -item[0]):
            least = loads.index(min(loads))
            tasks[least].append((store, queue))
            loads[least] += size + 1
        yield from map(TableTask, tasks)

    def rows(self, store: str, item: QueueFiles) -> Iterator[Rows]:
        """Return the units of a queue, file by file."""
        last = -1
        for path, start in item.files:
            columns, count, ended = queue_columns(item, path, start, last)
            if count:
                last = int(columns["physical_offset"][-1])
                common = {"topic": item.topic, "queue_id": item.queue_id, "kind": item.kind}
                yield {**columns, **common}, count
            if ended:
                return


def queue_columns(
    queue: QueueFiles, path: Path, start: int, last: int
) -> tuple[dict[str, Any], int, bool]:
    """Return the columns of one ConsumeQueue file, the number of rows, whether the queue ends.

    ``start`` is the position of the file in its queue, ``last`` the physical offset of the last
    unit of the file before.
    """
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
            unit_type = np.dtype([("physical", ">i8"), ("size", ">i4"), ("tags", ">i8")])
            raw = np.frombuffer(file.data, dtype=unit_type, count=len(file) // UNIT_SIZE)
            rows = np.flatnonzero((raw["size"] > 0) & (raw["size"] != PRE_BLANK_SIZE))
            table = np.stack(
                [rows + start // UNIT_SIZE, *(raw[name][rows] for name in unit_type.names or ())],
                axis=1,
            ).astype(np.int64)
            del raw  # it refers to the mapped file, which is closed here
    not_increasing = np.flatnonzero(np.diff(table[:, 1], prepend=last) <= 0)
    if len(not_increasing):
        table = table[: not_increasing[0]]
    columns: dict[str, Any] = {name: table[:, at].copy() for at, name in enumerate(names)}
    columns["batch_size"] = table[:, 4].copy() if queue.kind == "batch" else None
    return columns, len(table), bool(len(not_increasing))
