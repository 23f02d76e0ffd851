"""DispatchRequest: the fields of one record that queues, index and listeners need.

**Source:** RocketMQ DispatchRequest.
"""

from collections.abc import Iterator
from typing import NamedTuple

from broker.common.sysflag import INNER_BATCH
from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.format.consumequeue import peek_inner_count


class DispatchRequest(NamedTuple):
    """One record to dispatch; ``tags_code`` None: it is computed from the properties.

    Puts queue plain tuples of this shape (PendingRecord): a tuple display costs a fifth of a call
    of this type, and the loop that dispatches them unpacks them at once.
    """

    physical_offset: int
    size: int
    store_timestamp: int
    sys_flag: int
    queue_offset: int
    queue: ConsumeQueue
    properties: bytes
    tags_code: int | None

    @property
    def physical_end(self) -> int:
        """Physical offset after the record."""
        return self.physical_offset + self.size

    @property
    def messages(self) -> int:
        """Number of messages in the record: several in an inner batch."""
        return (peek_inner_count(self.properties) or 1) if self.sys_flag & INNER_BATCH else 1


class PendingBatch(NamedTuple):
    """Consecutive records of one queue to dispatch, appended together.

    ``offsets``: physical offset of each record, and the end of the last one; ``properties``: of
    each record. Their queue offsets count up from ``queue_offset``.
    """

    queue: ConsumeQueue
    queue_offset: int
    offsets: list[int]
    properties: list[bytes]
    store_timestamp: int
    sys_flag: int

    def records(self) -> Iterator[DispatchRequest]:
        """The records one by one."""
        start = self.offsets[0]
        for number, properties in enumerate(self.properties):
            end = self.offsets[number + 1]
            yield DispatchRequest(
                start,
                end - start,
                self.store_timestamp,
                self.sys_flag,
                self.queue_offset + number,
                self.queue,
                properties,
                None,
            )
            start = end

    def split(self, count: int) -> "Iterator[PendingBatch]":
        """The batch in parts of at most ``count`` records."""
        for begin in range(0, len(self.properties), count):
            end = begin + count
            yield self._replace(
                queue_offset=self.queue_offset + begin,
                offsets=self.offsets[begin : end + 1],
                properties=self.properties[begin:end],
            )


PendingRecord = tuple[int, int, int, int, int, ConsumeQueue, bytes, int | None]
