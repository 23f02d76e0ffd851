"""TopicPublishInfo: the writable queues of a topic and the counter that selects among them.

**Source:** RocketMQ ``TopicPublishInfo``, ``ThreadLocalIndex``.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence

from broker.common.message_queue import MessageQueue
from broker.errors import ClientError

_MASK = 0x7FFFFFFF


class TopicPublishInfo:
    """The queues of one topic with a round-robin counter that starts at random.

    Java keeps the counter per thread so that threads do not disturb each other; here one task at a
    time advances it, and an even spread over the queues follows.

    >>> queues = [MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-b", 0)]
    >>> info = TopicPublishInfo("T", queues, index=0)
    >>> [info.select().broker_name for _ in range(3)]
    ['broker-b', 'broker-a', 'broker-b']
    >>> info.select_skipping("broker-a").broker_name
    'broker-b'
    """

    def __init__(
        self, topic: str, queues: Sequence[MessageQueue], *, index: int | None = None
    ) -> None:
        if not queues:
            raise ClientError(f"topic {topic} has no queue that can be written")
        self.topic = topic
        self.queues = tuple(queues)
        self.broker_names = frozenset(queue.broker_name for queue in queues)
        self._counts = Counter(queue.broker_name for queue in queues)
        self._index = random.randrange(_MASK) if index is None else index

    def write_queue_nums(self, broker_name: str) -> int:
        """Return the number of queues on a broker; 0 if it has none."""
        return self._counts[broker_name]

    def next_index(self) -> int:
        """Advance the counter and return it, never negative."""
        self._index = self._index + 1 & _MASK
        return self._index

    def reset_index(self) -> None:
        """Continue from a random place, so that retries of many senders do not coincide."""
        self._index = random.randrange(_MASK)

    def continue_from(self, other: "TopicPublishInfo") -> None:
        """Take over the counter of the information that this one replaces."""
        self._index = other._index

    def select(self) -> MessageQueue:
        """Return the next queue in turn."""
        return self.queues[self.next_index() % len(self.queues)]

    def select_where(self, passes: Callable[[str], bool]) -> MessageQueue | None:
        """Return the next queue whose broker passes; None after one round without any."""
        for _ in self.queues:
            queue = self.select()
            if passes(queue.broker_name):
                return queue
        return None

    def select_skipping(self, last_broker: str | None) -> MessageQueue:
        """Return the next queue on another broker than the one that failed, else the next one."""
        if last_broker is None:
            return self.select()
        queue = self.select_where(lambda name: name != last_broker)
        return self.select() if queue is None else queue
