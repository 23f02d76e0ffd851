"""Allocation strategies: pure functions of the sorted queues and the sorted member ids.

All members compute the same from the same lists, without talking to each other.

**Source:** RocketMQ ``AllocateMessageQueueStrategy`` and its implementations.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from hashlib import md5
from typing import Protocol

from broker.common.message_queue import MessageQueue
from broker.errors import ClientError


class AllocateStrategy(Protocol):
    """Allocates queues to one member; ``name`` is the strategy's name in RocketMQ."""

    name: str

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues of ``client_id``; ``queues`` and ``ids`` are sorted."""
        ...


def _takes_part(client_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]) -> bool:
    """Whether there is anything to allocate; ClientError without client id."""
    if not client_id:
        raise ClientError("an allocation needs the client id")
    return bool(queues) and client_id in ids


class AllocateAveragely:
    """Contiguous pages of nearly equal size, the default.

    >>> queues = [MessageQueue("T", "b", number) for number in range(8)]
    >>> mine = AllocateAveragely().allocate("g", "c1", queues, ["c0", "c1", "c2"])
    >>> [queue.queue_id for queue in mine]
    [3, 4, 5]
    """

    name = "AVG"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the page of ``client_id``."""
        if not _takes_part(client_id, queues, ids):
            return []
        index = ids.index(client_id)
        size, rest = divmod(len(queues), len(ids))
        if len(queues) <= len(ids):
            size, rest = 1, 0  # one each until they are used up
        start = index * size + min(index, rest)
        return list(queues[start : start + size + (index < rest)])


class AllocateAveragelyByCircle:
    """Every n-th queue."""

    name = "AVG_BY_CIRCLE"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues whose place is the member's, modulo the number of members."""
        if not _takes_part(client_id, queues, ids):
            return []
        return list(queues[ids.index(client_id) :: len(ids)])


class AllocateByConfig:
    """The same fixed queues at every rebalance, for any other members."""

    name = "CONFIG"

    def __init__(self, queues: Sequence[MessageQueue]) -> None:
        self.queues = list(queues)

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the configured queues."""
        return list(self.queues)


class AllocateByMachineRoom:
    """Only queues whose broker name is ``room@name`` with one of the given machine room names."""

    name = "MACHINE_ROOM"

    def __init__(self, names: Collection[str]) -> None:
        self.names = frozenset(names)

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return a page of these queues and one of those left over."""
        if not _takes_part(client_id, queues, ids):
            return []
        near = [queue for queue in queues if self._is_near(queue.broker_name)]
        index = ids.index(client_id)
        size, rest = divmod(len(near), len(ids))
        mine = near[index * size : (index + 1) * size]
        if rest > index:
            mine.append(near[index + size * len(ids)])
        return mine

    def _is_near(self, broker_name: str) -> bool:
        parts = broker_name.split("@")
        return len(parts) == 2 and parts[0] in self.names


class AllocateByMachineRoomNearby:
    """Queues of a room are shared by the members in that room.

    Queues of a room without a member are shared by all members. ``room_of_queue`` and
    ``room_of_client`` name the room; ``inner`` allocates within one.
    """

    def __init__(
        self,
        inner: AllocateStrategy,
        room_of_queue: Callable[[MessageQueue], str],
        room_of_client: Callable[[str], str],
    ) -> None:
        self._inner = inner
        self._room_of_queue = room_of_queue
        self._room_of_client = room_of_client
        self.name = f"MACHINE_ROOM_NEARBY-{inner.name}"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the own room's share, then a share of each room that has no members."""
        if not _takes_part(client_id, queues, ids):
            return []
        queues_of: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            room = self._room_of_queue(queue)
            if not room:
                raise ClientError(f"the machine room of {queue} is not known")
            queues_of.setdefault(room, []).append(queue)
        ids_of: dict[str, list[str]] = {}
        for member in ids:
            room = self._room_of_client(member)
            if not room:
                raise ClientError(f"the machine room of client {member} is not known")
            ids_of.setdefault(room, []).append(member)
        own = self._room_of_client(client_id)
        mine: list[MessageQueue] = []
        near = queues_of.pop(own, [])
        if near:
            mine += self._inner.allocate(group, client_id, near, ids_of[own])
        for room in sorted(queues_of):
            if room not in ids_of:
                mine += self._inner.allocate(group, client_id, queues_of[room], ids)
        return mine


class AllocateByConsistentHash:
    """A hash ring with virtual nodes: few queues move when a member joins or leaves."""

    name = "CONSISTENT_HASH"

    def __init__(
        self, virtual_nodes: int = 10, hash_function: Callable[[str], int] | None = None
    ) -> None:
        if virtual_nodes < 0:
            raise ClientError(f"virtual_nodes is {virtual_nodes}: it must not be negative")
        self.virtual_nodes = virtual_nodes
        self._hash = hash_function or md5_hash

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]
    ) -> list[MessageQueue]:
        """Return the queues whose next point of the ring belongs to ``client_id``."""
        if not _takes_part(client_id, queues, ids):
            return []
        ring = {
            self._hash(f"{member}-{number}"): member
            for member in ids
            for number in range(self.virtual_nodes)
        }
        points = sorted(ring)
        if not points:
            return []
        mine = []
        for queue in queues:
            place = bisect_left(points, self._hash(queue_key(queue)))
            if ring[points[place % len(points)]] == client_id:
                mine.append(queue)
        return mine


def md5_hash(key: str) -> int:
    """Return the first four bytes of the MD5, unsigned, big-endian.

    **Source:** RocketMQ ``ConsistentHashRouter.MD5Hash``.
    """
    return int.from_bytes(md5(key.encode(), usedforsecurity=False).digest()[:4], "big")


def queue_key(queue: MessageQueue) -> str:
    """Return the text that represents a queue on the ring (Java's ``MessageQueue#toString``)."""
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, "
        f"queueId={queue.queue_id}]"
    )
