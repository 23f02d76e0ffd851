"""RecordBlock: consecutive plain records that dispatch adds to their queues and the index at once.

Two sources queue blocks: vectorized ingest one per read, with units and index entries from compiled
loops, and a batch message one per part of its records. Dispatch adds a block with one call per
queue and one for the index; blocks of consecutive batch messages are joined before. Where a record
needs more (multi-dispatch, an extension unit, a queue or an index that has later records, any
error), the block is dispatched record by record as if it had never been one; records that are
dispatched already are then skipped.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from itertools import chain, islice, repeat
from operator import sub
from typing import Final, NamedTuple

from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.dispatch.request import PendingBatch, PendingRecord
from broker.store.format.consumequeue import UNIT_SIZE, UNIT_STRUCT
from broker.store.format.property_columns import PropertyColumns, peek_columns
from broker.store.index.index_service import IndexService

# In place of a sysFlag, it marks the entry of a block among pending records. A negative sysFlag has
# this bit, too: compare for equality.
BLOCK: Final = 1 << 40
# Records of a batch that are dispatched at once, about 1 ms.
BATCH_PART: Final = 512


class QueueUnits(NamedTuple):
    """Packed units of one queue from ``first_offset`` on; ``physical_end``: of the last record."""

    queue: ConsumeQueue
    first_offset: int
    units: bytes
    physical_end: int


class RecordBlock(NamedTuple):
    """Records from ``start`` to ``end``, physical offsets; ``store_timestamp`` (ms) of the last.

    ``units`` returns the units of each of ``queues``; ``expand`` returns one entry per record;
    ``put_keys`` adds the index entries to an index and is called only if the index has none of a
    later record. ``batches`` are the parts of batch messages whose records these are, if any.
    """

    start: int
    end: int
    store_timestamp: int
    records: int
    queues: Sequence[ConsumeQueue]
    units: Callable[[], Sequence[QueueUnits]]
    expand: Callable[[], Sequence[PendingRecord]]
    put_keys: Callable[[IndexService], None]
    batches: Sequence[PendingBatch] = ()

    @property
    def entry(self) -> PendingRecord:
        """The entry that represents the block among pending records."""
        size = self.end - self.start
        return (self.start, size, self.store_timestamp, BLOCK, 0, self.queues[0], b"", 0)


class PendingBlocks:
    """The blocks among the pending records, by physical offset.

    ``more`` is the number of their records without the one that each entry counts for.
    """

    __slots__ = ("_blocks", "more")

    def __init__(self) -> None:
        self._blocks: dict[int, RecordBlock] = {}
        self.more = 0

    def add(self, block: RecordBlock) -> PendingRecord:
        """Keep a block; return its entry."""
        self._blocks[block.start] = block
        self.more += block.records - 1
        return block.entry

    def get(self, physical_offset: int) -> RecordBlock:
        """Return the block that starts there."""
        return self._blocks[physical_offset]

    def remove(self, *starts: int) -> None:
        """Drop blocks that were dispatched."""
        for physical_offset in starts:
            self.more -= self._blocks.pop(physical_offset).records - 1

    def joined(
        self,
        entries: Sequence[PendingRecord],
        limit: int,
        most: int,
        tags_code: Callable[[bytes], int],
    ) -> RecordBlock | None:
        """Return one block for the blocks of batches at the start of pending records.

        These end at or before the physical offset ``limit``. Together they have ``most`` (and
        BATCH_PART) records, or more by the last block. None if there are fewer than two.
        """
        batches: list[PendingBatch] = []
        records = 0
        most = min(most, BATCH_PART)
        for entry in entries:
            if entry[3] != BLOCK or entry[0] + entry[1] > limit or records >= most:
                break
            block = self.get(entry[0])
            if not block.batches:
                break
            batches += block.batches
            records += block.records
        return _block(batches, tags_code) if len(batches) > 1 else None

    def clear(self) -> None:
        """Drop all blocks."""
        self._blocks.clear()
        self.more = 0

    def expanded(
        self, pending: Sequence[PendingRecord], topics: Container[str]
    ) -> Iterator[PendingRecord]:
        """Yield pending records; blocks with one of ``topics`` are replaced by their records."""
        for entry in pending:
            if entry[3] == BLOCK:
                block = self.get(entry[0])
                if any(queue.topic.name in topics for queue in block.queues):
                    self.remove(entry[0])
                    yield from block.expand()
                    continue
            yield entry


def batch_blocks(
    batch: PendingBatch, tags_code: Callable[[bytes], int], most: int = BATCH_PART
) -> Iterator[RecordBlock]:
    """Yield the blocks of a batch, of at most ``most`` records each; ``tags_code`` of TAGS."""
    for part in batch.split(most) if len(batch.properties) > most else (batch,):
        yield _block((part,), tags_code)


def _block(batches: Sequence[PendingBatch], tags_code: Callable[[bytes], int]) -> RecordBlock:
    """Return the block of consecutive batches.

    Units and keys are computed when it is dispatched: an error then concerns one record.
    """
    derived = _BatchRecords(batches, tags_code)
    return RecordBlock(
        batches[0].offsets[0],
        batches[-1].offsets[-1],
        batches[-1].store_timestamp,
        sum([len(batch.properties) for batch in batches]),
        list({batch.queue: None for batch in batches}),
        derived.units,
        derived.records,
        derived.put_keys,
        batches,
    )


class _BatchRecords:
    """Units and keys of the records of batches, from columns that are read once."""

    __slots__ = ("_batches", "_columns", "_tags_code")

    def __init__(self, batches: Sequence[PendingBatch], tags_code: Callable[[bytes], int]) -> None:
        self._batches = batches
        self._tags_code = tags_code
        self._columns: PropertyColumns | None = None

    def columns(self) -> PropertyColumns:
        if self._columns is None:
            properties = [batch.properties for batch in self._batches]
            self._columns = peek_columns([*chain.from_iterable(properties)])
        return self._columns

    def units(self) -> list[QueueUnits]:
        """Return the units of each queue; ValueError for a gap between batches of one queue."""
        tags = iter(self.columns().tags)
        found: dict[ConsumeQueue, QueueUnits] = {}
        for batch in self._batches:
            offsets = batch.offsets
            codes = [self._tags_code(one) if one else 0 for one in islice(tags, len(offsets) - 1)]
            sizes = map(sub, islice(offsets, 1, None), offsets)
            units = b"".join(map(UNIT_STRUCT.pack, offsets, sizes, codes))
            first = batch.queue_offset
            if (before := found.get(batch.queue)) is not None:
                first = before.first_offset
                units = before.units + units
                if first + len(units) // UNIT_SIZE != batch.queue_offset + len(codes):
                    raise ValueError(f"queue offset {batch.queue_offset} does not follow")
            found[batch.queue] = QueueUnits(batch.queue, first, units, offsets[-1])
        return list(found.values())

    def records(self) -> list[PendingRecord]:
        return [record for batch in self._batches for record in batch.records()]

    def put_keys(self, index: IndexService) -> None:
        prefixes: list[int] = []
        offsets: list[int] = []
        stamps: list[int] = []
        for batch in self._batches:
            count = len(batch.properties)
            prefixes += repeat(batch.queue.topic.key_prefix, count)
            offsets += batch.offsets[:-1]
            stamps += repeat(batch.store_timestamp, count)
        index.put_batch(prefixes, offsets, self.columns(), stamps)


def add_block(block: RecordBlock, index: IndexService | None) -> bool:
    """Add a block to the index and its queues; False if it cannot be added at once.

    A block of several queues is added queue by queue. Recovery finds all its units after a kill
    because it starts at the last counted index entry: there must be one, from before the block.
    """
    newest: Sequence[object] = []
    if index is not None:
        if not index.ends_before(block.start):
            return False
        newest = index.files[-1:]
        block.put_keys(index)  # before the units, as in record_run
        if index.files[-1:] != newest:
            newest = []
    if len(block.queues) > 1 and not newest:
        return False
    return add_units(block)


def add_units(block: RecordBlock) -> bool:
    """Add the units of a block to their queues; False if a queue does not end before them."""
    found = block.units()
    for one in found:
        queue = one.queue
        if queue.max_offset != one.first_offset or queue.max_physical_offset > block.start:
            return False
    for one in found:
        one.queue.append_units(one.units, one.physical_end)
    return True
