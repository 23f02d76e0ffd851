"""Scan the units of one ConsumeQueue over all its files, and report corruption.

A queue is written in order: its files are contiguous, have one length, and all but the last are
full; only units past the last written one are empty. A deviation is reported as corruption, and
the scan resumes after it. A unit that goes back in the log, and is not followed by one that
continues after the last good unit, remains from a truncation: the queue ends before it.
"""

from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from broker.errors import StoreError
from broker.store.format.commitlog import Damage
from broker.store.format.consumequeue import (
    BATCH_UNIT_SIZE,
    BATCH_UNIT_STRUCT,
    NO_UNIT,
    UNIT_SIZE,
    UNIT_STRUCT,
    holds_unit,
    is_pre_blank,
    scan_batch_units,
    scan_units,
)
from mqadmin.inspector.damage import ERROR, REPAIR, WARNING, damage_row, found
from mqadmin.inspector.directory import QueueFiles
from mqadmin.inspector.files import FileBytes, file_length, open_bytes
from mqadmin.inspector.rows import DamageRow

_PIECE: Final = 1 << 16  # bytes per step of the search for a unit after empty ones


class Unit(NamedTuple):
    """A unit of a SimpleCQ or BatchConsumeQueue; ``batch_size`` is None in a SimpleCQ."""

    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int
    batch_size: int | None
    path: str


class _Scan:
    """State of the scan of one queue."""

    __slots__ = ("ended", "last", "position", "queue", "unit_size")

    def __init__(self, queue: QueueFiles) -> None:
        self.queue = queue
        self.unit_size = UNIT_SIZE if queue.kind == "classic" else BATCH_UNIT_SIZE
        self.last = -1  # physical offset of the last good unit
        self.position = 0  # in the current file, after the last unit read
        self.ended = False  # the units that follow remain from before a truncation


def scan_queue(queue: QueueFiles) -> Iterator[Unit | DamageRow]:
    """Yield the units of a queue over all files, without pre-blank units, and corruption."""
    scan = _Scan(queue)
    lengths = [file_length(path) or 0 for path, _ in queue.files]
    counts = Counter(lengths)
    usual = max(counts, key=lambda length: (counts[length], length), default=0)
    for number, (path, start) in enumerate(queue.files):
        if number:
            before = queue.files[number - 1][1] + max(lengths[number - 1], usual)
            yield from _gap(path, before, start)
        yield from _file_length(path, start, lengths[number], usual)
        followed = [later for later, _ in queue.files[number + 1 :]]
        try:
            yield from _file(scan, path, start, followed)
        except StoreError as error:
            yield found("unreadable", str(path), error.message)
            continue
        if scan.ended:
            return


def _gap(path: Path, before: int, start: int) -> Iterator[DamageRow]:
    if start > before:
        yield found(
            "gap",
            str(path),
            f"no file holds the {start - before} bytes of the queue before this one",
            file_position=before,
            length=start - before,
            suggestion=REPAIR,
        )


def _file_length(path: Path, start: int, length: int, usual: int) -> Iterator[DamageRow]:
    if length == usual and length:
        return
    shown = "is empty" if not length else f"has {length} bytes"
    yield found(
        "fileSize",
        str(path),
        f"the file {shown}, the others have {usual}" if usual else "the file is empty",
        file_position=start + min(length, usual),
        length=abs(usual - length),
        severity=WARNING,
    )


def _file(
    scan: _Scan, path: Path, start: int, followed: list[Path]
) -> Generator[Unit | DamageRow, None, None]:
    """Yield the units of one file; report a file that is not full if a later one has units."""
    scan.position = 0
    while True:
        read_to = scan.position
        with open_bytes(path) as file:
            yield from _opened(scan, file, start)
            length = len(file)
        if scan.ended or scan.position >= length or not any(map(_has_unit, followed)):
            return
        # A broker may have filled this file and created the next one during the scan.
        if scan.position == read_to:
            break
    yield found(
        "unfinished",
        str(path),
        "the file holds no more units, but the next one does",
        file_position=start + scan.position,
        length=length - scan.position,
        suggestion=REPAIR,
    )


def _has_unit(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return holds_unit(file.read(UNIT_SIZE))
    except OSError:
        return False


def _opened(scan: _Scan, file: FileBytes, start: int) -> Iterator[Unit | DamageRow]:
    """Yield units from ``scan.position``; report empty units between others as a hole."""
    path = str(file.path)
    while True:
        for item in _units(scan, file, start):
            if isinstance(item, Damage):
                yield damage_row(item, path)
            elif item.physical_offset <= scan.last:
                scan.ended = not _continues_at(scan, file)
                yield _leads_back(item, path, start + scan.position - scan.unit_size, scan)
                if scan.ended:
                    return
            else:
                scan.last = item.physical_offset
                yield item
        behind = _next_written(file, scan.position, scan.unit_size)
        if behind is None:
            return
        yield found(
            "hole",
            path,
            f"{(behind - scan.position) // scan.unit_size} empty units,"
            " but the queue continues after them",
            file_position=start + scan.position,
            length=behind - scan.position,
            suggestion=REPAIR,
        )
        scan.position = behind


def _continues_at(scan: _Scan, file: FileBytes) -> bool:
    """Whether the unit at ``scan.position`` points past the record of the last good unit."""
    struct = UNIT_STRUCT if scan.unit_size == UNIT_SIZE else BATCH_UNIT_STRUCT
    if scan.position + scan.unit_size > len(file):
        return False
    physical_offset, size, *_ = struct.unpack_from(file.data, scan.position)
    return bool(physical_offset > scan.last and size > 0)


def _leads_back(unit: Unit, path: str, position: int, scan: _Scan) -> DamageRow:
    detail = f"queue offset {unit.queue_offset} points back in the log, to {unit.physical_offset}"
    return found(
        "order",
        path,
        f"{detail}: left over from before a truncation, or damaged" if scan.ended else detail,
        file_position=position,
        length=scan.unit_size,
        severity=WARNING if scan.ended else ERROR,
    )


def _units(scan: _Scan, file: FileBytes, start: int) -> Iterator[Unit | Damage]:
    """Yield units from ``scan.position`` to the first empty one; advances the position."""
    path = str(file.path)
    if scan.unit_size == BATCH_UNIT_SIZE:
        data = file.data[scan.position :] if scan.position else file.data
        for batch in scan_batch_units(data, start + scan.position):
            scan.position += BATCH_UNIT_SIZE
            if isinstance(batch, Damage):
                yield batch
                continue
            yield Unit(
                batch.base_offset,
                batch.physical_offset,
                batch.size,
                batch.tags_code,
                batch.batch_size,
                path,
            )
        return
    for item in scan_units(file.data, start // UNIT_SIZE, scan.position):
        scan.position += UNIT_SIZE
        if isinstance(item, Damage):
            yield item
            continue
        queue_offset, unit = item
        if not is_pre_blank(unit):
            yield Unit(queue_offset, *unit, None, path)


def _next_written(file: FileBytes, position: int, unit_size: int) -> int | None:
    """Return the position of the next unit that is not empty; None if no complete one follows."""
    data, end = file.data, min(file.data_end, len(file) - len(file) % unit_size)
    if position == 0 and bytes(data[:UNIT_SIZE]) == NO_UNIT:
        position = UNIT_SIZE
    while position < end:
        piece = bytes(data[position : min(position + _PIECE, end)])
        rest = piece.lstrip(b"\0")
        if rest:
            written = position + len(piece) - len(rest)
            return written - written % unit_size
        position += len(piece)
    return None
