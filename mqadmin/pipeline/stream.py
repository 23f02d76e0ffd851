"""The streaming side of ``rocketmq-store``: follow the logs of live brokers, each message once.

The offset of a stream is, for every store directory, the physical offset up to which it was read:
``{"/data/store": 1073741824}``. Such ends lie between two records, so restarts, file rolls and
removed old files neither lose nor double a message. Within the log an end is found by looking
for the next record behind the limit, as splits are; only the last file is walked. A torn or
half-written record at the tail is not an error: the end stays before it until it is whole.

==================== ==========================================================================
``startingOffsets``  ``earliest`` (default) or ``latest``
``maxBytesPerTrigger`` bound of one batch over all stores, default 1 GiB
``failOnDataLoss``   ``true`` (default): fail where old files were removed before they were read;
                     ``false``: go on at the first byte that is left
==================== ==========================================================================

The columns and filters of the batch source are options here too. Data is read as soon as it is in
the page cache, flushed or not, as the broker's own consumers do.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from broker.errors import StoreError
from mqadmin.inspector.directory import LogFile
from mqadmin.pipeline.failure import noted
from mqadmin.pipeline.options import option_number, option_true
from mqadmin.pipeline.source import StoreReader
from mqadmin.pipeline.splits import (
    SPLIT_BYTES,
    Split,
    blank_at,
    log_files,
    map_file,
    plausible,
    read_split,
    settle,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

MAX_BYTES_PER_TRIGGER: Final = 1 << 30

Offset = dict[str, int]


class StoreStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what the logs gained since the last batch."""

    def __init__(self, schema: "StructType", options: dict[str, str]) -> None:
        self._plain = StoreReader(schema, options)
        self.options = self._plain.options
        self.max_bytes = (
            option_number(self.options, "maxbytespertrigger", least=1) or MAX_BYTES_PER_TRIGGER
        )
        self.keeps_on = not option_true(self.options, "failondataloss", default=True)
        self._frozen: Offset | None = None
        # How far the tail was already walked, by store: a walk goes on there.
        self._walked: Offset = {}

    # ---- offsets

    def initialOffset(self) -> Offset:
        """The first byte that the stores still hold (``startingOffsets=latest``: their ends)."""
        if self.options.get("startingoffsets") == "latest":
            return self._ends()
        return {path: first_offset(path) for path in self._paths() if log_files(path)[0]}

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxBytesPerTrigger``, 1 GiB if not given."""
        return ReadMaxBytes(self.max_bytes)

    def prepareForTriggerAvailableNow(self) -> None:
        """Keep the present ends: the run stops there, however the logs grow."""
        self._frozen = self._ends()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Where the next batch ends: about the limit behind ``start``, between two records.

        The limit is shared out evenly; what one store leaves, the others may use.
        """
        with noted():
            return self._latest(start, limit)

    def _latest(self, start: Offset, limit: ReadLimit) -> Offset:
        found = dict(start)
        # A store without files has no offset yet: its log may begin anywhere.
        begun = [path for path in self._paths() if path in start or log_files(path)[0]]
        paths = [*dict.fromkeys([*start, *begun])]
        begins = {path: self._begin(path, start.get(path)) for path in paths}
        left: int | None = getattr(limit, "max_bytes", self.max_bytes)
        if isinstance(limit, ReadAllAvailable):
            left = None
        for number, path in enumerate(paths):
            begin = begins[path]
            share = None if left is None else left // (len(paths) - number)
            end = self._end(path, begin, None if share is None else begin + max(share, 1))
            if self._frozen is not None:
                end = min(end, max(self._frozen.get(path, begin), begin))
            found[path] = end
            if left is not None:
                left = max(left - (end - begin), 0)
        return found

    def reportLatestOffset(self) -> Offset | None:
        """The ends of the logs, for progress reports."""
        return self._frozen or self._ends()

    def commit(self, end: Offset) -> None:
        """Nothing to release: the log is not ours."""

    # ---- batches

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Splits of the bytes between two offsets."""
        with noted():
            return [*self.splits(start, end)]

    def splits(self, start: Offset, end: Offset) -> Iterator[Split]:
        """The splits between two offsets, file by file."""
        size = option_number(self.options, "splitbytes", least=1) or SPLIT_BYTES
        for path, stop in sorted(end.items()):
            begin = self._begin(path, start.get(path))
            files, store = log_files(path)
            for file in files:
                first, last = max(begin, file.start), min(stop, file.start + file.length)
                for at in range(first, last, size):
                    span = (at - file.start, min(at + size, last) - file.start)
                    # Ends of a batch lie between records: nothing to look for, nothing behind.
                    yield Split(file, span, store, exact=at == first, follow=at + size < last)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Arrow batches of one split."""
        if isinstance(partition, Split):
            settle()
            with noted():
                if not self._is_lost(partition):
                    yield from read_split(
                        partition, self._plain.names, self._plain.wanted, self.options
                    )

    def _is_lost(self, split: Split) -> bool:
        """Whether a split's file was removed since it was planned. StoreError unless allowed."""
        path = Path(split.path)
        # A store that is away as a whole (a mount, a wrong path on this worker) is no old file.
        if path.exists() or not path.parent.is_dir():
            return False
        if not self.keeps_on:
            raise lost(split.store, split.base + split.start, split.base + split.end)
        return True

    # ---- the logs

    def _paths(self) -> list[str]:
        return [os.path.realpath(path) for path in self._plain.paths]

    def _ends(self) -> Offset:
        return {
            path: self._end(path, first_offset(path), None)
            for path in self._paths()
            if log_files(path)[0]
        }

    def _end(self, path: str, begin: int, limit: int | None) -> int:
        """The end of a batch of one store; walks the tail on from where the last look ended."""
        files, _ = log_files(path)
        end, tail = batch_end(files, begin, limit, self._walked.get(path, 0))
        if tail:
            self._walked[path] = end
        return end

    def _begin(self, path: str, begin: int | None) -> int:
        """``begin``, or the first byte left if the files before it are gone and that is allowed."""
        first = first_offset(path)
        if begin is None or begin >= first:
            return first if begin is None else begin
        if not self.keeps_on:
            raise lost(path, begin, first)
        return first


def lost(path: str, begin: int, end: int) -> StoreError:
    """What to raise for bytes of the log that are gone."""
    return StoreError(
        f"{path}: physical offsets {begin} to {end} were removed before they were read",
        "start anew with another checkpoint, or set failOnDataLoss=false to go on behind",
        path=path,
        physical_offset=begin,
    )


def first_offset(path: str) -> int:
    """The physical offset of the first byte a store still holds, 0 without files."""
    files, _ = log_files(path)
    return files[0].start if files else 0


def batch_end(
    files: list[LogFile], begin: int, limit: int | None, walked: int = 0
) -> tuple[int, bool]:
    """A place between two records at or behind ``limit``, at most the end of the log.

    Returns it and whether it is the end of the log. ``limit`` None asks for that; ``begin`` must
    lie between two records, or at the begin of a file; up to ``walked`` the tail is known.
    """
    end = begin
    for number, file in enumerate(files):
        stop = file.start + file.length
        if stop <= begin:
            continue
        followed = any(map(_begins, files[number + 1 :]))
        position = max(begin - file.start, 0)
        if limit is not None and limit < stop:
            at = _next_record(file, max(limit - file.start, position + 1))
            if at is not None:
                return file.start + at, False
        if not followed:
            return max(end, _tail(file, max(position, walked - file.start))), True
        end = stop
        if limit is not None and limit <= end:
            return end, False
    return end, True


def _begins(file: LogFile) -> bool:
    """Whether a record stands at the begin of a file."""
    view = map_file(file.path)
    return view is not None and plausible(view, 0, file.start)


def _next_record(file: LogFile, position: int) -> int | None:
    """The first record at or behind a position of a file, None if there is none."""
    from broker.store.format.columns import first_record

    view = map_file(file.path)
    if view is None:
        return None
    found = first_record(view, position, file.start)
    return found if found >= 0 and plausible(view, found, file.start) else None


def _tail(file: LogFile, position: int) -> int:
    """Physical offset behind the last whole record of the last file.

    Damages in the midst of it are passed; what is torn at its end is not.
    """
    from broker.store.format.columns import scan_columns

    view: Any = map_file(file.path)
    if view is None:
        return file.start + position
    end = position
    last = -1
    for batch in scan_columns(view, file.start, position, what=0):
        if batch.count:
            last = int(batch.column("position")[-1])
            end = last + int(batch.column("total_size")[-1])
        for damage in batch.damages:
            if not damage.at_end:
                end = max(end, damage.physical_offset + damage.length - file.start)
    if blank_at(view, end):
        return file.start + len(view)  # the next file goes on behind it
    if last >= 0 and is_torn(view, last, end):
        end = last
    return file.start + end


def is_torn(view: Any, position: int, end: int) -> bool:
    """Whether the last record of the log may still be on its way into the file.

    Its lengths stand already; body or properties may lack. No property string ends in a zero.
    """
    from broker.store.format.commitlog import check_record, read_record

    if check_record(view, position) <= 0:
        return True
    return bool(read_record(view, position).properties) and view[end - 1] == 0
