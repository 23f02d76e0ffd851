"""Queue locks of orderly consumers: who may consume a message queue of a group.

A lock belongs to a client id, lives :data:`LOCK_LIFE_MS` after its last renewal, may be renewed
by its owner and taken by anyone once it has expired.

**Source:** RocketMQ RebalanceLockManager.
"""

from collections.abc import Iterable
from typing import Final

from broker.common.message_queue import MessageQueue

LOCK_LIFE_MS: Final = 60_000  # clients renew every 20 s
MAX_LOCKS: Final = 500_000  # names come from the network; further queues are not locked


class QueueLocks:
    """group → message queue → (client id, time of the last renewal)."""

    def __init__(self, life_ms: int = LOCK_LIFE_MS, limit: int = MAX_LOCKS) -> None:
        self._life_ms = life_ms
        self._limit = limit
        self._size = 0
        self._groups: dict[str, dict[MessageQueue, tuple[str, int]]] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int
    ) -> list[MessageQueue]:
        """Lock or renew ``queues`` for a client; those it holds now, in the order asked."""
        table = self._groups.setdefault(group, {})
        held = []
        for queue in queues:
            owner = table.get(queue)
            if owner is None:
                if self._size >= self._limit:
                    continue
                self._size += 1
            elif owner[0] != client_id and now_ms - owner[1] <= self._life_ms:
                continue
            table[queue] = (client_id, now_ms)
            held.append(queue)
        if not table:
            del self._groups[group]
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Give up the locks of a client; queues held by others stay as they are."""
        table = self._groups.get(group)
        if table is None:
            return
        for queue in queues:
            owner = table.get(queue)
            if owner is not None and owner[0] == client_id:
                del table[queue]
                self._size -= 1
        if not table:
            del self._groups[group]

    def holds_any(self, group: str, now_ms: int) -> bool:
        """True when some member of the group holds a live lock: it consumes in order."""
        table = self._groups.get(group)
        if not table:
            return False
        return any(now_ms - since <= self._life_ms for _, since in table.values())

    def expire(self, now_ms: int) -> None:
        """Forget locks that ended long ago, so that dead groups take no memory."""
        for group, table in list(self._groups.items()):
            for queue, (_, since) in list(table.items()):
                if now_ms - since > self._life_ms:
                    del table[queue]
                    self._size -= 1
            if not table:
                del self._groups[group]
