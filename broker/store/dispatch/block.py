"""RecordBlock: consecutive plain records that dispatch adds to their queues and the index at once.

Two sources queue blocks: vectorized ingest one per read, with units and index entries from compiled
loops, and a batch message one per part of its records. Dispatch adds a block with one call per
queue and one for the index. Where a record needs more (multi-dispatch, an extension unit, a queue
or an index that has later records, any error), the block is dispatched record by record as if it
had never been one; records that are dispatched already are then skipped.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from itertools import islice
from operator import sub
from typing import Final, NamedTuple

from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.dispatch.request import PendingBatch, PendingRecord
from broker.store.format.consumequeue import UNIT_STRUCT
from broker.store.format.property_columns import PropertyColumns, peek_columns
from broker.store.index.index_service import IndexService

# No sysFlag has this bit: it marks the entry of a block among pending records.
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
    """Records from ``start`` to ``end``, physical offsets, with one store timestamp (ms).

    ``units`` returns the units of each of ``queues``; ``expand`` returns one entry per record;
    ``put_keys`` adds the index entries to an index and is called only if the index has none of a
    later record.
    """

    start: int
    end: int
    store_timestamp: int
    records: int
    queues: Sequence[ConsumeQueue]
    units: Callable[[], Sequence[QueueUnits]]
    expand: Callable[[], Sequence[PendingRecord]]
    put_keys: Callable[[IndexService], None]

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

    def remove(self, physical_offset: int) -> None:
        """Drop a block that was dispatched."""
        self.more -= self._blocks.pop(physical_offset).records - 1

    def clear(self) -> None:
        """Drop all blocks."""
        self._blocks.clear()
        self.more = 0

    def expanded(
        self, pending: Sequence[PendingRecord], topics: Container[str]
    ) -> Iterator[PendingRecord]:
        """Yield pending records; blocks with one of ``topics`` are replaced by their records."""
        for entry in pending:
            if entry[3] & BLOCK:
                block = self.get(entry[0])
                if any(queue.topic.name in topics for queue in block.queues):
                    self.remove(entry[0])
                    yield from block.expand()
                    continue
            yield entry


def batch_blocks(
    batch: PendingBatch, tags_code: Callable[[bytes], int], most: int = BATCH_PART
) -> Iterator[RecordBlock]:
    """Yield the blocks of a batch, of at most ``most`` records each; ``tags_code`` of TAGS.

    Units and keys are computed when a block is dispatched: an error then concerns one record.
    """
    for part in batch.split(most) if len(batch.properties) > most else (batch,):
        derived = _BatchPart(part, tags_code)
        yield RecordBlock(
            part.offsets[0],
            part.offsets[-1],
            part.store_timestamp,
            len(part.properties),
            (part.queue,),
            derived.units,
            derived.records,
            derived.put_keys,
        )


class _BatchPart:
    """Units and keys of a part of a batch, from columns that are read once."""

    __slots__ = ("_batch", "_columns", "_tags_code")

    def __init__(self, batch: PendingBatch, tags_code: Callable[[bytes], int]) -> None:
        self._batch = batch
        self._tags_code = tags_code
        self._columns: PropertyColumns | None = None

    def columns(self) -> PropertyColumns:
        if self._columns is None:
            self._columns = peek_columns(self._batch.properties)
        return self._columns

    def units(self) -> list[QueueUnits]:
        offsets = self._batch.offsets
        codes = [self._tags_code(tags) if tags else 0 for tags in self.columns().tags]
        sizes = map(sub, islice(offsets, 1, None), offsets)
        units = b"".join(map(UNIT_STRUCT.pack, offsets, sizes, codes))
        return [QueueUnits(self._batch.queue, self._batch.queue_offset, units, offsets[-1])]

    def records(self) -> list[PendingRecord]:
        return list(self._batch.records())

    def put_keys(self, index: IndexService) -> None:
        batch = self._batch
        count = len(batch.properties)
        prefixes = [batch.queue.topic.key_prefix] * count
        stamps = [batch.store_timestamp] * count
        index.put_batch(prefixes, batch.offsets[:-1], self.columns().keys, stamps)


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
