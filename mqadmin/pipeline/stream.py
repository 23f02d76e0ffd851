"""The streaming side of ``rocketmq-store``: follow the logs of live brokers, each message once.

The offset of a stream is, for every store directory, the physical offset up to which it was read:
``{"/data/store": 1073741824}``. A record is read in the batch in which it *ends* before the end
offset; ends lie between records, so restarts, file rolls and removed old files neither lose nor
double a message. A torn or half-written record at the tail is not an error: the end stays before
it until it is whole.

``maxBytesPerTrigger`` bounds one batch. Data is read as soon as it is in the page cache, flushed or
not, as the broker's own consumers do.

Where old files were removed before they were read, the stream fails, unless ``failOnDataLoss`` is
``false``; then it goes on at the first byte that is left.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from broker.errors import StoreError
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.pipeline.source import (
    SPLIT_BYTES,
    Split,
    StoreReader,
    map_file,
    option_paths,
    option_true,
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
        self._frozen: Offset | None = None
        # How far the log was already walked, by store: a walk goes on there.
        self._walked: Offset = {}

    # ---- offsets

    def initialOffset(self) -> Offset:
        """The first byte that the stores still hold (``startingOffsets=latest``: their ends)."""
        if self.options.get("startingoffsets") == "latest":
            return self._ends()
        return {path: first_offset(path) for path in self._paths()}

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxBytesPerTrigger``, 1 GiB if not given."""
        return ReadMaxBytes(int(self.options.get("maxbytespertrigger", MAX_BYTES_PER_TRIGGER)))

    def prepareForTriggerAvailableNow(self) -> None:
        """Keep the present ends: the run stops there, however the logs grow."""
        self._frozen = self._ends()

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        """Where the next batch ends: at most the limit behind ``start``, between two records."""
        allowed = None if isinstance(limit, ReadAllAvailable) else getattr(limit, "max_bytes", None)
        found = dict(start)
        for path in self._paths():
            begin = self._begin(path, start.get(path, first_offset(path)))
            end = self._frozen.get(path, begin) if self._frozen is not None else None
            if allowed == 0:
                found[path] = begin
                continue
            if allowed is None:
                found[path] = self._end(path, begin) if end is None else max(begin, end)
                continue
            stop = record_end(path, begin, begin + allowed)
            if end is not None:
                stop = min(stop, end)
            found[path] = max(stop, begin)
            allowed = max(0, allowed - (found[path] - begin))
        return found

    def reportLatestOffset(self) -> Offset | None:
        """The ends of the logs, for progress reports."""
        return self._frozen or self._ends()

    def commit(self, end: Offset) -> None:
        """Nothing to release: the log is not ours."""

    # ---- batches

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """Splits of the bytes between two offsets."""
        size = int(self.options.get("splitbytes", SPLIT_BYTES))
        splits: list[InputPartition] = []
        for path, stop in sorted(end.items()):
            directory = StoreDirectory(path)
            begin = self._begin(path, start.get(path, 0))
            for file in directory.log_files():
                first, last = max(begin, file.start), min(stop, file.start + file.length)
                for at in range(first, last, size):
                    splits.append(
                        Split(
                            str(file.path),
                            file.start,
                            at - file.start,
                            min(at + size, last) - file.start,
                            str(directory.root or directory.path),
                        )
                    )
        return splits

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        """Arrow batches of one split."""
        if isinstance(partition, Split):
            settle()
            yield from read_split(partition, self._plain.names, self._plain.wanted, self.options)

    # ---- the logs

    def _paths(self) -> list[str]:
        return [os.path.realpath(path) for path in option_paths(self.options)]

    def _ends(self) -> Offset:
        return {path: self._end(path, first_offset(path)) for path in self._paths()}

    def _end(self, path: str, begin: int) -> int:
        """The end of the log of one store; walks on from where the last look ended."""
        walked = max(begin, self._walked.get(path, begin))
        self._walked[path] = record_end(path, walked, None)
        return self._walked[path]

    def _begin(self, path: str, begin: int) -> int:
        """``begin``, or the first byte left if the files before it are gone and that is allowed."""
        first = first_offset(path)
        if begin >= first:
            return begin
        if option_true({"loss": self.options.get("failondataloss", "true")}, "loss"):
            raise StoreError(
                f"{path}: physical offsets {begin} to {first} were removed before they were read",
                "start anew with another checkpoint, or set failOnDataLoss=false to go on behind",
                path=path,
            )
        return first


def first_offset(path: str) -> int:
    """The physical offset of the first byte a store still holds, 0 without files."""
    files = StoreDirectory(path).log_files()
    return files[0].start if files else 0


def record_end(path: str, begin: int, limit: int | None) -> int:
    """Where the last whole record ends that lies between ``begin`` and ``limit`` (None: all).

    ``begin`` must lie between two records, or at the begin of a file. Damages in the midst of
    the log are passed; what is torn at its end is not.
    """
    end = begin
    for file in StoreDirectory(path).log_files():
        if file.start + file.length <= begin:
            continue
        if limit is not None and file.start >= limit:
            break
        stop, goes_on = _file_end(file.path, file.start, max(begin - file.start, 0), limit)
        end = max(end, file.start + stop)
        if not goes_on:
            break
    return end


def _file_end(path: Any, base: int, position: int, limit: int | None) -> tuple[int, bool]:
    """End of the records of one file, and whether the next file goes on."""
    from broker.store.format.columns import scan_columns

    view = map_file(str(path))
    if view is None:
        return position, False
    allowed = len(view) if limit is None else min(len(view), limit - base)
    end = position
    for batch in scan_columns(view, base, position, what=0):
        starts, sizes = batch.column("position"), batch.column("total_size")
        ends = starts + sizes
        within = ends <= allowed
        if batch.count and within.any():
            end = max(end, int(ends[within][-1]))
        elif batch.count and end == position:
            # One record is longer than the limit: a batch without it would never get past it.
            return int(ends[0]), False
        if batch.count and not within.all():
            return end, False
        for damage in batch.damages:
            after = damage.physical_offset + damage.length - base
            if not damage.at_end and after <= allowed:
                end = max(end, after)
        if batch.next_position >= allowed:
            break
    # A blank record holds no messages: it never counts against the limit.
    return (len(view), True) if has_blank(view, end) else (end, False)


def has_blank(view: Any, position: int) -> bool:
    """Whether a blank record that ends the file stands at ``position``."""
    from broker.errors import RemoteProtocolError
    from broker.store.format.commitlog import decode_blank

    try:
        return decode_blank(view, position) == len(view) - position
    except RemoteProtocolError:
        return position == len(view)
