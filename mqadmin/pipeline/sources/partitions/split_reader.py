"""Reading of one CommitLog split on a worker.

A blank record ends its file, although records of an earlier use of the file may follow it (after a
truncation); the reader of a split that starts after a blank record finds it by searching backwards.
"""

import gc
import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broker.errors import RemoteProtocolError, StoreError
from broker.store.format.commitlog import (
    BLANK_SIZE,
    decode_blank,
    encode_blank,
    file_name,
    is_plausible,
)
from broker.store.format.vectorized import columns
from broker.store.format.vectorized.columns import ScanBatch
from mqadmin.inspector.export.arrow import BatchMaker, purpose_of
from mqadmin.pipeline.sources.options import Options, RowFilter, option_number, option_true
from mqadmin.pipeline.sources.partitions.splits import Split

# A blank record is written where the next record does not fit: it is shorter than the largest
# record. Brokers accept messages of 4 MiB by default, rarely larger ones.
MAX_BLANK_BYTES: Final = 64 << 20

_frozen_modules = 0


def freeze_loaded_modules() -> None:
    """Exclude loaded modules from the garbage collection that Spark runs after every task.

    To be called before each task. Objects loaded by the first task (Arrow, the scanner) are
    excluded before the second one.
    """
    global _frozen_modules
    if len(sys.modules) != _frozen_modules:
        gc.collect()
        gc.freeze()
        _frozen_modules = len(sys.modules)


def map_file(path: str | Path, physical_offset: int | None = None) -> Any:
    """Map a file read-only; None if it is empty.

    StoreError if it cannot be read, with ``physical_offset`` as the place.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else None
    except OSError as error:
        place = "" if physical_offset is None else f" at physical offset {physical_offset}"
        raise StoreError(
            f"cannot read {path}{place}: {error.strerror or error}",
            "store directories must be readable under the same path on every worker",
            path=str(path),
            physical_offset=physical_offset,
        ) from error


def read_split(
    split: Split, names: list[str], rows: RowFilter, options: Options
) -> Iterator[pa.RecordBatch]:
    """Return Arrow batches of the selected rows of a split.

    With the option ``damages`` there is one more row for each damaged region.
    """
    view = map_file(split.path, split.physical_offset)
    if view is None:
        return
    keep = (lambda batch: matching_rows(rows, batch, view)) if rows.is_selective() else None
    maker = BatchMaker(view, names, store=split.store, keep=keep)
    with_damage = option_true(options, "damages")
    for batch in split_batches(split, view, names, options):
        yield from maker.make(batch)
        if with_damage and batch.damaged_regions:
            yield from damage_rows(batch, maker, rows)


def split_batches(
    split: Split, view: Any, names: list[str], options: Options
) -> Iterator[ScanBatch]:
    """Return scan batches of the records and damaged regions that a split owns."""
    size = len(view)
    start, end = first_owned_position(split, view), min(split.end, size)
    if not 0 <= start < end:
        return
    crc = option_true(options, "crc", default=option_true(options, "damages"))
    scan_flags = purpose_of(names, check_crc=crc)
    rows = option_number(options, "rows", minimum=1) or columns.ROWS
    position, ended = start, False
    for batch in columns.scan_columns(
        view, split.base, start, end, scan_flags=scan_flags, rows=rows, look_to=size
    ):
        yield batch
        position, ended = batch.next_position, batch.ended
    while split.follow and not ended and position < size and position >= end:
        if is_plausible(view, position, split.base):
            return
        ended = True
        for batch in columns.scan_columns(
            view, split.base, position, position + 1, scan_flags=scan_flags, rows=1, look_to=size
        ):
            yield batch
            position, ended = batch.next_position, batch.ended


def matching_rows(rows: RowFilter, batch: ScanBatch, buf: Any) -> NDArray[Any]:
    """Return the row numbers of a scan batch that a filter selects."""
    keep = np.ones(batch.count, dtype=bool)
    times = batch.column("store_timestamp")
    offsets = batch.physical_offset
    if rows.since_ms is not None:
        keep &= times >= rows.since_ms
    if rows.until_ms is not None:
        keep &= times < rows.until_ms
    if rows.from_offset is not None:
        keep &= offsets >= rows.from_offset
    if rows.to_offset is not None:
        keep &= offsets < rows.to_offset
    if rows.topics is not None:
        keep &= topic_mask(batch, buf, rows.topics)
    return np.flatnonzero(keep)


def topic_mask(batch: ScanBatch, buf: Any, topics: frozenset[str]) -> NDArray[Any]:
    """Return which rows of a batch belong to one of the topics.

    Topics are compared as bytes, after a comparison of their lengths: no row is decoded.
    """
    view = np.frombuffer(buf, dtype=np.uint8)
    starts, lengths = batch.column("topic_at"), batch.column("topic_length")
    mask = np.zeros(batch.count, dtype=bool)
    for topic in topics:
        name = np.frombuffer(topic.encode("utf-8", "replace"), dtype=np.uint8)
        rows = np.flatnonzero(lengths == len(name))
        if len(rows) and len(name):
            same = (view[starts[rows][:, None] + np.arange(len(name))] == name).all(axis=1)
            mask[rows[same]] = True
    return mask


def first_owned_position(split: Split, view: Any) -> int:
    """Return the position of the first record that a split owns, -1 without one."""
    if split.exact:
        return split.start
    if has_blank_before(view, split.start):
        return -1
    return columns.first_record(view, split.start, split.base)


def has_blank_before(view: Any, position: int) -> bool:
    """Whether the blank record that ends the file starts before ``position``."""
    size = len(view)
    if size - position > MAX_BLANK_BYTES:
        return False
    magic = encode_blank(BLANK_SIZE)[4:]
    # The scan itself finds a blank record that starts at `position`.
    hit = view.rfind(magic, max(size - MAX_BLANK_BYTES, 0), position + 7)
    while hit >= 4:
        if int.from_bytes(view[hit - 4 : hit], "big") == size - (hit - 4):
            return True
        hit = view.rfind(magic, max(size - MAX_BLANK_BYTES, 0), hit)
    return False


def damage_rows(batch: ScanBatch, maker: BatchMaker, rows: RowFilter) -> Iterator[pa.RecordBatch]:
    """Return the damaged regions of a scan batch as rows.

    An incomplete record at the end of the log that has become valid since the scan was being
    written during the scan: it is not damaged.
    """
    batch.damaged_regions = [
        damage
        for damage in batch.damaged_regions
        if rows.covers(damage.physical_offset)
        and not (
            damage.at_end
            and is_plausible(
                maker.buf, damage.physical_offset - batch.base_offset, batch.base_offset
            )
        )
    ]
    found = maker.damage_rows(batch)
    if found is not None:
        yield found


def is_blank_at(view: Any, position: int) -> bool:
    """Whether the blank record that ends the file, or the end of the file, is at ``position``."""
    try:
        return decode_blank(view, position) == len(view) - position
    except RemoteProtocolError:
        return position == len(view)


def has_successor(split: Split, length: int) -> bool:
    """Whether the next file starts with a record: nothing is appended to this one any more."""
    path = Path(split.path).with_name(file_name(split.base + length))
    if not path.exists():
        return False
    view = map_file(path)
    return view is not None and is_plausible(view, 0, split.base + length)
