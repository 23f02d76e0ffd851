"""In-flight counts: messages that were popped and are neither acknowledged nor revived.

Counted per topic, group and queue since the start of the broker, as Java does: an acknowledgement
of a message popped before the start does not count down.

**Source:** RocketMQ PopInflightMessageCounter.
"""

from collections.abc import Callable
from typing import Final

MAX_KEYS: Final = 200_000  # queues of groups; further ones are not counted


class InFlightCounter:
    """topic@group → queue id → number of messages."""

    def __init__(self, start_ms: int) -> None:
        self._start_ms = start_ms
        self._counts: dict[str, dict[int, int]] = {}
        self._size = 0

    def add(self, topic: str, group: str, queue_id: int, count: int) -> None:
        """Count delivered messages."""
        queues = self._counts.get(f"{topic}@{group}")
        if queues is None or queue_id not in queues:
            if self._size >= MAX_KEYS:
                return
            queues = self._counts.setdefault(f"{topic}@{group}", {})
            queues[queue_id] = 0
            self._size += 1
        queues[queue_id] += count

    def remove(self, topic: str, group: str, queue_id: int, pop_time: int, count: int = 1) -> None:
        """Count messages down that were acknowledged or revived; never below zero."""
        queues = self._counts.get(f"{topic}@{group}")
        if pop_time < self._start_ms or queues is None or queue_id not in queues:
            return
        if queues[queue_id] > count:
            queues[queue_id] -= count
        else:
            self.clear(topic, group, queue_id)

    def clear(self, topic: str, group: str, queue_id: int) -> None:
        """Forget a queue: an ordered pop delivers its batch again, or the offset was reset."""
        queues = self._counts.get(f"{topic}@{group}")
        if queues is not None and queues.pop(queue_id, None) is not None:
            self._size -= 1
            if not queues:
                del self._counts[f"{topic}@{group}"]

    def get(self, topic: str, group: str, queue_id: int) -> int:
        """Return the number of messages in flight of one queue."""
        return self._counts.get(f"{topic}@{group}", {}).get(queue_id, 0)

    def clean(self, exists: Callable[[str, str], bool]) -> None:
        """Forget deleted topics and groups."""
        for key in list(self._counts):
            topic, _, group = key.partition("@")
            if not exists(topic, group):
                self._size -= len(self._counts.pop(key))
