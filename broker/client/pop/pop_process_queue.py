"""PopProcessQueue: one queue that is popped; pure, times are arguments.

Messages are not cached by offset: the broker keeps check points. Only the number of messages not
yet acknowledged counts, for flow control.

**Source:** RocketMQ ``PopProcessQueue``.
"""

from broker.client.consumer.process_queue import PULL_MAX_IDLE_MS


class PopProcessQueue:
    """One popped queue; ``queue_id`` -1 of its message queue means any queue of the broker.

    >>> queue = PopProcessQueue(now_ms=0)
    >>> queue.found(3)
    >>> queue.finished(2)
    >>> queue.wait_ack_count
    1
    """

    __slots__ = ("dropped", "last_pop_ms", "wait_ack_count")

    def __init__(self, now_ms: float) -> None:
        self.dropped = False
        self.last_pop_ms = now_ms
        self.wait_ack_count = 0

    def is_dropped(self) -> bool:
        """Whether the queue was given up; a method, because it changes during any await."""
        return self.dropped

    def found(self, count: int) -> None:
        """Count popped messages."""
        self.wait_ack_count += count

    def finished(self, count: int) -> None:
        """Count messages that were acknowledged, postponed or dropped after their time."""
        self.wait_ack_count -= count

    def is_pull_expired(self, now_ms: float) -> bool:
        """Whether the pop loop of the queue has stalled."""
        return now_ms - self.last_pop_ms > PULL_MAX_IDLE_MS
