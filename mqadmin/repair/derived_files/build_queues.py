"""Write ConsumeQueues: the units of records in log order, queue by queue."""

from typing import Any, Final

from broker.common.java import INT32_MAX, parse_number
from broker.message.properties import peek_property
from broker.store.format.commitlog import LogRecord, file_name
from broker.store.format.consumequeue import (
    BATCH_FILE_SIZE,
    BATCH_UNIT_STRUCT,
    FILE_SIZE,
    PRE_BLANK,
    UNIT_SIZE,
    UNIT_STRUCT,
)
from mqadmin.inspector.directory import StoreDirectory
from mqadmin.inspector.files import FileBytes
from mqadmin.inspector.log import LogReader
from mqadmin.inspector.store_manifest import DeletedTopics
from mqadmin.inspector.verify.log_walk import Selection, messages_in
from mqadmin.inspector.verify.queue_checks import OpenFiles, Queue
from mqadmin.inspector.verify.record_checks import RecordChecks, tags_code
from mqadmin.inspector.verify.report import Findings
from mqadmin.repair.files import Blocks, Output
from mqadmin.system_topics.delay_levels import DELAY_LEVELS, parse_levels

OPEN_QUEUES: Final = 256
PART_KEYS: Final = 8192

QueueKey = tuple[str, int]


class QueueWriter:
    """Writes one SimpleCQ in the order of its queue offsets.

    ``bridged`` counts filler units, which replace lost messages; ``units`` all others. ``first`` is
    the first queue offset of the first file, ``next`` the queue offset after the last unit; -1 as
    long as no unit is written.
    """

    is_batch = False

    def __init__(self, table: "BuildTable", key: QueueKey, file_size: int) -> None:
        self.table = table
        self.key = key
        self.folder = f"consumequeue/{key[0]}/{key[1]}"
        self.file_size = file_size
        self.first = -1
        self.next = -1
        self.units = 0
        self.bridged = 0
        self._doubtful: tuple[int, bytes] | None = None

    def match(self, queue_offset: int, physical_offset: int, size: int, tags: int | None) -> int:
        """Add one record's unit to ``pending``; nothing is compared (returns FINE, 0)."""
        unit = (queue_offset, physical_offset, size, tags or 0)
        self.table.pending.append((self.key, *unit))
        return 0

    def unit(self, queue_offset: int) -> None:
        """Return None: units cannot be read while a queue is built."""

    def add(self, first: int, data: bytes) -> None:
        """Append units of consecutive queue offsets from ``first``; calls are in log order.

        A single unit that does not continue the queue is deferred. If the units after it leave a
        gap of one for it, its queue offset is corrupt (correction in the table's ``fixes``); if
        they continue the queue without it, it is dropped; else it is written where it is.
        """
        doubtful, self._doubtful = self._doubtful, None
        if doubtful is not None:
            if first == self.next + 1:
                self.table.fixes.append((UNIT_STRUCT.unpack(doubtful[1])[0], self.next))
                self._add(self.next, doubtful[1])
            elif first != self.next or first == doubtful[0] + 1:
                self._add(*doubtful)
            elif first + len(data) // UNIT_SIZE == doubtful[0]:
                self._add(first, data)  # both are in reverse order in the log
                self._add(*doubtful)
                return
        if len(data) == UNIT_SIZE and self.next >= 0 and first != self.next:
            self._doubtful = first, data
            return
        self._add(first, data)

    def finish(self) -> None:
        """Write the deferred unit, if any."""
        if self._doubtful is not None:
            self._add(*self._doubtful)
            self._doubtful = None

    def _add(self, first: int, data: bytes) -> None:
        count = len(data) // UNIT_SIZE
        if self.next < 0:
            self._begin(first, data[:UNIT_SIZE])
        elif first > self.next:
            # The messages in between are lost: filler units repeat the next unit.
            self.bridged += first - self.next
            self._put(self.next, data[:UNIT_SIZE] * (first - self.next))
        elif first < self.next:
            self._restart(first)
        self._put(first, data)
        self.next = first + count
        self.units += count

    def _begin(self, first: int, unit: bytes) -> None:
        start = first * UNIT_SIZE // self.file_size * self.file_size // UNIT_SIZE
        self.first = start
        if first == start:
            return
        if self.table.log_start > 0:
            self._put(start, PRE_BLANK * (first - start))
            return
        # The log starts at 0: pre-blank units would count as units of a record at offset 0.
        self.bridged += first - start
        self._put(start, unit * (first - start))

    def _restart(self, first: int) -> None:
        """Restart at ``first``: the topic was recreated, or the queue truncated there."""
        self.units -= max(self.next - max(first, self.first), 0)
        self.table.cut(self, first)
        if first < self.first:
            self.first = self.next = -1
            self.units = self.bridged = 0
            self._begin(first, PRE_BLANK)

    def _put(self, first: int, data: bytes) -> None:
        view = memoryview(data)
        at = first * UNIT_SIZE
        while len(view):
            start = at - at % self.file_size
            piece = view[: self.file_size - (at - start)]
            self.table.blocks(self, start).put(at - start, piece)
            at += len(piece)
            view = view[len(piece) :]


class BatchWriter:
    """Writes one BatchConsumeQueue: contiguous 46-byte units."""

    is_batch = True

    def __init__(self, table: "BuildTable", key: QueueKey, file_size: int) -> None:
        self.table = table
        self.key = key
        self.folder = f"batchconsumequeue/{key[0]}/{key[1]}"
        self.file_size = file_size
        self.units = 0
        self.bridged = 0
        self.next = -1  # queue offset after the last unit
        self._at = 0
        self.batch_units: dict[int, Any] = {}

    def add_record(self, record: LogRecord) -> None:
        """Append the unit of one record."""
        count = messages_in(record)
        unit = BATCH_UNIT_STRUCT.pack(
            record.physical_offset,
            record.total_size,
            tags_code(record),
            record.store_timestamp,
            record.queue_offset,
            count,
            -1,
            0,
        )
        start = self._at - self._at % self.file_size
        self.table.blocks(self, start).put(self._at - start, unit)
        self._at += len(unit)
        self.next = record.queue_offset + count
        self.units += 1


Writer = QueueWriter | BatchWriter


class BuildTable:
    """The queues to build, with the interface of QueueTable that RecordChecks uses.

    ``sizes`` are the file lengths of SimpleCQs and BatchConsumeQueues in bytes; ``deleted`` maps a
    topic to the physical offset below which its records are skipped.
    """

    def __init__(
        self,
        output: Output,
        keys: set[QueueKey],
        batch_topics: set[str],
        sizes: tuple[int, int] = (FILE_SIZE, BATCH_FILE_SIZE),
        deleted: dict[bytes, int] | None = None,
    ) -> None:
        self.output = output
        self.topic = None
        self.root = output.root
        self.matched_end = 0
        self.log_start = 0
        self.deleted = DeletedTopics(deleted or {})
        self.batch_topics = {topic.encode() for topic in batch_topics}
        self.pending: list[tuple[QueueKey, int, int, int, int]] = []
        # (physical offset, correct queue offset) of records with a corrupt queue offset
        self.fixes: list[tuple[int, int]] = []
        self.queues: dict[tuple[bytes, int], Writer] = {}
        for key in sorted(keys):
            raw = key[0].encode("utf-8", "surrogateescape")
            writer: Writer
            if raw in self.batch_topics:
                writer = BatchWriter(self, key, sizes[1])
            else:
                writer = QueueWriter(self, key, sizes[0])
            self.queues[raw, key[1]] = writer
        self._open: dict[tuple[str, int], Blocks] = {}
        self._made: set[tuple[str, int]] = set()

    def is_wanted(self, topic: bytes) -> bool:
        """Return True: records of every topic may be dispatched to LMQs."""
        return True

    def is_known(self, topic: bytes, queue_id: int) -> bool:
        """Whether the queue is rebuilt."""
        return (topic, queue_id) in self.queues

    def lacks(self, key: tuple[bytes, int], queue_offset: int, physical_offset: int) -> None:
        """Ignore records of a queue that is not rebuilt."""

    def blocks(self, writer: Writer, start: int) -> Blocks:
        """Return the open file of a queue at ``start`` (file position); created at first use."""
        place = (writer.folder, start)
        blocks = self._open.get(place)
        if blocks is not None:
            return blocks
        if len(self._open) >= OPEN_QUEUES:
            self._open.pop(next(iter(self._open))).close()
        name = f"{writer.folder}/{file_name(start)}"
        if place in self._made:
            blocks = self.output.open(name)
        else:
            blocks = self.output.create(name, writer.file_size)
            self._made.add(place)
        self._open[place] = blocks
        return blocks

    def cut(self, writer: QueueWriter, queue_offset: int) -> None:
        """Remove the units of a queue from ``queue_offset``."""
        end = queue_offset * UNIT_SIZE
        for folder, start in [place for place in self._made if place[0] == writer.folder]:
            if start >= end:
                open_file = self._open.pop((folder, start), None)
                if open_file is not None:
                    open_file.close()
                (self.output.root / folder / file_name(start)).unlink()
                self._made.discard((folder, start))
            elif start + writer.file_size > end:
                self.blocks(writer, start).clear(end - start, writer.file_size)

    def write_pending(self) -> None:
        """Write the units of single records."""
        for key, offset, physical, size, tags in self.pending:
            writer = self.queues[key[0].encode("utf-8", "surrogateescape"), key[1]]
            assert isinstance(writer, QueueWriter)
            writer.add(offset, UNIT_STRUCT.pack(physical, size, tags))
        self.pending.clear()

    def close(self) -> None:
        """Close the files."""
        for blocks in self._open.values():
            blocks.close()
        self._open.clear()


class OldUnits:
    """Reads tags codes of units of the damaged store that still match their records."""

    def __init__(self, source: StoreDirectory) -> None:
        self._files = OpenFiles()
        self._queues: dict[QueueKey, Queue] = {}
        for found in source.queue_files():
            if found.kind == "classic":
                self._queues[found.topic, found.queue_id] = Queue(found, self._files)

    def tags_code(self, wanted: Selection, record: LogRecord) -> int | None:
        """Return the tags code in the old unit of a record, None if the unit does not match."""
        queue = self._queues.get((wanted.topic.decode("utf-8", "surrogateescape"), wanted.queue_id))
        unit = None if queue is None else queue.unit(wanted.queue_offset)
        if unit is None or unit[:2] != (record.physical_offset, record.total_size):
            return None
        return unit.tags_code

    def close(self) -> None:
        """Close the files."""
        self._files.close()


class BuildRecords(RecordChecks):
    """Passes the units of single records to the writers."""

    def __init__(
        self, table: BuildTable, log: LogReader, old: OldUnits, delay_levels: str | None
    ) -> None:
        super().__init__(table, log, Findings())  # type: ignore[arg-type]
        self.table = table
        self.old = old
        self.levels = parse_levels(delay_levels or DELAY_LEVELS)

    def check_time(self, file: FileBytes, physical_offset: int, timestamp: int) -> None:
        """Track the newest storeTimestamp; its order is not checked here."""
        self.newest_timestamp = max(self.newest_timestamp, timestamp)

    def check_commit(self, file: FileBytes, record: LogRecord) -> None:
        """Do nothing: transactions are not checked here."""

    def _note_op(self, file: FileBytes, record: LogRecord) -> None:
        pass

    def _place_delayed(self, wanted: Selection, record: LogRecord) -> None:
        level = parse_number(peek_property(record.properties, b"DELAY") or b"", 1, INT32_MAX)
        if level is None:
            self._place(wanted, record, tags_code(record))
            return
        number = min(level, len(self.levels))
        due = record.store_timestamp + (self.levels[number - 1] if number else 1000)
        old = self.old.tags_code(wanted, record)
        # The old delivery time reflects the delay levels of that time. A tags hash or a corrupt
        # value is rejected: it is not a whole number of seconds, below 400 days, after the storing.
        if old is not None and 0 < old - record.store_timestamp < _LONGEST_DELAY_MS:
            delay = old - record.store_timestamp
            due = old if delay % 1000 == 0 else due
        self._place(wanted, record, due)

    def _place_batch(self, file: FileBytes, wanted: Selection, record: LogRecord) -> None:
        writer = self.table.queues.get((wanted.topic, wanted.queue_id))
        if isinstance(writer, BatchWriter):
            writer.add_record(record)
        elif writer is not None:
            self._place(wanted, record, tags_code(record))


_LONGEST_DELAY_MS: Final = 400 * 86_400_000
