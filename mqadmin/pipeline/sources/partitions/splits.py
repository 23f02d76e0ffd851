"""Planning of CommitLog splits: the units of work of the tasks.

A file is cut at any byte. A split owns the records that *start* in it: its reader finds the first
one by magic code and physical offset, and reads the last one to its end even if that is past the
end of the split. It also owns the unreadable bytes after its last record, up to the next valid
record. Wherever the cuts are, each record and each damaged region is therefore returned once.

This module runs on the driver; ``split_reader`` reads splits on the workers.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyspark.sql.datasource import InputPartition

from broker.store.format.commitlog import is_plausible, store_timestamp
from mqadmin.inspector.directory import LogFile, StoreDirectory
from mqadmin.inspector.files import open_bytes
from mqadmin.pipeline.sources.options import Options, RowFilter, option_number

SPLIT_BYTES: Final = 128 << 20  # a task costs tens of ms: smaller splits are mostly overhead
SPLITS_PER_CORE: Final = 4

# Files are skipped by the store time of their first records. Store times may go back by this much
# along the log (a clock that was set back) without losing rows.
CLOCK_STEP_MS: Final = 3_600_000


@dataclass
class Split(InputPartition):
    """The records that start in ``[start, end)`` of one file; both are file positions.

    ``base`` is the physical offset of the file. ``exact``: a record (or a damaged region) begins
    at ``start``, no search is needed. ``follow``: the unreadable bytes after the last record
    belong to the split.
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

    @property
    def physical_offset(self) -> int:
        """The physical offset of the first byte of the split."""
        return self.base + self.start

    @property
    def end_offset(self) -> int:
        """The physical offset after the last byte of the split."""
        return self.base + self.end


def store_label(directory: StoreDirectory) -> str:
    """Return the store directory as shown in the column ``store``."""
    return str(directory.root or directory.path)


def log_files(path: str) -> tuple[list[LogFile], str]:
    """Return the CommitLog files of a path and the label of its store.

    StoreError if the path does not exist.
    """
    directory = StoreDirectory(path)
    return directory.log_files(), store_label(directory)


def split_bytes(options: Options, total: int) -> int:
    """Return bytes per split: the option, else 128 MiB or 1/4 of a core's share of ``total``."""
    given = option_number(options, "splitbytes", minimum=1)
    if given is not None:
        return given
    return max(SPLIT_BYTES, total // (SPLITS_PER_CORE * (os.cpu_count() or 1)))


def plan_splits(paths: list[str], rows: RowFilter, options: Options) -> list[Split]:
    """Return the splits of every file that can contain selected rows."""
    found = []
    for path in paths:
        files, store = log_files(path)
        for file in files_in_time_range(files, rows):
            length = written_length(file)
            if length and _overlaps(file, rows):
                found.append((file, length, store))
    size = split_bytes(options, sum(length for _, length, _ in found))
    return [split for file, length, store in found for split in cut_file(file, length, size, store)]


def cut_file(file: LogFile, length: int, size: int, store: str) -> Iterator[Split]:
    """Cut the first ``length`` bytes of a file into splits of ``size`` bytes."""
    for start in range(0, length, size):
        yield Split(file, (start, min(start + size, length)), store, exact=start == 0, follow=True)


def written_length(file: LogFile) -> int:
    """Return the bytes of a file that contain data; the file itself is preallocated."""
    with open_bytes(file.path) as opened:
        return min(opened.data_end, len(opened))


def _overlaps(file: LogFile, rows: RowFilter) -> bool:
    return (rows.to_offset is None or file.start < rows.to_offset) and (
        rows.from_offset is None or file.start + file.length > rows.from_offset
    )


def files_in_time_range(files: list[LogFile], rows: RowFilter) -> list[LogFile]:
    """Return the files that can contain messages of the selected time, see CLOCK_STEP_MS."""
    if rows.since_ms is None and rows.until_ms is None:
        return files
    kept = []
    next_first_ms: int | None = None
    for file in reversed(files):
        first_ms = _first_store_ms(file)
        too_old = (
            rows.since_ms is not None
            and next_first_ms is not None
            and next_first_ms < rows.since_ms - CLOCK_STEP_MS
        )
        too_new = (
            rows.until_ms is not None
            and first_ms is not None
            and first_ms >= rows.until_ms + CLOCK_STEP_MS
        )
        if not too_old and not too_new:
            kept.append(file)
        next_first_ms = next_first_ms if first_ms is None else first_ms
    return kept[::-1]


def _first_store_ms(file: LogFile) -> int | None:
    """Return the storeTimestamp of a file's first record, None without a record at its start."""
    with open_bytes(file.path) as opened:
        if not is_plausible(opened.data, 0, file.start):
            return None
        return store_timestamp(opened.data, 0)
