"""ProcessQueue: the messages of one queue that were pulled and not yet finished.

Pure: times are arguments. The commit point is the offset of the first unfinished message, so a
crash delivers everything from there again (at least once).

::

    created → active → dropped → removed        a queue that returns gets a new object

**Source:** RocketMQ ``ProcessQueue``.
"""

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from broker.message.message import MessageExt

PULL_MAX_IDLE_MS = 120_000
"""A queue without a pull for this long is recreated. **Source:** ``pull.pullMaxIdleTime``."""

LOCK_MAX_LIVE_MS = 30_000
"""The client trusts a broker's lock for this long. **Source:** ``rebalance.lockMaxLiveTime``."""

HEAP_SLACK = 64
"""Finished offsets that the two heaps may keep besides as many as there are messages."""


class StartMark:
    """When a listener was called, and the call's id for hooks: set by its thread."""

    __slots__ = ("ms", "request_id")

    def __init__(self) -> None:
        self.ms: float | None = None
        self.request_id = ""


class ProcessQueue:
    """One owned queue.

    ``messages`` queue offset to unfinished message; ``size_bytes`` of their bodies; ``dropped``
    is final; ``locked`` with ``last_lock_ms`` matter to orderly consumers only.

    >>> queue = ProcessQueue(now_ms=0)
    >>> messages = [MessageExt("T", b"x", queue_offset=number) for number in (5, 6, 7)]
    >>> queue.put(messages)
    >>> queue.remove(messages[1:2]), queue.remove(messages[:1]), queue.remove(messages[2:])
    (5, 7, 8)
    """

    __slots__ = (
        "broker_max_offset",
        "consuming",
        "consuming_orderly",
        "dropped",
        "heap",
        "last_consume_ms",
        "last_lock_ms",
        "last_pull_ms",
        "locked",
        "marks",
        "max_offset",
        "messages",
        "reverse_heap",
        "size_bytes",
        "try_unlock_times",
    )

    def __init__(self, now_ms: float) -> None:
        self.messages: dict[int, MessageExt] = {}
        self.marks: dict[int, StartMark] = {}
        self.consuming_orderly: dict[int, MessageExt] = {}
        self.heap: list[int] = []
        self.reverse_heap: list[int] = []
        self.size_bytes = 0
        self.max_offset = 0
        self.broker_max_offset = 0  # of the last pull
        self.dropped = False
        self.consuming = False
        self.locked = False
        self.try_unlock_times = 0
        self.last_pull_ms = now_ms
        self.last_consume_ms = now_ms
        self.last_lock_ms = now_ms

    # ---- state

    def is_dropped(self) -> bool:
        """Whether the queue was given up; a method, because it changes during any await."""
        return self.dropped

    @property
    def count(self) -> int:
        """Number of unfinished messages."""
        return len(self.messages) + len(self.consuming_orderly)

    @property
    def min_offset(self) -> int | None:
        """The first offset not yet taken or finished; None if there is none."""
        heap, messages = self.heap, self.messages
        while heap and heap[0] not in messages:
            heappop(heap)
        return heap[0] if heap else None

    @property
    def last_offset(self) -> int | None:
        """The last offset not yet taken or finished; None if there is none."""
        heap, messages = self.reverse_heap, self.messages
        while heap and -heap[0] not in messages:
            heappop(heap)
        return -heap[0] if heap else None

    def max_span(self) -> int:
        """Distance between the first and the last cached offset."""
        first, last = self.min_offset, self.last_offset
        return 0 if first is None or last is None else last - first

    def is_pull_expired(self, now_ms: float) -> bool:
        """Whether the pull loop of the queue has stalled."""
        return now_ms - self.last_pull_ms > PULL_MAX_IDLE_MS

    def is_lock_expired(self, now_ms: float) -> bool:
        """Whether the broker's lock must be renewed before messages are consumed."""
        return now_ms - self.last_lock_ms > LOCK_MAX_LIVE_MS

    # ---- concurrent consumption

    def put(self, messages: Iterable[MessageExt]) -> None:
        """Add pulled messages; one that is cached already is not counted twice."""
        for message in messages:
            offset = message.queue_offset
            if offset in self.messages:
                continue
            self._insert(offset, message)
            self.size_bytes += len(message.body)
            self.max_offset = max(self.max_offset, offset)

    def _insert(self, offset: int, message: MessageExt) -> None:
        self.messages[offset] = message
        if len(self.reverse_heap) > 2 * len(self.messages) + HEAP_SLACK:
            self.heap = list(self.messages)  # finished offsets stay in the heaps until here
            self.reverse_heap = [-one for one in self.heap]
            heapify(self.heap)
            heapify(self.reverse_heap)
            return
        heappush(self.heap, offset)
        heappush(self.reverse_heap, -offset)

    def remove(self, messages: Iterable[MessageExt]) -> int:
        """Finish messages; returns the offset to commit, -1 if the queue was empty before."""
        if not self.messages:
            return -1
        for message in messages:
            self.marks.pop(message.queue_offset, None)
            if self.messages.pop(message.queue_offset, None) is not None:
                self.size_bytes -= len(message.body)
        first = self.min_offset
        return self.max_offset + 1 if first is None else first

    def begin(self, messages: Iterable[MessageExt], mark: StartMark) -> None:
        """Record with which mark the listener's call for these messages is timed."""
        for message in messages:
            self.marks[message.queue_offset] = mark

    def expired_head(self, now_ms: float, timeout_ms: float) -> MessageExt | None:
        """Return the first message if its listener has run longer than ``timeout_ms``.

        Waiting in the client does not count (U15).
        """
        first = self.min_offset
        if first is None:
            return None
        mark = self.marks.get(first)
        if mark is None or mark.ms is None or now_ms - mark.ms <= timeout_ms:
            return None
        return self.messages[first]

    # ---- orderly consumption

    def take(self, count: int, now_ms: float) -> list[MessageExt]:
        """Take up to ``count`` messages in order; they stay unfinished until commit or rollback.

        Without any, the queue is no longer being consumed.
        """
        self.last_consume_ms = now_ms
        taken: list[MessageExt] = []
        while len(taken) < count and (first := self.min_offset) is not None:
            message = self.messages.pop(first)
            self.consuming_orderly[first] = message
            taken.append(message)
        if not taken:
            self.consuming = False
        return taken

    def commit(self) -> int:
        """Finish all taken messages; returns the offset to commit, -1 if none were taken."""
        if not self.consuming_orderly:
            return -1
        last = max(self.consuming_orderly)
        self.size_bytes -= sum(len(one.body) for one in self.consuming_orderly.values())
        self.consuming_orderly.clear()
        return last + 1

    def rollback(self) -> None:
        """Put all taken messages back, to be taken again."""
        self.put_back(list(self.consuming_orderly.values()))

    def put_back(self, messages: Iterable[MessageExt]) -> None:
        """Put taken messages back, to be taken again."""
        for message in messages:
            offset = message.queue_offset
            if self.consuming_orderly.pop(offset, None) is not None:
                self._insert(offset, message)

    def clear(self) -> None:
        """Drop all messages."""
        self.messages.clear()
        self.marks.clear()
        self.consuming_orderly.clear()
        self.heap.clear()
        self.reverse_heap.clear()
        self.size_bytes = 0
        self.max_offset = 0
