"""Long polling of pops and notifications: requests that found no message wait for one.

A message that arrives wakes at most two requests of each group: one that asked for any queue and
one that asked for its queue, because each message can be delivered to one request only. Of several
requests of one key, pops are woken oldest first, notifications newest first. A request whose filter
rejects the message is passed over. Deadlines are the request's ``bornTime`` + ``pollTime``; they
are exact here, Java checks every 20 ms.

A pure object that receives the time as an argument. A suspended request is removed exactly once:
woken, expired, dropped with its connection, or taken when the broker stops.

**Source:** RocketMQ PopLongPollingService.
"""

import heapq
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final

from broker.common.topic import pop_retry_topic
from broker.remoting.budget import MemoryBudget
from broker.server.filter.message_filter import EVERYTHING, Matcher

if TYPE_CHECKING:
    from broker.remoting.protocol.command import RemotingCommand
    from broker.remoting.server import Connection

SUSPENDED_POP_BYTES: Final = 2_048  # one request with its table entries
ANY_QUEUE: Final = -1
LATE_MS: Final = 500  # a request that is this late at its arrival is not served

PollingKey = tuple[str, int]
"""group, queue id."""


class PollingResult(Enum):
    """Outcome of an attempt to suspend a request."""

    SUSPENDED = "POLLING_SUC"
    FULL = "POLLING_FULL"
    TIMEOUT = "POLLING_TIMEOUT"


class SuspendedPop:
    """One suspended request; ``deadline_ms`` is a monotonic time."""

    __slots__ = ("connection", "deadline_ms", "group", "matcher", "queue_id", "request", "waiting")

    def __init__(
        self, connection: "Connection", request: "RemotingCommand", group: str, queue_id: int
    ) -> None:
        self.connection = connection
        self.request = request
        self.group = group
        self.queue_id = queue_id
        self.deadline_ms = 0.0
        self.matcher: Matcher = EVERYTHING
        self.waiting = False

    @property
    def held_bytes(self) -> int:
        """The memory charged to its connection."""
        return SUSPENDED_POP_BYTES + self.matcher.held_bytes


class PopLongPolling:
    """Suspended requests by topic, group and queue, by deadline and by connection.

    ``limit`` bounds all requests, ``key_limit`` those of one topic, group and queue.
    """

    def __init__(
        self,
        memory: "MemoryBudget[Connection]",
        *,
        limit: int,
        key_limit: int,
        newest_first: bool = False,
    ) -> None:
        self.limit = limit
        self.key_limit = key_limit
        self._closed = False
        self._memory = memory
        self._newest_first = newest_first
        self._topics: dict[str, dict[PollingKey, dict[SuspendedPop, None]]] = {}
        self._topic_of: dict[SuspendedPop, str] = {}
        self._retry_topics: dict[str, tuple[str, str]] = {}
        self._deadlines: list[tuple[float, int, SuspendedPop]] = []
        self._of_connection: dict[Connection, set[SuspendedPop]] = {}
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._topic_of)

    @property
    def topics(self) -> Mapping[str, object]:
        """The topics with suspended requests, as a live view."""
        return self._topics

    @property
    def retry_topics(self) -> Mapping[str, tuple[str, str]]:
        """Retry topic → (topic, group) of the groups with suspended requests, as a live view."""
        return self._retry_topics

    def waiting(self, topic: str, group: str, queue_id: int) -> int:
        """Return the number of suspended requests of one key."""
        return len(self._topics.get(topic, {}).get((group, queue_id), ()))

    def suspend(self, topic: str, pop: SuspendedPop, now_ms: float) -> PollingResult:
        """Suspend a request until its deadline.

        **Source:** RocketMQ PopLongPollingService#polling.
        """
        if self._closed or pop.deadline_ms <= now_ms:
            return PollingResult.TIMEOUT
        if len(self) >= self.limit or self.waiting(topic, pop.group, pop.queue_id) > self.key_limit:
            return PollingResult.FULL
        if not self._memory.reserve(pop.connection, pop.held_bytes):
            return PollingResult.FULL
        keys = self._topics.setdefault(topic, {})
        keys.setdefault((pop.group, pop.queue_id), {})[pop] = None
        self._topic_of[pop] = topic
        for version_2 in (False, True):
            name = pop_retry_topic(topic, pop.group, version_2=version_2)
            self._retry_topics[name] = (topic, pop.group)
        self._of_connection.setdefault(pop.connection, set()).add(pop)
        self._sequence += 1
        heapq.heappush(self._deadlines, (pop.deadline_ms, self._sequence, pop))
        pop.waiting = True
        self._compact()
        return PollingResult.SUSPENDED

    def arrived(
        self,
        topic: str,
        queue_id: int,
        tags_code: int | None = None,
        properties: bytes | None = None,
    ) -> list[SuspendedPop]:
        """Remove and return the requests that a message in one queue wakes."""
        keys = self._topics.get(topic)
        if keys is None:
            return []
        wanted = (ANY_QUEUE, queue_id)
        woken = [
            pop
            for key in list(keys)
            if key[1] in wanted
            and (pop := self._first(keys[key], tags_code, properties)) is not None
        ]
        for pop in woken:
            self._remove(pop)
        return woken

    def wake(self, topic: str, group: str, queue_id: int) -> list[SuspendedPop]:
        """Remove and return one request of a key, whatever its filter; empty if none waits."""
        pops = self._topics.get(topic, {}).get((group, queue_id))
        pop = self._first(pops, None, None) if pops else None
        if pop is None:
            return []
        self._remove(pop)
        return [pop]

    def wake_group(self, topic: str, group: str) -> list[SuspendedPop]:
        """Remove and return one request of each key of a group: a retry message has arrived."""
        queues = [queue_id for name, queue_id in self._topics.get(topic, ()) if name == group]
        return [pop for queue_id in queues for pop in self.wake(topic, group, queue_id)]

    def withdraw(self, pop: SuspendedPop) -> bool:
        """Remove one request; return False if it was woken, has expired or is gone."""
        if not pop.waiting:
            return False
        self._remove(pop)
        return True

    def next_deadline_ms(self) -> float | None:
        """Return when :meth:`expire` must be called next, None if no request is suspended."""
        while self._deadlines and not self._deadlines[0][2].waiting:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def expire(self, now_ms: float) -> list[SuspendedPop]:
        """Remove and return the requests whose deadline has passed."""
        over = []
        while (deadline := self.next_deadline_ms()) is not None and deadline <= now_ms:
            pop = heapq.heappop(self._deadlines)[2]
            self._remove(pop)
            over.append(pop)
        return over

    def drop_connection(self, connection: "Connection") -> None:
        """Remove the requests of a closed connection."""
        for pop in list(self._of_connection.get(connection, ())):
            self._remove(pop)
        self._compact()

    def take_all(self) -> list[SuspendedPop]:
        """Remove and return all requests, and accept no more: the broker stops."""
        self._closed = True
        everything = [pop for _, _, pop in self._deadlines if pop.waiting]
        for pop in everything:
            self._remove(pop)
        self._deadlines.clear()
        return everything

    def _first(
        self,
        pops: dict[SuspendedPop, None],
        tags_code: int | None,
        properties: bytes | None,
    ) -> SuspendedPop | None:
        order = reversed(pops) if self._newest_first else iter(pops)
        for pop in order:
            tags, match = pop.matcher.tags, pop.matcher.properties
            if tags_code is not None and tags is not None and not tags(tags_code):
                continue
            if properties is not None and match is not None and not match(properties):
                continue
            return pop
        return None

    def _remove(self, pop: SuspendedPop) -> None:
        pop.waiting = False
        self._memory.release(pop.connection, pop.held_bytes)
        topic = self._topic_of.pop(pop)
        keys = self._topics[topic]
        pops = keys[pop.group, pop.queue_id]
        del pops[pop]
        if not pops:
            del keys[pop.group, pop.queue_id]
            if not any(group == pop.group for group, _ in keys):
                for version_2 in (False, True):
                    del self._retry_topics[pop_retry_topic(topic, pop.group, version_2=version_2)]
            if not keys:
                del self._topics[topic]
        mine = self._of_connection[pop.connection]
        mine.discard(pop)
        if not mine:
            del self._of_connection[pop.connection]

    def _compact(self) -> None:
        # Removing a request leaves its heap entry: rebuilding keeps it within twice the live ones.
        if len(self._deadlines) > 64 and len(self._deadlines) > 2 * len(self):
            self._deadlines = [entry for entry in self._deadlines if entry[2].waiting]
            heapq.heapify(self._deadlines)
