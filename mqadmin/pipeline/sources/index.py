"""``rocketmq-index``: IndexFiles as a table.

::

    spark.read.format("rocketmq-index").option("files", "true").load("/data/store")

Options: ``columns``, ``files``. The rows are the index entries; with ``files`` there is one row per
file with its header, load and longest chain.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from broker.errors import RemoteProtocolError
from broker.store.format.indexfile import (
    ENTRY_SIZE,
    IndexHeader,
    decode_header,
    entry_position,
    probe_slot_count,
)
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.files import open_bytes
from mqadmin.pipeline.sources.options import Options, option_true
from mqadmin.pipeline.sources.partitions.splits import store_label
from mqadmin.pipeline.sources.partitions.table import (
    ColumnTypes,
    Rows,
    TableFormat,
    TableSource,
    TableTask,
)

NAME: Final = "rocketmq-index"
ENTRY_TYPES: Final = {
    "file": "string",
    "entry": "int",
    "slot": "int",
    "key_hash": "int",
    "physical_offset": "bigint",
    "store_time": "timestamp",
    "previous_entry": "int",
    "store": "string",
}
FILE_TYPES: Final = {
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
ENTRIES_PER_BATCH: Final = 1 << 16


class IndexSource(TableSource):
    """The data source ``rocketmq-index``."""

    SOURCE = NAME

    def table_format(self) -> TableFormat:
        """Return the reader of the files."""
        return IndexFormat(one_row_per_file=option_true(self.options, "files"))

    def column_types(self) -> ColumnTypes:
        """Return the Spark type of each column, as selected by the options."""
        return FILE_TYPES if option_true(self.options, "files") else ENTRY_TYPES


class IndexFormat:
    """Reads IndexFiles, one per task. Files that are not valid IndexFiles have no rows."""

    def __init__(self, *, one_row_per_file: bool) -> None:
        self.one_row_per_file = one_row_per_file

    def tasks(self, paths: list[str], options: Options) -> Iterator[TableTask]:
        """Return one task per file."""
        for path in paths:
            directory = StoreDirectory(path)
            store = store_label(directory)
            yield from (TableTask([(store, str(file))]) for file in directory.index_files())

    def rows(self, store: str, item: str) -> Iterator[Rows]:
        """Return the entries of a file, or its one row."""
        index = read_index_file(Path(item))
        if index is None:
            return
        header, slots, capacity, entries = index
        if self.one_row_per_file:
            used, longest = chain_statistics(entries, slots)
            yield (
                {
                    "file": item,
                    "begin_time": header.begin_timestamp * 1000,
                    "end_time": header.end_timestamp * 1000,
                    "begin_physical_offset": header.begin_physical_offset,
                    "end_physical_offset": header.end_physical_offset,
                    "entries": len(entries),
                    "entries_most": capacity,
                    "slots": slots,
                    "slots_used": used,
                    "longest_chain": longest,
                },
                1,
            )
            return
        for begin in range(0, len(entries), ENTRIES_PER_BATCH):
            part = entries[begin : begin + ENTRIES_PER_BATCH]
            columns = {
                "file": item,
                "entry": np.arange(begin + 1, begin + 1 + len(part), dtype=np.int64),
                "slot": part[:, 0] % slots,
                "key_hash": part[:, 0].copy(),
                "physical_offset": part[:, 1].copy(),
                "store_time": header.begin_timestamp * 1000 + part[:, 2] * 1_000_000,
                "previous_entry": part[:, 3].copy(),
            }
            yield columns, len(part)


def read_index_file(path: Path) -> tuple[IndexHeader, int, int, NDArray[np.int64]] | None:
    """Return header, slots, entry capacity and entries of an IndexFile.

    An entry is (key hash, physical offset, seconds since the header's begin time, previous entry).
    None for a file that is not an IndexFile or has no entries. StoreError if it cannot be read.
    """
    with open_bytes(path) as file:
        try:
            header = decode_header(file.data)
        except RemoteProtocolError:
            return None
        slots = probe_slot_count(file.data) if header.index_count > 1 else 0
        if not slots:
            return None
        start = entry_position(1, slots)
        capacity = (len(file) - start) // ENTRY_SIZE
        entry_type = np.dtype([("h", ">i4"), ("p", ">i8"), ("t", ">i4"), ("b", ">i4")])
        count = min(header.index_count - 1, capacity)
        raw = np.frombuffer(file.data, dtype=entry_type, count=count, offset=start)
        entries = np.stack([raw[name].astype(np.int64) for name in "hptb"], axis=1)
        del raw  # it refers to the mapped file, which is closed here
    return header, slots, capacity, entries


def chain_statistics(entries: NDArray[np.int64], slots: int) -> tuple[int, int]:
    """Return the number of used slots and the length of the longest chain."""
    if not len(entries):
        return 0, 0
    _, lengths = np.unique(entries[:, 0] % slots, return_counts=True)
    return len(lengths), int(lengths.max())
