"""RecordBlock: consecutive plain records whose queue units and index entries are computed already.

Vectorized ingest queues one block per read. Dispatch adds a block with one call per queue and one
per index file; where a record of the block needs more (a listener, an error, a full index file on
a full disk), the block is dispatched record by record as if it had never been one.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.dispatch.request import PendingRecord
from broker.store.index.index_service import IndexService

# No sysFlag has this bit: it marks the entry of a block among pending records.
BLOCK = 1 << 40


class QueueUnits(NamedTuple):
    """Packed units of one queue from ``first_offset`` on; ``physical_end``: of the last record."""

    queue: ConsumeQueue
    first_offset: int
    units: bytes
    physical_end: int


class RecordBlock(NamedTuple):
    """Records from ``start`` to ``end``, physical offsets, with one store timestamp (ms).

    ``expand`` returns one entry per record; ``put_keys`` adds the index entries to an index and is
    called only if the index has none of a later record.
    """

    start: int
    end: int
    store_timestamp: int
    records: int
    queues: Sequence[QueueUnits]
    expand: Callable[[], Sequence[PendingRecord]]
    put_keys: Callable[[IndexService], None]

    @property
    def entry(self) -> PendingRecord:
        """The entry that represents the block among pending records."""
        queue = self.queues[0].queue
        return (self.start, self.end - self.start, self.store_timestamp, BLOCK, 0, queue, b"", 0)


class PendingBlocks:
    """The blocks among the pending records, by physical offset, and the number of their records."""

    __slots__ = ("_blocks", "count")

    def __init__(self) -> None:
        self._blocks: dict[int, RecordBlock] = {}
        self.count = 0

    def add(self, block: RecordBlock) -> PendingRecord:
        """Keep a block; return its entry."""
        self._blocks[block.start] = block
        self.count += block.records
        return block.entry

    def get(self, physical_offset: int) -> RecordBlock:
        """Return the block that starts there."""
        return self._blocks[physical_offset]

    def remove(self, physical_offset: int) -> None:
        """Drop a block that was dispatched."""
        self.count -= self._blocks.pop(physical_offset).records

    def clear(self) -> None:
        """Drop all blocks."""
        self._blocks.clear()
        self.count = 0

    def expanded(self, pending: Sequence[PendingRecord]) -> Iterator[PendingRecord]:
        """Yield pending records with each block replaced by its records; the blocks are dropped."""
        for entry in pending:
            if entry[3] & BLOCK:
                block = self.get(entry[0])
                self.remove(entry[0])
                yield from block.expand()
            else:
                yield entry


def add_units(block: RecordBlock) -> bool:
    """Add the units of a block to their queues; False if a queue does not end before them."""
    if any(one.queue.max_offset != one.first_offset for one in block.queues):
        return False
    for one in block.queues:
        one.queue.append_units(one.units, one.physical_end)
    return True
