"""The streaming side of ``rocketmq-store``: follow live CommitLogs, each message once.

The offset of a stream holds for every store directory the physical offset up to which it was read:
``{"/data/store": 1073741824}``. These offsets lie between two records, so restarts, file rolls and
removed old files neither lose nor duplicate a message. The end of a batch is the start of the next
record after the byte limit, found as for splits; only the last file is scanned. A torn record at
the end of the log is not an error: the batch ends before it until it is complete.

==================== ==========================================================================
``startingOffsets``  ``earliest`` (default) or ``latest``
``maxBytesPerTrigger`` bytes of one batch over all stores, default 1 GiB
``failOnDataLoss``   ``true`` (default): fail if files were removed before they were read;
                     ``false``: resume at the first remaining byte
==================== ==========================================================================

The columns and filters of the batch source are options of the stream too. Messages are read as soon
as they are in the page cache, flushed or not, as by a consumer of the broker.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from broker.errors import StoreError
from broker.store.format.commitlog import check_record, is_plausible, read_record
from broker.store.format.vectorized.columns import first_record, scan_columns
from mqadmin.inspector.directory import LogFile
from mqadmin.pipeline.failure import annotated_errors
from mqadmin.pipeline.sources.options import option_number, option_true
from mqadmin.pipeline.sources.partitions.split_reader import (
    freeze_loaded_modules,
    is_blank_at,
    map_file,
    read_split,
)
from mqadmin.pipeline.sources.partitions.splits import SPLIT_BYTES, Split, log_files
from mqadmin.pipeline.sources.partitions.store_reader import StoreReader

MAX_BYTES_PER_TRIGGER: Final = 1 << 30

Offset = dict[str, int]


class StoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the messages appended to the logs since the last batch."""

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self._batch_reader = StoreReader(schema, options)
        self.options = self._batch_reader.options
        self.max_bytes = (
            option_number(self.options, "maxbytespertrigger", minimum=1) or MAX_BYTES_PER_TRIGGER
        )
        self.skip_lost_data = not option_true(self.options, "failondataloss", default=True)
        self._final_ends: Offset | None = None
        # By store: the end of the last file as of the last scan, where the next scan starts.
        self._scanned: Offset = {}

    # ---- offsets

    def initialOffset(self) -> Offset:
        """Return the first offsets of the logs, with ``startingOffsets=latest`` their ends."""
        if self.options.get("startingoffsets") == "latest":
            return self._ends()
        return {path: first_offset(path) for path in self._paths() if log_files(path)[0]}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return ``maxBytesPerTrigger``, default 1 GiB."""
        return ReadMaxBytes(self.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        """Record the present ends of the logs: the run stops there even if the logs grow."""
        self._final_ends = self._ends()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return the end of the next batch: between two records, about ``limit`` after ``start``.

        The limit is divided evenly among the stores; bytes that one store does not use are
        available to the following ones.
        """
        with annotated_errors():
            return self._latest(start, limit)

    def _latest(self, start: Offset, limit: ReadLimit) -> Offset:
        result = dict(start)
        # A store without files has no offset yet: its log may begin at any offset.
        known = [path for path in self._paths() if path in start or log_files(path)[0]]
        paths = [*dict.fromkeys([*start, *known])]
        begins = {path: self._begin(path, start.get(path)) for path in paths}
        left: int | None = getattr(limit, "max_bytes", self.max_bytes)
        if isinstance(limit, ReadAllAvailable):
            left = None
        for number, path in enumerate(paths):
            begin = begins[path]
            share = None if left is None else left // (len(paths) - number)
            end = self._end(path, begin, None if share is None else begin + max(share, 1))
            if self._final_ends is not None:
                end = min(end, max(self._final_ends.get(path, begin), begin))
            result[path] = end
            if left is not None:
                left = max(left - (end - begin), 0)
        return result

    def reportLatestOffset(self) -> Offset | None:
        """Return the ends of the logs, for progress reports."""
        return self._final_ends or self._ends()

    def commit(self, end: Offset) -> None:
        """Do nothing: the log is read-only, no resources are held for a batch."""

    # ---- batches

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Return the splits between two offsets."""
        with annotated_errors():
            return [*self.splits(start, end)]

    def splits(self, start: Offset, end: Offset) -> Iterator[Split]:
        """Return the splits between two offsets, file by file."""
        size = option_number(self.options, "splitbytes", minimum=1) or SPLIT_BYTES
        for path, stop in sorted(end.items()):
            begin = self._begin(path, start.get(path))
            files, store = log_files(path)
            for file in files:
                first, last = max(begin, file.start), min(stop, file.start + file.length)
                for at in range(first, last, size):
                    span = (at - file.start, min(at + size, last) - file.start)
                    # A batch starts and ends between records: its first split needs no search,
                    # its last one owns no bytes past its end.
                    yield Split(file, span, store, exact=at == first, follow=at + size < last)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return Arrow batches of one split."""
        if isinstance(partition, Split):
            freeze_loaded_modules()
            with annotated_errors():
                if not self.is_lost(partition):
                    reader = self._batch_reader
                    yield from read_split(partition, reader.names, reader.rows, self.options)

    def is_lost(self, split: Split) -> bool:
        """Whether a split's file was removed after planning.

        StoreError unless ``failOnDataLoss`` is false.
        """
        path = Path(split.path)
        # A missing directory (not mounted, wrong path on this worker) is not a removed old file.
        if path.exists() or not path.parent.is_dir():
            return False
        if not self.skip_lost_data:
            raise data_loss_error(split.store, split.physical_offset, split.end_offset)
        return True

    # ---- the logs

    def _paths(self) -> list[str]:
        return [os.path.realpath(path) for path in self._batch_reader.paths]

    def _ends(self) -> Offset:
        return {
            path: self._end(path, first_offset(path), None)
            for path in self._paths()
            if log_files(path)[0]
        }

    def _end(self, path: str, begin: int, limit: int | None) -> int:
        """Return the end of a batch of one store; the scan resumes where the last one ended."""
        files, _ = log_files(path)
        end, is_log_end = batch_end(files, begin, limit, self._scanned.get(path, 0))
        if is_log_end:
            self._scanned[path] = end
        return end

    def _begin(self, path: str, begin: int | None) -> int:
        """Return ``begin``, or the first remaining offset if the files before it were removed.

        StoreError for removed files unless ``failOnDataLoss`` is false.
        """
        first = first_offset(path)
        if begin is None or begin >= first:
            return first if begin is None else begin
        if not self.skip_lost_data:
            raise data_loss_error(path, begin, first)
        return first


def data_loss_error(path: str, begin: int, end: int) -> StoreError:
    """Return the error for bytes of the log that were removed before they were read."""
    return StoreError(
        f"{path}: physical offsets {begin} to {end} were removed before they were read",
        "restart with another checkpoint, or set failOnDataLoss=false to skip them",
        path=path,
        physical_offset=begin,
    )


def first_offset(path: str) -> int:
    """Return the physical offset of the first byte of a store's log, 0 without files."""
    files, _ = log_files(path)
    return files[0].start if files else 0


def batch_end(
    files: list[LogFile], begin: int, limit: int | None, scanned: int = 0
) -> tuple[int, bool]:
    """Return an offset between two records at or after ``limit``, at most the end of the log.

    The second value is whether it is the end of the log, which ``limit`` None asks for. ``begin``
    must lie between two records or at the start of a file. The scan of the last file starts at
    ``scanned``, a physical offset between two records.
    """
    end = begin
    for number, file in enumerate(files):
        stop = file.start + file.length
        if stop <= begin:
            continue
        position = max(begin - file.start, 0)
        if limit is not None and limit < stop:
            at = _next_record(file, max(limit - file.start, position + 1))
            if at is not None:
                return file.start + at, False
        if not any(map(_begins_with_record, files[number + 1 :])):
            return max(end, _end_of_last_file(file, max(position, scanned - file.start))), True
        end = stop
        if limit is not None and limit <= end:
            return end, False
    return end, True


def _begins_with_record(file: LogFile) -> bool:
    view = map_file(file.path)
    return view is not None and is_plausible(view, 0, file.start)


def _next_record(file: LogFile, position: int) -> int | None:
    """Return the position of the first record at or after ``position``, None without one."""
    view = map_file(file.path)
    if view is None:
        return None
    found = first_record(view, position, file.start)
    return found if found >= 0 and is_plausible(view, found, file.start) else None


def _end_of_last_file(file: LogFile, position: int) -> int:
    """Return the physical offset after the last complete record of the last file.

    Damaged regions followed by records are skipped; a torn record at the end is not.
    """
    view = map_file(file.path)
    if view is None:
        return file.start + position
    end = position
    last = -1
    for batch in scan_columns(view, file.start, position, scan_flags=0):
        if batch.count:
            last = int(batch.column("position")[-1])
            end = last + int(batch.column("total_size")[-1])
        for damage in batch.damaged_regions:
            if not damage.at_end:
                end = max(end, damage.physical_offset + damage.length - file.start)
    if is_blank_at(view, end):
        return file.start + len(view)  # the log continues in the next file
    if last >= 0 and is_torn(view, last, end):
        end = last
    return file.start + end


def is_torn(view: Any, position: int, end: int) -> bool:
    """Whether the last record of the log may not be completely written yet.

    Its length fields may be written before its body or properties. A properties string does not
    end with a zero byte, so a zero there means that it is missing.
    """
    if check_record(view, position) <= 0:
        return True
    return bool(read_record(view, position).properties) and view[end - 1] == 0
