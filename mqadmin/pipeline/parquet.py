"""Messages of one split to Parquet, by day and topic, written by the task that decodes them.

::

    OUT/dt=2026-01-02/topic=orders/<store>-<physical offset>.parquet

A file's name depends on its split alone, and it appears under that name when it is whole: a task
that runs twice replaces its files by the same ones. When all files of a split stand, its record
does: ``OUT/_export/splits/<store>-<physical offset>.json``.
"""

import hashlib
import json
import os
import uuid
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mqadmin.pipeline.options import Options, Wanted, option_true
from mqadmin.pipeline.splits import (
    Split,
    blank_at,
    blank_before,
    is_followed,
    map_file,
    split_batches,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from broker.store.format.columns import ScanBatch
    from mqadmin.inspector.arrow import BatchMaker

SPLITS: Final = "_export/splits"
ROW_GROUP: Final = 131_072
# What a task holds back before the fullest file gets a row group.
HELD_BYTES: Final = 96 << 20
SCAN_ROWS: Final = 32_768
SYNCS: Final = 4
# Bodies of one topic resemble each other: a page that holds many is quicker to pack and smaller.
PAGE_BYTES: Final = 4 << 20
DAY_MS: Final = 86_400_000

# Few different values in many rows: worth a dictionary.
DICTIONARY: Final = ("tags", "born_host", "store_host", "store")

# Characters that Hive and Spark write as %XX in the name of a partition.
ESCAPED: Final = frozenset("\"#%'*/:=?\\{[]^\x7f") | frozenset(map(chr, range(1, 32)))
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"


class WrittenFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One Parquet file: path below the export, day, topic, messages, bytes in the log, its size."""

    path: str
    dt: str
    topic: str
    messages: int
    bytes: int
    file_bytes: int


class SplitRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of one split.

    ``start`` and ``end`` are its physical offsets, ``reached`` the end of what was read;
    ``complete``: nothing can come to it any more. ``damages`` were passed.
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
    """Eight hex digits that stand for a store directory in the names of files."""
    return hashlib.sha256(os.path.realpath(store).encode()).hexdigest()[:8]


def split_name(split: Split) -> str:
    """The name of a split's files."""
    return f"{store_key(split.store)}-{split.base + split.start:020d}"


def escaped(value: str) -> str:
    """A partition value as part of a path. The same rules as Spark's."""
    if not value:
        return NO_VALUE
    return "".join(f"%{ord(char):02X}" if char in ESCAPED else char for char in value)


def read_record(out: Path, name: str) -> SplitRecord | None:
    """The record of a split, None if there is none."""
    try:
        data = (out / SPLITS / f"{name}.json").read_bytes()
        return msgspec.json.decode(data, type=SplitRecord)
    except (OSError, msgspec.DecodeError):
        return None


def write_whole(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Write a file so that it is there whole or not at all; after a power cut, with ``sync``."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    with open(temporary, "wb") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())
    os.replace(temporary, path)


class Partition:
    """The file of one day and topic: batches held back, and a writer once they are many."""

    def __init__(self, out: Path, key: tuple[str, str], name: str, schema: "pa.Schema") -> None:
        self.dt, self.topic = key
        self.schema = schema
        self.relative = f"dt={self.dt}/topic={escaped(self.topic)}/{name}.parquet"
        self.path = out / self.relative
        self.temporary = self.path.with_name(f".{name}.{uuid.uuid4().hex}.tmp")
        self.held: list[pa.RecordBatch] = []
        self.held_bytes = self.held_rows = 0
        self.messages = self.bytes = 0
        self._writer: Any = None

    def hold(self, batch: "pa.RecordBatch") -> int:
        """Take a batch; the bytes that it adds."""
        size = int(batch.nbytes)
        self.held.append(batch)
        self.held_bytes += size
        self.held_rows += batch.num_rows
        return size

    def flush(self) -> int:
        """Write what is held as a row group; its bytes."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._writer is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(
                self.temporary,
                self.schema,
                compression="zstd",
                compression_level=1,
                data_page_size=PAGE_BYTES,
                use_dictionary=[name for name in DICTIONARY if name in self.schema.names],
            )
        if self.held:
            table = pa.Table.from_batches(self.held, schema=self.schema)
            self._writer.write_table(table, row_group_size=ROW_GROUP)
        size = self.held_bytes
        self.held, self.held_bytes, self.held_rows = [], 0, 0
        return size

    def complete(self) -> None:
        """Write the rest."""
        self.flush()
        self._writer.close()

    def sync(self) -> None:
        """Wait until what was written is on the disk."""
        with open(self.temporary, "rb+") as file:
            os.fsync(file.fileno())

    def finish(self) -> WrittenFile:
        """Give the file its name."""
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

    def drop(self) -> None:
        """Leave nothing behind."""
        if self._writer is not None:
            self._writer.close()
        self.temporary.unlink(missing_ok=True)


class SplitWriter:
    """Writes the wanted messages of one split below ``out``."""

    def __init__(self, split: Split, out: Path, names: list[str]) -> None:
        self.split = split
        self.out = out
        self.name = split_name(split)
        # The topic is in the path; a partition has one.
        self.names = [name for name in names if name not in ("topic", "damage")]
        self.partitions: dict[tuple[str, str], Partition] = {}
        self.held_bytes = 0
        self.damages = 0
        self.first_damage: str | None = None
        self._days: dict[int, str] = {}

    def write(self, wanted: Wanted, options: Options) -> SplitRecord:
        """Do it. StoreError if the file cannot be read."""
        view = map_file(self.split.path, self.split.base + self.split.start)
        position, torn = self.split.start, False
        try:
            if view is not None:
                position, torn = self._read(view, wanted, options)
            files = self._finished()
        except BaseException:
            for part in self.partitions.values():
                part.drop()
            raise
        record = SplitRecord(
            name=self.name,
            store=self.split.store,
            start=self.split.base + self.split.start,
            end=self.split.base + self.split.end,
            reached=self.split.base + position,
            complete=view is not None and not torn and self._is_complete(view, position),
            files=files,
            damages=self.damages,
            first_damage=self.first_damage,
        )
        self._replace(record, fresh=option_true(options, "fresh"))
        return record

    def _finished(self) -> list[WrittenFile]:
        """Write the rest of every file; while one is on its way to the disk, pack the next."""
        parts = sorted(self.partitions.values(), key=lambda part: -part.held_bytes)
        with ThreadPoolExecutor(SYNCS) as pool:
            waits = []
            for part in parts:
                part.complete()
                waits.append(pool.submit(part.sync))
            for wait in waits:
                wait.result()
        return [part.finish() for part in parts]

    def _read(self, view: Any, wanted: Wanted, options: Options) -> tuple[int, bool]:
        """Read the split; where that ended, and whether at a record that is not whole."""
        from mqadmin.inspector.arrow import BatchMaker

        maker = BatchMaker(view, self.names, store=self.split.store)
        position, torn = self.split.start, False
        given = {"rows": str(SCAN_ROWS), **options}
        for batch in split_batches(self.split, view, self.names, given):
            position = batch.next_position
            torn = any(damage.at_end for damage in batch.damages)
            if torn and is_followed(self.split, len(view)):
                torn = False
            self._take(batch, maker, wanted)
        return position, torn

    def _is_complete(self, view: Any, position: int) -> bool:
        """Whether the log can add nothing to this split any more."""
        return (
            position >= self.split.end
            or blank_at(view, position)
            or blank_before(view, self.split.start + 1)
            or is_followed(self.split, len(view))
        )

    def _take(self, batch: "ScanBatch", maker: "BatchMaker", wanted: Wanted) -> None:
        import numpy as np

        for damage in batch.damages:
            if wanted.covers(damage.physical_offset):
                self.damages += 1
                self.first_damage = self.first_damage or (
                    f"{damage.kind} at physical offset {damage.physical_offset}: {damage.detail}"
                )
        rows = wanted.rows(batch, maker.buf)
        if not len(rows):
            return
        named = maker.array("topic", batch, rows).dictionary_encode()
        known = named.dictionary.to_pylist()
        days = batch.column("store_timestamp")[rows] // DAY_MS
        keys = days * len(known) + named.indices.to_numpy()
        order = np.argsort(keys, kind="stable")
        cuts = np.flatnonzero(np.diff(keys[order])) + 1
        sizes = batch.column("total_size")[rows]
        for part in np.split(order, cuts):
            key = int(keys[part[0]])
            place = self._partition(key // len(known), known[key % len(known)], maker.schema)
            chosen = rows[part]
            maker.keep = lambda _, chosen=chosen: chosen
            for made in maker.make(batch):
                self.held_bytes += place.hold(made)
                place.messages += made.num_rows
            place.bytes += int(sizes[part].sum())
            if place.held_rows >= ROW_GROUP:
                self.held_bytes -= place.flush()
        while self.held_bytes > HELD_BYTES:
            fullest = max(self.partitions.values(), key=lambda one: one.held_bytes)
            self.held_bytes -= fullest.flush()

    def _partition(self, day: int, topic: str, schema: "pa.Schema") -> Partition:
        dt = self._days.get(day)
        if dt is None:
            from datetime import UTC, datetime

            dt = self._days[day] = datetime.fromtimestamp(day * 86400, UTC).strftime("%Y-%m-%d")
        part = self.partitions.get((dt, topic))
        if part is None:
            part = self.partitions[dt, topic] = Partition(self.out, (dt, topic), self.name, schema)
        return part

    def _replace(self, record: SplitRecord, *, fresh: bool) -> None:
        """Let the record stand, and remove files of an earlier run that are no more."""
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
        folder = self.out / SPLITS
        folder.mkdir(parents=True, exist_ok=True)
        # One that a power cut leaves empty is no record: its split is written again.
        write_whole(folder / f"{self.name}.json", msgspec.json.encode(record), sync=False)


def parameters_text(parameters: dict[str, Any]) -> bytes:
    """What an export was made with, as a file."""
    return (json.dumps(parameters, indent=2, sort_keys=True) + "\n").encode()
