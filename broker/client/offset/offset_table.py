"""OffsetTable: the consumer offsets of one group in memory, the pure part of both offset stores.

**Source:** RocketMQ ``RemoteBrokerOffsetStore``, ``LocalFileOffsetStore``, ``ControllableOffset``.
"""

from collections.abc import Collection

from broker.common.message_queue import MessageQueue


class OffsetTable:
    """Message queue to consumer offset.

    >>> table = OffsetTable()
    >>> queue = MessageQueue("T", "broker-a", 0)
    >>> table.update(queue, 7)
    >>> table.update(queue, 3, increase_only=True)
    >>> table.get(queue)
    7
    """

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}
        self._frozen: set[MessageQueue] = set()

    def update(self, queue: MessageQueue, offset: int, *, increase_only: bool = False) -> None:
        """Set an offset; a frozen one and, with ``increase_only``, a larger one stay."""
        if queue in self._frozen:
            return
        known = self._offsets.get(queue)
        if known is None or not increase_only or offset > known:
            self._offsets[queue] = offset

    def update_and_freeze(self, queue: MessageQueue, offset: int) -> None:
        """Set an offset that late results of the queue must not change any more (5.2.0)."""
        self._frozen.discard(queue)
        self.update(queue, offset)
        self._frozen.add(queue)

    def get(self, queue: MessageQueue) -> int | None:
        """Return the offset; None if there is none."""
        return self._offsets.get(queue)

    def remove(self, queue: MessageQueue) -> None:
        """Drop the offset of a queue that is no longer owned."""
        self._offsets.pop(queue, None)
        self._frozen.discard(queue)

    def retain(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, int]:
        """Drop the offsets of other queues; returns those of the given ones."""
        for queue in [one for one in self._offsets if one not in queues]:
            self.remove(queue)
        return dict(self._offsets)

    def of_topic(self, topic: str) -> dict[MessageQueue, int]:
        """Return the offsets of one topic, of all topics if ``topic`` is empty."""
        return {
            queue: offset
            for queue, offset in self._offsets.items()
            if not topic or queue.topic == topic
        }
