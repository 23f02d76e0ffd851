"""Splits of CommitLog files: how they are cut, and how one is read.

A file is cut anywhere. A split owns the records that *start* in it: its reader looks for the first
one by magic code and own physical offset, and reads the last one to its end. It also owns what is
unreadable behind its last record, up to the next good one. So whatever the cuts, each record and
each damage comes out once.

A blank record ends its file though old records may lie behind it; a split that starts there looks
back for it.
"""

import gc
import mmap
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import InputPartition

from broker.errors import StoreError
from mqadmin.inspector.directory import LogFile, StoreDirectory
from mqadmin.inspector.files import open_bytes
from mqadmin.pipeline.options import Options, Wanted, option_number, option_true

if TYPE_CHECKING:
    import pyarrow as pa

    from broker.store.format.columns import ScanBatch
    from mqadmin.inspector.arrow import BatchMaker

SPLIT_BYTES: Final = 128 << 20  # a task costs tens of ms: smaller splits are all overhead
SPLITS_PER_CORE: Final = 4

# A blank record is written where the next record does not fit, so it is shorter than the longest
# record; brokers take messages of 4 MiB, rarely of more.
BLANK_BYTES: Final = 64 << 20

# How far store timestamps are trusted to rise along the log when whole files are left out.
CLOCK_STEP_MS: Final = 3_600_000


@dataclass
class Split(InputPartition):
    """The records that start in ``[start, end)`` of one file; positions within the file.

    ``exact``: a record (or a damage) begins at ``start``, nothing is looked for. ``follow``: what
    is unreadable behind the last record belongs to the split.
    """

    path: str
    base: int
    start: int
    end: int
    store: str
    exact: bool = False
    follow: bool = True

    def __init__(
        self, file: LogFile, span: tuple[int, int], store: str, *, exact: bool, follow: bool
    ) -> None:
        super().__init__(0)
        self.path, self.base, self.store = str(file.path), file.start, store
        self.start, self.end = span
        self.exact, self.follow = exact, follow


def store_label(directory: StoreDirectory) -> str:
    """The store directory as the column ``store`` shows it."""
    return str(directory.root or directory.path)


def log_files(path: str) -> tuple[list[LogFile], str]:
    """The CommitLog files of a path and its store's label. StoreError if there is no such path."""
    directory = StoreDirectory(path)
    return directory.log_files(), store_label(directory)


def split_bytes(options: Options, total: int) -> int:
    """Bytes per split: as given, else 128 MiB or a share of a core."""
    given = option_number(options, "splitbytes", least=1)
    if given is not None:
        return given
    return max(SPLIT_BYTES, total // (SPLITS_PER_CORE * (os.cpu_count() or 1)))


def plan(paths: list[str], wanted: Wanted, options: Options) -> list[Split]:
    """The splits of every file that can hold wanted rows."""
    found = []
    for path in paths:
        files, store = log_files(path)
        for file in in_time(files, wanted):
            length = written_length(file)
            if length and _may_hold(file, wanted):
                found.append((file, length, store))
    size = split_bytes(options, sum(length for _, length, _ in found))
    return [split for file, length, store in found for split in cut(file, length, size, store)]


def cut(file: LogFile, length: int, size: int, store: str) -> Iterator[Split]:
    """One file as splits of ``size`` bytes; only its first ``length`` bytes hold anything."""
    for start in range(0, length, size):
        yield Split(file, (start, min(start + size, length)), store, exact=start == 0, follow=True)


def written_length(file: LogFile) -> int:
    """How many bytes of a file hold data; it is allocated as a whole."""
    with open_bytes(file.path) as opened:
        return min(opened.data_end, len(opened))


def _may_hold(file: LogFile, wanted: Wanted) -> bool:
    return (wanted.to_offset is None or file.start < wanted.to_offset) and (
        wanted.from_offset is None or file.start + file.length > wanted.from_offset
    )


def in_time(files: list[LogFile], wanted: Wanted) -> list[LogFile]:
    """The files that can hold messages of the wanted time; clocks may step by an hour."""
    if wanted.since_ms is None and wanted.until_ms is None:
        return files
    kept = []
    following: int | None = None
    for file in reversed(files):
        first = _first_time(file)
        too_old = (
            wanted.since_ms is not None
            and following is not None
            and following < wanted.since_ms - CLOCK_STEP_MS
        )
        too_young = (
            wanted.until_ms is not None
            and first is not None
            and first >= wanted.until_ms + CLOCK_STEP_MS
        )
        if not too_old and not too_young:
            kept.append(file)
        following = following if first is None else first
    return kept[::-1]


def _first_time(file: LogFile) -> int | None:
    """The storeTimestamp of a file's first record, None if none begins there."""
    from broker.store.format.commitlog import is_plausible, store_timestamp

    with open_bytes(file.path) as opened:
        if not is_plausible(opened.data, 0, file.start):
            return None
        return store_timestamp(opened.data, 0)


_modules_settled = 0


def settle() -> None:
    """Before a task: keep what is loaded out of the collection that Spark runs after every task.

    What the first split loads (Arrow, the scanner) is settled before the second one.
    """
    global _modules_settled
    if len(sys.modules) != _modules_settled:
        gc.collect()
        gc.freeze()
        _modules_settled = len(sys.modules)


def map_file(path: str | Path, physical_offset: int | None = None) -> Any:
    """A file as a read-only map, None if it is empty.

    StoreError naming it if it cannot be read, and the offset from which on it was wanted.
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
    split: Split, names: list[str], wanted: Wanted, options: Options
) -> Iterator["pa.RecordBatch"]:
    """Arrow batches of the wanted rows of one split; damage rows if the options ask for them."""
    from mqadmin.inspector.arrow import BatchMaker

    view = map_file(split.path, split.base + split.start)
    if view is None:
        return
    keep = (lambda batch: wanted.rows(batch, view)) if wanted.selects() else None
    maker = BatchMaker(view, names, store=split.store, keep=keep)
    damages = option_true(options, "damages")
    for batch in split_batches(split, view, names, options):
        yield from maker.make(batch)
        if damages and batch.damages:
            yield from damage_rows(batch, maker, wanted)


def split_batches(
    split: Split, view: Any, names: list[str], options: Options
) -> Iterator["ScanBatch"]:
    """Scan batches of what a split owns."""
    from broker.store.format import columns
    from mqadmin.inspector.arrow import what_for

    size = len(view)
    start, end = first_owned(split, view), min(split.end, size)
    if not 0 <= start < end:
        return
    crc = option_true(options, "crc", default=option_true(options, "damages"))
    what = what_for(names, check_crc=crc)
    rows = option_number(options, "rows", least=1) or columns.ROWS
    position, ended = start, False
    for batch in columns.scan_columns(
        view, split.base, start, end, what=what, rows=rows, look_to=size
    ):
        yield batch
        position, ended = batch.next_position, batch.ended
    while split.follow and not ended and position < size and position >= end:
        if plausible(view, position, split.base):
            return
        ended = True
        for batch in columns.scan_columns(
            view, split.base, position, position + 1, what=what, rows=1, look_to=size
        ):
            yield batch
            position, ended = batch.next_position, batch.ended


def plausible(view: Any, position: int, base: int) -> bool:
    """Whether a record that says that it belongs here begins at ``position``."""
    from broker.store.format.commitlog import is_plausible

    return is_plausible(view, position, base)


def first_owned(split: Split, view: Any) -> int:
    """Where reading a split begins, -1 if nothing in it is its own."""
    from broker.store.format import columns

    if split.exact:
        return split.start
    if blank_before(view, split.start):
        return -1
    return columns.first_record(view, split.start, split.base)


def blank_before(view: Any, position: int) -> bool:
    """Whether the blank record that ends the file lies before ``position``."""
    from broker.store.format.commitlog import BLANK_SIZE, encode_blank

    size = len(view)
    if size - position > BLANK_BYTES:
        return False
    magic = encode_blank(BLANK_SIZE)[4:]
    # A blank at `position` itself is met by reading on.
    hit = view.rfind(magic, max(size - BLANK_BYTES, 0), position + 7)
    while hit >= 4:
        if int.from_bytes(view[hit - 4 : hit], "big") == size - (hit - 4):
            return True
        hit = view.rfind(magic, max(size - BLANK_BYTES, 0), hit)
    return False


def damage_rows(
    batch: "ScanBatch", maker: "BatchMaker", wanted: Wanted
) -> Iterator["pa.RecordBatch"]:
    """The damages of a scan batch as rows; a record that was just being written is none."""
    batch.damages = [
        damage
        for damage in batch.damages
        if wanted.covers(damage.physical_offset)
        and not (
            damage.at_end
            and plausible(maker.buf, damage.physical_offset - batch.base_offset, batch.base_offset)
        )
    ]
    found: Any = maker.damages(batch)
    if found is not None:
        yield found


def blank_at(view: Any, position: int) -> bool:
    """Whether a blank record that ends the file stands at ``position``."""
    from broker.errors import RemoteProtocolError
    from broker.store.format.commitlog import decode_blank

    try:
        return decode_blank(view, position) == len(view) - position
    except RemoteProtocolError:
        return position == len(view)


def is_followed(split: Split, length: int) -> bool:
    """Whether the file behind a split's file begins with a record: nothing comes to this one."""
    from broker.store.format.commitlog import file_name

    path = Path(split.path).with_name(file_name(split.base + length))
    if not path.exists():
        return False
    view = map_file(path)
    return view is not None and plausible(view, 0, split.base + length)
