"""A run: consecutive pending records of plain messages that dispatch adds at once.

Index entries are added before units. A killed process may leave a prefix of either: recovery reads
the log from the last counted entry, and without an index from the last unit, so that units without
their entries would not be noticed while the index has no file. For the same reason units are added
in log order, not queue by queue.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Self

from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.dispatch.request import PendingRecord
from broker.store.format.consumequeue import UNIT_STRUCT
from broker.store.format.property_columns import peek_columns
from broker.store.index.index_service import IndexService

# Records added at once, about 2 ms, and the number from which that is faster than one by one.
RUN: Final = 512
LEAST_RUN: Final = 4

_pack: Final = UNIT_STRUCT.pack


class RecordRun(NamedTuple):
    """The columns of pending records; each of them is one element of each column."""

    physical_offsets: Sequence[int]
    sizes: Sequence[int]
    store_timestamps: Sequence[int]
    queue_offsets: Sequence[int]
    queues: Sequence[ConsumeQueue]
    properties: Sequence[bytes]

    @classmethod
    def of(cls, entries: Sequence[PendingRecord], limit: int, rare: int) -> Self | None:
        """The run of all entries; None if one is not plain or ends past ``limit``.

        ``rare`` has the sysFlag bits of other than plain records.
        """
        offsets, sizes, stamps, flags, queue_offsets, queues, properties, codes = zip(
            *entries, strict=True
        )
        if offsets[-1] + sizes[-1] > limit or codes.count(None) != len(codes):
            return None
        if any(flag & rare for flag in set(flags)):
            return None
        if any(queue.topic.special for queue in set(queues)):
            return None
        return cls(offsets, sizes, stamps, queue_offsets, queues, properties)

    def add(self, index: IndexService | None, tags_code: Callable[[bytes], int]) -> list[int]:
        """Add index entries and units; return the tags codes. ``tags_code`` is that of TAGS.

        Entries and units that exist are skipped. After an error any of them may be missing.
        """
        columns = peek_columns(self.properties)
        codes = [tags_code(one) if one else 0 for one in columns.tags]
        if index is not None:
            prefixes = [queue.topic.key_prefix for queue in self.queues]
            index.put_batch(prefixes, self.physical_offsets, columns, self.store_timestamps)
        units = self.physical_offsets, self.sizes, codes
        queue, first = self.queues[0], self.queue_offsets[0]
        count = len(codes)
        if (
            self.queues.count(queue) == count
            and first == queue.max_offset
            and self.physical_offsets[0] >= queue.max_physical_offset
            and list(self.queue_offsets) == list(range(first, first + count))
        ):
            end = self.physical_offsets[-1] + self.sizes[-1]
            queue.append_units(b"".join(map(_pack, *units)), end)
        else:
            for queue, *unit in zip(self.queues, self.queue_offsets, *units, strict=True):
                queue.append(*unit)
        return codes
