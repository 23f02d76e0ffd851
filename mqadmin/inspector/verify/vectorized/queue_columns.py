"""Match batches of records with the units of one ConsumeQueue."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broker.store.format.consumequeue import PRE_BLANK_SIZE, UNIT_SIZE
from mqadmin.inspector.queries.loss import Extents
from mqadmin.inspector.verify.queue_checks import (
    FINE,
    MISSING,
    OTHER,
    TAGS,
    Queue,
    Run,
    UnitFile,
)

Int64s = NDArray[np.int64]


def unit_array(data: bytes) -> Any:
    """Return the units of a file as a structured array (physical, size, tags), big-endian."""
    kind = np.dtype([("physical", ">i8"), ("size", ">i4"), ("tags", ">i8")])
    return np.frombuffer(data, dtype=kind, count=len(data) // UNIT_SIZE)


def mark_columns(file: UnitFile, at: Int64s) -> None:
    """:meth:`UnitFile.mark` for an array of distinct positions."""
    if isinstance(file.seen, bytearray):
        np.frombuffer(file.seen, dtype=np.uint8)[at] = 1
        file.seal(len(at))


def match_columns(
    queue: Queue, queue_offsets: Int64s, physical: Int64s, sizes: Int64s, tags: Int64s
) -> int:
    """:meth:`Queue.match` for many records in the order of the log.

    Returns the end (physical offset) of the last record that matches its unit, 0 if none does.
    """
    end = 0
    codes = np.full(len(queue_offsets), MISSING, dtype=np.int8)
    for file in queue.files:
        rows = np.flatnonzero(
            (queue_offsets >= file.first) & (queue_offsets < file.first + file.count)
        )
        if not len(rows):
            continue
        units = unit_array(queue.open.get(file.path).data)
        at = queue_offsets[rows] - file.first
        inside = at < len(units)  # the file may have been truncated since it was counted
        rows, at = rows[inside], at[inside]
        found = units[at]
        size = found["size"]
        placed = (found["physical"] == physical[rows]) & (size == sizes[rows])
        code = np.where(placed, FINE, OTHER).astype(np.int8)
        code[placed & (found["tags"] != tags[rows])] = TAGS
        code[(size == 0) | (size == PRE_BLANK_SIZE)] = MISSING
        codes[rows] = code
        mark_columns(file, at[placed])
        last = rows[placed]
        end = max(end, int((physical[last] + sizes[last]).max(initial=0)))
    _add_codes(queue, codes, queue_offsets, physical)
    return end


def _add_codes(queue: Queue, codes: Any, queue_offsets: Int64s, physical: Int64s) -> None:
    bad = np.flatnonzero(codes)
    columns = [queue_offsets[bad], codes[bad].astype(np.int64), physical[bad]]
    if deferred := queue.take_deferred():
        # Records of the slow path, which were compared one by one before these.
        singles = np.array(
            [(run.first, run.code, run.first_physical) for run in deferred], dtype=np.int64
        )
        columns = [np.concatenate((columns[index], singles[:, index])) for index in range(3)]
        order = np.argsort(columns[2], kind="stable")
        columns = [column[order] for column in columns]
    offsets, code, at = columns
    if not len(offsets):
        return
    cuts = np.flatnonzero((np.diff(offsets) != 1) | (np.diff(code) != 0)) + 1
    for begin, end in zip([0, *cuts.tolist()], [*cuts.tolist(), len(offsets)], strict=True):
        queue.join_run(
            Run(
                int(code[begin]),
                int(offsets[begin]),
                int(offsets[end - 1]),
                int(at[begin]),
                int(at[end - 1]),
            )
        )


def units_outside(data: bytes, count: int, begin: int, extents: Extents) -> Iterator[int]:
    """Yield positions of units whose physical offset is at least ``begin`` and in no extent."""
    units = unit_array(data)[:count]
    size = units["size"]
    physical = units["physical"].astype(np.int64)
    real = (size > 0) & (size != PRE_BLANK_SIZE) & (physical >= begin)
    yield from np.flatnonzero(real & extents.outside(physical)).tolist()
