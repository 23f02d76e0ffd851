"""Pulls that found nothing wait here until a message comes or their time is over.

A pure object told the time: the pull processor parks a request, dispatch reports arrivals, the
controller asks for the next deadline and arms one timer for it. A parked pull leaves exactly
once: woken by an arrival that its filter may accept, expired at its deadline, or dropped with
its connection. Deadlines are exact; the Java broker looks every five seconds.

**Source:** RocketMQ PullRequestHoldService, ManyPullRequest, NotifyMessageArrivingListener.
"""

import heapq
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from broker.remoting.protocol.command import RemotingCommand
    from broker.remoting.server import Connection

MAX_HELD_PULLS: Final = 100_000  # about 1 KiB each with its request

TagMatcher = Callable[[int], bool]
PropertyMatcher = Callable[[bytes], bool]


class HeldPull:
    """One parked pull: who asked, what for, until when.

    ``properties_match`` looks at the raw property string of an arriving message, None when the
    tag code decides alone.
    """

    __slots__ = (
        "connection",
        "deadline_ms",
        "parked",
        "properties_match",
        "queue_id",
        "queue_offset",
        "request",
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
        self.parked = False


class PullHold:
    """All parked pulls, by topic and queue, by deadline and by connection."""

    def __init__(self, limit: int = MAX_HELD_PULLS) -> None:
        self._limit = limit
        # The innermost dict is an ordered set: leaving it costs the same wherever a pull stands.
        self._queues: dict[str, dict[int, dict[HeldPull, None]]] = {}
        self._deadlines: list[tuple[float, int, HeldPull]] = []
        self._of_connection: dict[Connection, set[HeldPull]] = {}
        self._sequence = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def full(self) -> bool:
        """True when no further pull may be parked."""
        return self._size >= self._limit

    def park(self, pull: HeldPull) -> bool:
        """Keep a pull until its deadline; False when the limit is reached."""
        if self._size >= self._limit:
            return False
        self._queues.setdefault(pull.topic, {}).setdefault(pull.queue_id, {})[pull] = None
        self._of_connection.setdefault(pull.connection, set()).add(pull)
        self._sequence += 1
        heapq.heappush(self._deadlines, (pull.deadline_ms, self._sequence, pull))
        pull.parked = True
        self._size += 1
        self._compact()
        return True

    @property
    def topics(self) -> Mapping[str, object]:
        """The topics some pull waits for, as a live view."""
        return self._queues

    def arrived(
        self,
        topic: str,
        queue_id: int,
        max_offset: int,
        tags_code: int | None = None,
        properties: bytes | None = None,
    ) -> list[HeldPull]:
        """Take out the pulls that a message ending at ``max_offset`` wakes.

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
        """When :meth:`expire` must be called next, None when nothing waits."""
        while self._deadlines and not self._deadlines[0][2].parked:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def expire(self, now_ms: float) -> list[HeldPull]:
        """Take out the pulls whose time is over."""
        over = []
        while (deadline := self.next_deadline_ms()) is not None and deadline <= now_ms:
            pull = heapq.heappop(self._deadlines)[2]
            self._remove(pull)
            over.append(pull)
        return over

    def drop_connection(self, connection: "Connection") -> None:
        """Forget the pulls of a closed connection."""
        for pull in list(self._of_connection.get(connection, ())):
            self._remove(pull)

    def take_all(self) -> list[HeldPull]:
        """Take out everything, at a stop."""
        everything = [pull for _, _, pull in self._deadlines if pull.parked]
        for pull in everything:
            self._remove(pull)
        self._deadlines.clear()
        return everything

    def _remove(self, pull: HeldPull) -> None:
        pull.parked = False
        self._size -= 1
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
        # Woken pulls leave their heap entry behind; rebuilding when most are dead keeps the heap
        # within twice the live entries at constant cost per pull.
        if len(self._deadlines) > 64 and len(self._deadlines) > 2 * self._size:
            self._deadlines = [entry for entry in self._deadlines if entry[2].parked]
            heapq.heapify(self._deadlines)


def _may_match(pull: HeldPull, tags_code: int | None, properties: bytes | None) -> bool:
    if tags_code is not None and pull.tag_match is not None and not pull.tag_match(tags_code):
        return False
    if properties is not None and pull.properties_match is not None:
        return pull.properties_match(properties)
    return True
