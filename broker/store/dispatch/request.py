"""DispatchRequest: the fields of one record that queues, index and listeners need.

**Source:** RocketMQ DispatchRequest.
"""

from typing import NamedTuple

from broker.store.consumequeue.consume_queue import ConsumeQueue


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


PendingRecord = tuple[int, int, int, int, int, ConsumeQueue, bytes, int | None]
