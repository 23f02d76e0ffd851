"""Compare ConsumeQueues with the log: each unit has its record, each record its unit.

Records are compared with their units (:meth:`Queue.match`, for batches
``vectorized.queue_columns``); a unit that matches is marked as seen. After the scan,
:class:`~mqadmin.inspector.verify.verdict.Verdict` examines the units that were not seen: they are
stale, wrong, or belong to a damaged record. Deviations are stored as runs, so that a lost queue
of millions of records needs one row.

Not every record has a unit. Records of a deleted topic have none; records of a topic that was
deleted and recreated share their queue offsets with newer ones; the last records may not be
dispatched yet. Each rule is documented where it is applied.
"""

import functools
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from broker.errors import StoreError
from broker.store.format.commitlog import file_start
from broker.store.format.consumequeue import (
    BATCH_UNIT_SIZE,
    PRE_BLANK_SIZE,
    UNIT_SIZE,
    UNIT_STRUCT,
    BatchConsumeQueueUnit,
    ConsumeQueueUnit,
    holds_unit,
    scan_batch_units,
)
from mqadmin.inspector.damage import WARNING, damage_row
from mqadmin.inspector.directory import QueueFiles, StoreDirectory
from mqadmin.inspector.files import FileBytes, file_length, open_bytes
from mqadmin.inspector.store_manifest import DeletedTopics, read_queue_ends
from mqadmin.inspector.verify.report import Findings

# Result of comparing a record with the unit at its queue offset.
FINE: Final = 0
MISSING: Final = 1  # no unit at the queue offset
OTHER: Final = 2  # a unit of another record
TAGS: Final = 3  # its unit, with another tags code

OPEN_FILES: Final = 256
_ZEROS: Final = bytes(1 << 16)


class Run(NamedTuple):
    """Records with consecutive queue offsets that deviate in one way."""

    code: int
    first: int
    last: int
    first_physical: int
    last_physical: int

    @property
    def records(self) -> int:
        """How many records."""
        return self.last - self.first + 1


class UnitFile:
    """One file of a SimpleCQ: the queue offset of its first unit, and which units were seen.

    ``count`` includes the last unit that is not empty. Files whose units were all seen share one
    array of marks per length, so that memory does not grow with the log.
    """

    __slots__ = ("_left", "count", "first", "path", "seen")

    def __init__(self, path: Path, first: int, file: FileBytes) -> None:
        self.path = path
        self.first = first
        self.count = written_units(file)
        self.seen: bytes | bytearray = bytearray(self.count)
        self._left = self.count

    def mark(self, at: int) -> None:
        """Mark the unit at position ``at`` of the file as seen."""
        if isinstance(self.seen, bytearray):
            self.seen[at] = 1
            self.seal(1)

    def seal(self, marked: int) -> None:
        """Count units marked as seen; once all are, one shared value replaces the marks."""
        self._left -= marked
        if self._left <= 0:
            self._left = self.seen.count(0)  # a unit may have been marked twice
            if self._left == 0:
                self.seen = _all_seen(self.count)


@functools.lru_cache(maxsize=4)
def _all_seen(count: int) -> bytes:
    return b"\1" * count


def written_units(file: FileBytes) -> int:
    """Return the number of units of a file of a SimpleCQ up to the last one that is not empty."""
    end = file.data_end // UNIT_SIZE * UNIT_SIZE
    # Backwards, in blocks: files are created at their full length, most of it empty.
    while end > 0:
        begin = max(end - len(_ZEROS), 0)
        piece = bytes(file.data[begin:end])
        if piece != _ZEROS[: end - begin]:
            count = -(-(begin + len(piece.rstrip(b"\0"))) // UNIT_SIZE)
            return count if count > 1 or holds_unit(bytes(file.data[:UNIT_SIZE])) else 0
        end = begin
    return 0


class OpenFiles:
    """A bounded cache of open files; the file opened first is closed first."""

    def __init__(self, most: int = OPEN_FILES) -> None:
        self._max = most
        self._open: dict[Path, tuple[FileBytes, ExitStack]] = {}

    def get(self, path: Path) -> FileBytes:
        """Return the bytes of a file; empty if it cannot be read."""
        known = self._open.get(path)
        if known is not None:
            return known[0]
        if len(self._open) >= self._max:
            self._open.pop(next(iter(self._open)))[1].close()
        stack = ExitStack()
        try:
            file = stack.enter_context(open_bytes(path))
        except StoreError:
            return FileBytes(path, b"", 0)
        self._open[path] = file, stack
        return file

    def close(self) -> None:
        """Close them all."""
        for _, stack in self._open.values():
            stack.close()
        self._open.clear()


class Queue:
    """One ConsumeQueue under verification."""

    def __init__(self, found: QueueFiles, files: OpenFiles) -> None:
        self.found = found
        self.topic = found.topic
        self.queue_id = found.queue_id
        self.is_batch = found.kind == "batch"
        self.open = files
        self.runs: list[Run] = []
        self.deferred: list[Run] | None = None
        self.files: list[UnitFile] = []
        self.batch_units: dict[int, tuple[BatchConsumeQueueUnit, Path]] = {}
        self.batch_seen: set[int] = set()
        if not self.is_batch:
            self.files = [
                UnitFile(path, start // UNIT_SIZE, files.get(path)) for path, start in found.files
            ]

    def load_batches(self, findings: Findings) -> None:
        """Read all units of a BatchConsumeQueue into memory: one unit covers many messages."""
        for path, start in self.found.files:
            for unit in scan_batch_units(self.open.get(path).data, start):
                if isinstance(unit, BatchConsumeQueueUnit):
                    self.batch_units.setdefault(unit.base_offset, (unit, path))
                elif unit.kind == "unit":
                    findings.take(damage_row(unit, str(path)))
                    findings.broken_queues.add((self.topic, self.queue_id))

    def file_of(self, queue_offset: int) -> UnitFile | None:
        """Return the file that contains a queue offset, None if there is none."""
        for file in self.files:
            if file.first <= queue_offset < file.first + file.count:
                return file
        return None

    def unit(self, queue_offset: int) -> ConsumeQueueUnit | None:
        """Return the unit at a queue offset, None outside the files."""
        file = self.file_of(queue_offset)
        if file is None:
            return None
        data = self.open.get(file.path).data
        at = (queue_offset - file.first) * UNIT_SIZE
        if at + UNIT_SIZE > len(data):
            return None
        return ConsumeQueueUnit._make(UNIT_STRUCT.unpack_from(data, at))

    def is_renamed_at(self, queue_offset: int, own_offset: int) -> bool:
        """Whether the queue's only unit is in a file that seems to have the name of another one.

        ``own_offset``, the queue offset in its record, then differs by a multiple of the file's
        units.
        """
        file = self.file_of(queue_offset)
        if file is None or sum(each.count for each in self.files) > 1:
            return False
        units = len(self.open.get(file.path).data) // UNIT_SIZE
        return own_offset != queue_offset and (own_offset - queue_offset) % units == 0

    def path_of(self, queue_offset: int) -> Path:
        """Return the file that contains a queue offset, the directory if there is none."""
        file = self.file_of(queue_offset)
        return self.found.path if file is None else file.path

    def was_seen(self, queue_offset: int) -> bool:
        """Whether the record of the unit at a queue offset was scanned."""
        file = self.file_of(queue_offset)
        return file is not None and bool(file.seen[queue_offset - file.first])

    def match(self, queue_offset: int, physical_offset: int, size: int, tags: int | None) -> int:
        """Compare a record with its unit and mark the unit; returns FINE, MISSING, OTHER or TAGS.

        ``tags`` None skips the comparison of the tags code.
        """
        file = self.file_of(queue_offset)
        unit = None if file is None else self.unit(queue_offset)
        code = FINE
        if file is None or unit is None or unit.size in (0, PRE_BLANK_SIZE):
            code = MISSING
        elif (unit.physical_offset, unit.size) != (physical_offset, size):
            code = OTHER
        else:
            file.mark(queue_offset - file.first)
            if tags is not None and unit.tags_code != tags:
                code = TAGS
        if code != FINE:
            self.add_run(Run(code, queue_offset, queue_offset, physical_offset, physical_offset))
        return code

    def add_run(self, run: Run) -> None:
        """Add a deviating record, at once or when the records before it have been compared."""
        if self.deferred is None:
            self.join_run(run)
        else:
            self.deferred.append(run)

    def take_deferred(self) -> list[Run]:
        """Remove and return the deferred runs."""
        deferred = self.deferred
        if not deferred:
            return []
        self.deferred = []
        return deferred

    def join_run(self, run: Run) -> None:
        """Add deviating records in log order; consecutive runs of one code are merged."""
        if self.runs:
            last = self.runs[-1]
            if last.code == run.code and last.last + 1 == run.first:
                self.runs[-1] = last._replace(last=run.last, last_physical=run.last_physical)
                return
        self.runs.append(run)


def usual_lengths(store: StoreDirectory) -> dict[str, int]:
    """Return the most common file length of "classic" and "batch" queues, 0 without files.

    A broker uses one length for all queues and does not load files of another length. Of equally
    common lengths it is the one in queueEnds.json, else the longest: shorter files were truncated.
    A length that is not a number of units cannot be set.
    """
    _, *recorded = read_queue_ends(store).file_sizes
    lengths: dict[str, Counter[int]] = {"classic": Counter(), "batch": Counter()}
    for queue in store.queue_files():
        size = BATCH_UNIT_SIZE if queue.kind == "batch" else UNIT_SIZE
        found = [file_length(path) or 0 for path, _ in queue.files]
        lengths[queue.kind].update(length for length in found if length and length % size == 0)
    return {
        kind: max(counts, key=lambda length: (counts[length], length == noted, length), default=0)
        for (kind, counts), noted in zip(lengths.items(), recorded, strict=True)
    }


class MissingQueue(NamedTuple):
    """Records of a queue that has no files."""

    records: int
    first: int
    last: int
    first_physical: int
    last_physical: int

    def joined(self, other: "MissingQueue") -> "MissingQueue":
        """Return the union of both."""
        return MissingQueue(
            self.records + other.records,
            min(self.first, other.first),
            max(self.last, other.last),
            min(self.first_physical, other.first_physical),
            max(self.last_physical, other.last_physical),
        )


class QueueTable:
    """All ConsumeQueues of a store, by (topic, queue id)."""

    def __init__(
        self,
        store: StoreDirectory,
        topic: str | None,
        findings: Findings,
        *,
        running: bool = False,
    ) -> None:
        self.files = OpenFiles()
        self.running = running
        self.findings = findings
        self.topic = topic
        self.queues: dict[tuple[bytes, int], Queue] = {}
        self.batch_topics: set[bytes] = set()
        self.absent: dict[tuple[bytes, int], MissingQueue] = {}
        self.deferred: dict[tuple[bytes, int], list[tuple[int, int]]] | None = None
        self.matched_end = 0
        self.root = store.root
        self.recorded = read_queue_ends(store)
        self.deleted = DeletedTopics(self.recorded.deleted)
        # topic -> end of its last record before queue offsets restarted at 0, of absent queues
        self.restarts: dict[bytes, int] = {}
        self._usual = usual_lengths(store)
        for found in store.queue_files(topic):
            if self._files_are_sound(found) or found.files:
                queue = Queue(found, self.files)
                for path, _ in found.files:
                    if not len(self.files.get(path)) and file_length(path):
                        self.report_unreadable(path)
                raw = found.topic.encode("utf-8", "surrogateescape")
                self.queues[raw, found.queue_id] = queue
                if queue.is_batch:
                    self.batch_topics.add(raw)
                    queue.load_batches(findings)

    def is_known(self, topic: bytes, queue_id: int) -> bool:
        """Whether the queue has files, or had units when the broker stopped."""
        name = topic.decode("utf-8", "surrogateescape")
        return (topic, queue_id) in self.queues or (name, queue_id) in self.recorded.queues

    def report_unreadable(self, path: Path) -> None:
        """Report a file whose units are not verified."""
        self.findings.add("unreadable", path, f"cannot read {path}: its units are unknown")

    def __iter__(self) -> Iterator[Queue]:
        return iter(self.queues.values())

    def close(self) -> None:
        """Close the files."""
        self.files.close()

    def is_wanted(self, topic: bytes) -> bool:
        """Whether a topic is in the scope of the verification."""
        return self.topic is None or topic == self.topic.encode("utf-8", "surrogateescape")

    def defer(self) -> None:
        """Keep deviations that are found one by one until :meth:`join_deferred`.

        The fast path compares plain records later than the others of the same queue: deviations
        are merged in the order of the log, so that both paths report the same.
        """
        self.deferred = {}
        for queue in self:
            queue.deferred = []

    def take_deferred(self, key: tuple[bytes, int]) -> list[tuple[int, int]]:
        """Remove and return (queue, physical offset) of the deferred records of an absent queue."""
        return self.deferred.pop(key, []) if self.deferred else []

    def join_deferred(self) -> None:
        """Add the deviations that are still deferred: all records before them were compared."""
        for queue in self:
            for run in queue.take_deferred():
                queue.join_run(run)
        for key in list(self.deferred or ()):
            for offset, physical in self.take_deferred(key):
                self.join_absent(key, MissingQueue(1, offset, offset, physical, physical))

    def lacks(self, key: tuple[bytes, int], queue_offset: int, physical_offset: int) -> None:
        """Add a record of a queue without files, at once or by :meth:`join_deferred`."""
        if self.deferred is None:
            only = MissingQueue(1, queue_offset, queue_offset, physical_offset, physical_offset)
            self.join_absent(key, only)
        else:
            self.deferred.setdefault(key, []).append((queue_offset, physical_offset))

    def join_absent(self, key: tuple[bytes, int], absent: MissingQueue) -> None:
        """Add records of a queue without files, in the order of the log.

        Queue offsets that restart at 0 show that the topic was recreated: the records added before
        belong to the deleted topic.
        """
        known = self.absent.get(key)
        if known is not None and absent.first == 0 and absent.first_physical > known.last_physical:
            self.note_deleted(key[0], known.last_physical, known.records)
            known = None
        self.absent[key] = absent if known is None else known.joined(absent)

    def note_deleted(self, topic: bytes, last_physical: int, records: int = 1) -> None:
        """Count records of a deleted topic that was recreated; the last is at ``last_physical``."""
        self.deleted.records += records
        self.restarts[topic] = max(last_physical + 1, self.restarts.get(topic, 0))

    def _files_are_sound(self, found: QueueFiles) -> bool:
        """Report files that a broker would not load, and gaps; False if any was reported."""
        size = BATCH_UNIT_SIZE if found.kind == "batch" else UNIT_SIZE
        lengths = [file_length(path) or 0 for path, _ in found.files]
        usual = self._usual[found.kind]
        sound = True
        key = (found.topic, found.queue_id)
        for path in sorted(found.path.iterdir()):
            if path.is_dir() or file_start(path.name) is None:
                sound = self._file_finding(key, path, "not named after its first byte")
        for (path, start), length in zip(found.files, lengths, strict=True):
            if self.running and path == found.files[-1][0]:
                continue  # the broker may be creating it
            if length != usual or length % size:
                sound = self._file_finding(
                    key,
                    path,
                    f"the file has {length} bytes, the others have {usual}",
                    start + length,
                )
            elif usual and start % usual:
                sound = self._file_finding(key, path, f"no file of {usual} bytes begins at {start}")
        for (_, before), (path, start) in zip(found.files, found.files[1:], strict=False):
            if usual and start - before != usual:
                detail = (
                    f"the file before it begins at {before}: this one should at {before + usual}"
                )
                sound = self._file_finding(key, path, detail, start)
        return sound

    def _file_finding(
        self, key: tuple[str, int], path: Path, detail: str, at: int | None = None
    ) -> bool:
        self.findings.add("queueFiles", path, detail, file_position=at, severity=WARNING, queue=key)
        return False
