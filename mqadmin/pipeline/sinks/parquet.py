"""Parquet files of one split, by day and topic, written by the task that decodes the messages.

::

    OUT/dt=2026-01-02/topic=orders/<store>-<physical offset>.parquet

The name of a file depends only on its split, and a file is renamed to it when it is complete: a
task that runs twice replaces its files by equal ones. After all files of a split, its record is
written: ``OUT/_export/splits/<store>-<physical offset>.json``.
"""

import hashlib
import os
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from broker.store.format.vectorized.columns import ScanBatch
from mqadmin.inspector.export.arrow import BatchMaker
from mqadmin.pipeline.sinks.atomic_file import write_atomically
from mqadmin.pipeline.sources.options import Options, RowFilter, option_true
from mqadmin.pipeline.sources.partitions.split_reader import (
    has_blank_before,
    has_successor,
    is_blank_at,
    map_file,
    matching_rows,
    split_batches,
)
from mqadmin.pipeline.sources.partitions.splits import Split

SPLITS: Final = "_export/splits"
ROW_GROUP_ROWS: Final = 131_072
# Buffered bytes of a task above which the file with the largest buffer writes a row group.
MAX_BUFFERED_BYTES: Final = 96 << 20
SCAN_ROWS: Final = 32_768
SYNC_THREADS: Final = 4
# Bodies of one topic resemble each other: large pages compress faster and better.
PAGE_BYTES: Final = 4 << 20
DAY_MS: Final = 86_400_000

# Columns with few distinct values, written with a dictionary.
DICTIONARY_COLUMNS: Final = ("tags", "born_host", "store_host", "store")

# Characters that Hive and Spark escape as %XX in partition values.
ESCAPED: Final = frozenset("\"#%'*/:=?\\{[]^\x7f") | frozenset(map(chr, range(1, 32)))
NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"


class WrittenFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One Parquet file: path relative to the export, day, topic, messages, log bytes, file size."""

    path: str
    dt: str
    topic: str
    messages: int
    bytes: int
    file_bytes: int


class SplitRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of one split, stored as JSON.

    ``start`` and ``end`` are its physical offsets, ``reached`` is the physical offset up to which
    it was read. ``complete``: the log cannot add messages to it any more. ``damages`` counts the
    skipped damaged regions, ``first_damage`` describes the first one.
    """

    name: str
    store: str
    start: int
    end: int
    reached: int
    complete: bool
    files: list[WrittenFile]
    damages: int = 0
    first_damage: str | None = None


def store_key(store: str) -> str:
    """Return eight hex digits that identify a store directory in file names."""
    return hashlib.sha256(os.path.realpath(store).encode()).hexdigest()[:8]


def split_name(split: Split) -> str:
    """Return the name of a split's files, without suffix."""
    return f"{store_key(split.store)}-{split.physical_offset:020d}"


def escape_partition_value(value: str) -> str:
    """Escape a partition value for a path by the rules of Spark."""
    if not value:
        return NULL_PARTITION
    return "".join(f"%{ord(char):02X}" if char in ESCAPED else char for char in value)


def read_record(out: Path, name: str) -> SplitRecord | None:
    """Return the record of a split, None if it is missing or incomplete."""
    try:
        data = (out / SPLITS / f"{name}.json").read_bytes()
        return msgspec.json.decode(data, type=SplitRecord)
    except (OSError, msgspec.DecodeError):
        return None


class PartitionFile:
    """The file of one day and topic: buffered batches, and a writer after the first row group."""

    def __init__(self, out: Path, key: tuple[str, str], name: str, schema: pa.Schema) -> None:
        self.dt, self.topic = key
        self.schema = schema
        self.relative = f"dt={self.dt}/topic={escape_partition_value(self.topic)}/{name}.parquet"
        self.path = out / self.relative
        self.temporary = self.path.with_name(f".{name}.{uuid.uuid4().hex}.tmp")
        self.buffered: list[pa.RecordBatch] = []
        self.buffered_bytes = self.buffered_rows = 0
        self.messages = self.bytes = 0
        self._writer: Any = None

    def append(self, batch: pa.RecordBatch) -> int:
        """Buffer a batch; return its bytes."""
        size = int(batch.nbytes)
        self.buffered.append(batch)
        self.buffered_bytes += size
        self.buffered_rows += batch.num_rows
        return size

    def flush(self) -> int:
        """Write the buffered batches as row groups; return their bytes."""
        if self._writer is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(
                self.temporary,
                self.schema,
                compression="zstd",
                compression_level=1,
                data_page_size=PAGE_BYTES,
                use_dictionary=[name for name in DICTIONARY_COLUMNS if name in self.schema.names],
            )
        if self.buffered:
            table = pa.Table.from_batches(self.buffered, schema=self.schema)
            self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS)
        size = self.buffered_bytes
        self.buffered, self.buffered_bytes, self.buffered_rows = [], 0, 0
        return size

    def close(self) -> None:
        """Write the remaining batches and close the temporary file."""
        self.flush()
        self._writer.close()

    def sync(self) -> None:
        """Flush the temporary file to disk."""
        with open(self.temporary, "rb+") as file:
            os.fsync(file.fileno())

    def finish(self) -> WrittenFile:
        """Rename the temporary file to its final name."""
        size = self.temporary.stat().st_size
        os.replace(self.temporary, self.path)
        return WrittenFile(
            path=self.relative,
            dt=self.dt,
            topic=self.topic,
            messages=self.messages,
            bytes=self.bytes,
            file_bytes=size,
        )

    def discard(self) -> None:
        """Remove the temporary file."""
        if self._writer is not None:
            self._writer.close()
        self.temporary.unlink(missing_ok=True)


class SplitWriter:
    """Writes the selected messages of one split below ``out``."""

    def __init__(self, split: Split, out: Path, names: list[str]) -> None:
        self.split = split
        self.out = out
        self.name = split_name(split)
        # All rows of a file have the topic of its path.
        self.names = [name for name in names if name not in ("topic", "damage")]
        self.files: dict[tuple[str, str], PartitionFile] = {}
        self.buffered_bytes = 0
        self.damages = 0
        self.first_damage: str | None = None
        self._days: dict[int, str] = {}

    def write(self, rows: RowFilter, options: Options) -> SplitRecord:
        """Write all files and the record of the split. StoreError if the log cannot be read."""
        view = map_file(self.split.path, self.split.physical_offset)
        position, torn = self.split.start, False
        try:
            if view is not None:
                position, torn = self._read(view, rows, options)
            files = self._finish_files()
        except BaseException:
            for file in self.files.values():
                file.discard()
            raise
        record = SplitRecord(
            name=self.name,
            store=self.split.store,
            start=self.split.physical_offset,
            end=self.split.end_offset,
            reached=self.split.base + position,
            complete=view is not None and not torn and self._is_complete(view, position),
            files=files,
            damages=self.damages,
            first_damage=self.first_damage,
        )
        self._store_record(record, fresh=option_true(options, "fresh"))
        return record

    def _finish_files(self) -> list[WrittenFile]:
        """Complete all files; a file is compressed while the files before it are flushed."""
        files = sorted(self.files.values(), key=lambda file: -file.buffered_bytes)
        with ThreadPoolExecutor(SYNC_THREADS) as pool:
            syncs = []
            for file in files:
                file.close()
                syncs.append(pool.submit(file.sync))
            for sync in syncs:
                sync.result()
        return [file.finish() for file in files]

    def _read(self, view: Any, rows: RowFilter, options: Options) -> tuple[int, bool]:
        """Read the split; return the end position and whether the last record is torn."""
        maker = BatchMaker(view, self.names, store=self.split.store)
        position, torn = self.split.start, False
        given = {"rows": str(SCAN_ROWS), **options}
        for batch in split_batches(self.split, view, self.names, given):
            position = batch.next_position
            torn = any(damage.at_end for damage in batch.damaged_regions)
            if torn and has_successor(self.split, len(view)):
                torn = False
            self._append(batch, maker, rows)
        return position, torn

    def _is_complete(self, view: Any, position: int) -> bool:
        """Whether the log cannot add messages to this split any more."""
        return (
            position >= self.split.end
            or is_blank_at(view, position)
            or has_blank_before(view, self.split.start + 1)
            or has_successor(self.split, len(view))
        )

    def _append(self, batch: ScanBatch, maker: BatchMaker, row_filter: RowFilter) -> None:
        for damage in batch.damaged_regions:
            if row_filter.covers(damage.physical_offset):
                self.damages += 1
                self.first_damage = self.first_damage or (
                    f"{damage.kind} at physical offset {damage.physical_offset}: {damage.detail}"
                )
        rows = matching_rows(row_filter, batch, maker.buf)
        if not len(rows):
            return
        encoded = maker.array("topic", batch, rows).dictionary_encode()
        topics = encoded.dictionary.to_pylist()
        days = batch.column("store_timestamp")[rows] // DAY_MS
        keys = days * len(topics) + encoded.indices.to_numpy()
        order = np.argsort(keys, kind="stable")
        cuts = np.flatnonzero(np.diff(keys[order])) + 1
        sizes = batch.column("total_size")[rows]
        for part in np.split(order, cuts):
            key = int(keys[part[0]])
            file = self._file(key // len(topics), topics[key % len(topics)], maker.schema)
            chosen = rows[part]
            maker.keep = lambda _, chosen=chosen: chosen
            for made in maker.make(batch):
                self.buffered_bytes += file.append(made)
                file.messages += made.num_rows
            file.bytes += int(sizes[part].sum())
            if file.buffered_rows >= ROW_GROUP_ROWS:
                self.buffered_bytes -= file.flush()
        while self.buffered_bytes > MAX_BUFFERED_BYTES:
            largest = max(self.files.values(), key=lambda one: one.buffered_bytes)
            self.buffered_bytes -= largest.flush()

    def _file(self, day: int, topic: str, schema: pa.Schema) -> PartitionFile:
        dt = self._days.get(day)
        if dt is None:
            dt = self._days[day] = datetime.fromtimestamp(day * 86400, UTC).strftime("%Y-%m-%d")
        file = self.files.get((dt, topic))
        if file is None:
            file = self.files[dt, topic] = PartitionFile(self.out, (dt, topic), self.name, schema)
        return file

    def _store_record(self, record: SplitRecord, *, fresh: bool) -> None:
        """Write the record, and remove files of an earlier run that it does not contain.

        ``fresh``: this is the first run.
        """
        kept = {file.path for file in record.files}
        earlier = read_record(self.out, self.name)
        if earlier is not None:
            stale: Iterable[str] = (file.path for file in earlier.files)
        elif fresh:
            stale = ()
        else:
            found = self.out.glob(f"dt=*/topic=*/{self.name}.parquet")
            stale = (str(path.relative_to(self.out)) for path in found)
        for path in stale:
            if path not in kept:
                (self.out / path).unlink(missing_ok=True)
        directory = self.out / SPLITS
        directory.mkdir(parents=True, exist_ok=True)
        # No sync: a record that a power cut leaves empty is invalid, and its split is rewritten.
        write_atomically(directory / f"{self.name}.json", msgspec.json.encode(record), sync=False)
