"""The last units of ConsumeQueue files: their records, and cutting them in a copy."""

from pathlib import Path
from typing import NamedTuple

from broker.errors import StoreError
from broker.store.format.consumequeue import (
    BATCH_UNIT_SIZE,
    UNIT_SIZE,
    decode_batch_unit,
    decode_unit,
    holds_unit,
    is_pre_blank,
)
from mqadmin.inspector.directory import QueueFiles, StoreDirectory
from mqadmin.inspector.files import open_bytes
from mqadmin.inspector.log import LogReader
from mqadmin.repair.files import Output

_PIECE = 1 << 16


class Tail(NamedTuple):
    """The last written unit of a file: position in the file, physical offset and size."""

    position: int
    physical_offset: int
    size: int


def last_unit(path: Path, kind: str) -> Tail | None:
    """Return the last written unit of a file of a queue of ``kind``, None if there is none."""
    with open_bytes(path) as opened:
        data = opened.data
        end = opened.data_end
        while end > 0:  # in pieces: most of a file that was just created is empty
            begin = max(end - _PIECE, 0)
            written = len(bytes(data[begin:end]).rstrip(b"\0"))
            if written:
                size = unit_size(kind)
                position = (begin + written - 1) // size * size
                unit = bytes(data[position : position + size])
                if len(unit) < size or not holds_unit(unit):
                    return None
                return Tail(position, *_decode(data, position, kind))
            end = begin
    return None


def unit_size(kind: str) -> int:
    """Return the length in bytes of the units of a queue of ``kind``."""
    return BATCH_UNIT_SIZE if kind == "batch" else UNIT_SIZE


def _decode(data: bytes, position: int, kind: str) -> tuple[int, int]:
    """Return physical offset and size; -1 and 0 for a pre-blank unit."""
    if kind == "batch":
        batch = decode_batch_unit(data, position)
        return batch.physical_offset, batch.size
    unit = decode_unit(data, position)
    return (-1, 0) if is_pre_blank(unit) else (unit.physical_offset, unit.size)


def dispatched_end(store: StoreDirectory) -> int:
    """Return the end of the newest record that any queue has a unit of, -1 without units.

    Records are dispatched in the order of the log: every record before that end has its units.
    Units that do not match their record are ignored: they may be incomplete.
    """
    newest = -1
    with LogReader(store) as log:
        for queue in store.queue_files():
            if not queue.files:
                continue
            try:
                tail = last_unit(queue.files[-1][0], queue.kind)
                if tail is None and len(queue.files) > 1:
                    tail = last_unit(queue.files[-2][0], queue.kind)
            except StoreError:
                continue  # the topic was deleted
            if tail is None or tail.physical_offset < newest:
                continue
            found = log.record(tail.physical_offset)
            if found is not None and found[1].total_size == tail.size:
                newest = tail.physical_offset + tail.size
    return newest


def cut_units(made: Output, root: Path, queue: QueueFiles, end: int) -> None:
    """Clear the units in the copy of a queue whose records are at ``end`` or past it."""
    size = unit_size(queue.kind)
    for path, _ in reversed(queue.files):
        name = str(path.relative_to(root))
        if not (made.root / name).exists():
            continue
        tail = last_unit(made.root / name, queue.kind)
        if tail is None:
            continue
        if tail.physical_offset < end:
            return
        with open_bytes(made.root / name) as opened:
            first = tail.position
            while first >= size and _decode(opened.data, first - size, queue.kind)[0] >= end:
                first -= size
            length = len(opened.data)
        with made.open(name) as blocks:
            blocks.clear(first, length)
        if first:
            return
