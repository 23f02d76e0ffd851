"""Long polling: pulls that found no message are suspended until one arrives or they expire.

A pure object that receives the time as an argument: the pull processor suspends a request,
dispatch reports arrivals, and the controller arms one timer for the next deadline. A suspended
pull is removed exactly once: woken by an arrival that its filter may accept, expired at its
deadline, dropped with its connection, or taken when the broker stops. Deadlines are exact; Java
checks every five seconds.

**Source:** RocketMQ PullRequestHoldService, ManyPullRequest, NotifyMessageArrivingListener.
"""

import heapq
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from broker.remoting.budget import MemoryBudget
from broker.remoting.limits import HELD_LIMIT_BYTES, HELD_TOTAL_LIMIT_BYTES

if TYPE_CHECKING:
    from broker.remoting.protocol.command import RemotingCommand
    from broker.remoting.server import Connection

MAX_HELD_PULLS: Final = 100_000
SUSPENDED_PULL_BYTES: Final = 2_048  # one pull with its request and table entries

TagMatcher = Callable[[int], bool]
PropertyMatcher = Callable[[bytes], bool]


class SuspendedPull:
    """One suspended pull: its connection, request, queue, offset and deadline (monotonic ms).

    ``properties_match`` tests the raw property string of an arriving message; None if the tags code
    alone decides. ``held_bytes`` is the memory charged to its connection while it is suspended.
    """

    __slots__ = (
        "connection",
        "deadline_ms",
        "held_bytes",
        "properties_match",
        "queue_id",
        "queue_offset",
        "request",
        "suspended",
        "tag_match",
        "topic",
    )

    def __init__(
        self, connection: "Connection", request: "RemotingCommand", topic: str, queue_id: int
    ) -> None:
        self.connection = connection
        self.request = request
        self.topic = topic
        self.queue_id = queue_id
        self.queue_offset = 0
        self.deadline_ms = 0.0
        self.tag_match: TagMatcher | None = None
        self.properties_match: PropertyMatcher | None = None
        self.held_bytes = SUSPENDED_PULL_BYTES
        self.suspended = False


class PullRequestHold:
    """All suspended pulls, by topic and queue, by deadline and by connection."""

    def __init__(
        self, limit: int = MAX_HELD_PULLS, memory: "MemoryBudget[Connection] | None" = None
    ) -> None:
        self._limit = limit
        if memory is None:
            memory = MemoryBudget(HELD_LIMIT_BYTES, HELD_TOTAL_LIMIT_BYTES)
        self._memory = memory
        # The innermost dict is an ordered set: removal takes constant time at any position.
        self._queues: dict[str, dict[int, dict[SuspendedPull, None]]] = {}
        self.deadlines: list[tuple[float, int, SuspendedPull]] = []
        self._of_connection: dict[Connection, set[SuspendedPull]] = {}
        self._sequence = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def full(self) -> bool:
        """True if no further pull may be suspended."""
        return self._size >= self._limit

    def suspend(self, pull: SuspendedPull) -> bool:
        """Suspend a pull until its deadline; False if a limit is reached (count or memory)."""
        if self._size >= self._limit or not self._memory.reserve(pull.connection, pull.held_bytes):
            return False
        self._queues.setdefault(pull.topic, {}).setdefault(pull.queue_id, {})[pull] = None
        self._of_connection.setdefault(pull.connection, set()).add(pull)
        self._sequence += 1
        heapq.heappush(self.deadlines, (pull.deadline_ms, self._sequence, pull))
        pull.suspended = True
        self._size += 1
        self._compact()
        return True

    @property
    def topics(self) -> Mapping[str, object]:
        """The topics with suspended pulls, as a live view."""
        return self._queues

    def arrived(
        self,
        topic: str,
        queue_id: int,
        max_offset: int,
        tags_code: int | None = None,
        properties: bytes | None = None,
    ) -> list[SuspendedPull]:
        """Remove and return the pulls woken by a message; ``max_offset`` is the offset after it.

        Without ``tags_code`` every pull below ``max_offset`` wakes, whatever its filter.
        """
        queues = self._queues.get(topic)
        if queues is None:
            return []
        waiting = queues.get(queue_id)
        if waiting is None:
            return []
        woken = [
            pull
            for pull in waiting
            if pull.queue_offset < max_offset and _may_match(pull, tags_code, properties)
        ]
        for pull in woken:
            self._remove(pull)
        return woken

    def next_deadline_ms(self) -> float | None:
        """Return when :meth:`expire` must be called next, None if no pull is suspended."""
        while self.deadlines and not self.deadlines[0][2].suspended:
            heapq.heappop(self.deadlines)
        return self.deadlines[0][0] if self.deadlines else None

    def expire(self, now_ms: float) -> list[SuspendedPull]:
        """Remove and return the pulls whose deadline has passed."""
        over = []
        while (deadline := self.next_deadline_ms()) is not None and deadline <= now_ms:
            pull = heapq.heappop(self.deadlines)[2]
            self._remove(pull)
            over.append(pull)
        return over

    def drop_connection(self, connection: "Connection") -> None:
        """Remove the pulls of a closed connection."""
        for pull in list(self._of_connection.get(connection, ())):
            self._remove(pull)
        self._compact()

    def take_all(self) -> list[SuspendedPull]:
        """Remove and return all pulls, when the broker stops."""
        everything = [pull for _, _, pull in self.deadlines if pull.suspended]
        for pull in everything:
            self._remove(pull)
        self.deadlines.clear()
        return everything

    def _remove(self, pull: SuspendedPull) -> None:
        pull.suspended = False
        self._size -= 1
        self._memory.release(pull.connection, pull.held_bytes)
        queues = self._queues[pull.topic]
        waiting = queues[pull.queue_id]
        del waiting[pull]
        if not waiting:
            del queues[pull.queue_id]
            if not queues:
                del self._queues[pull.topic]
        mine = self._of_connection[pull.connection]
        mine.discard(pull)
        if not mine:
            del self._of_connection[pull.connection]

    def _compact(self) -> None:
        # Removing a pull leaves its heap entry. Rebuilding the heap when most entries are stale
        # keeps it within twice the live entries, at constant amortised cost per pull.
        if len(self.deadlines) > 64 and len(self.deadlines) > 2 * self._size:
            self.deadlines = [entry for entry in self.deadlines if entry[2].suspended]
            heapq.heapify(self.deadlines)


def _may_match(pull: SuspendedPull, tags_code: int | None, properties: bytes | None) -> bool:
    if tags_code is not None and pull.tag_match is not None and not pull.tag_match(tags_code):
        return False
    if properties is not None and pull.properties_match is not None:
        return pull.properties_match(properties)
    return True
