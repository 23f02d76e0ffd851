"""Queue locks of orderly consumers: which client may consume a message queue of a group.

A lock belongs to a client id and expires :data:`LOCK_EXPIRE_MS` after its last renewal. Its owner
may renew it; after its expiry any client may take it.

**Source:** RocketMQ RebalanceLockManager.
"""

from collections.abc import Iterable
from typing import Final

from broker.common.message_queue import MessageQueue

LOCK_EXPIRE_MS: Final = 60_000  # clients renew every 20 s
MAX_LOCKS: Final = 500_000  # names come from the network; further queues are not locked


class RebalanceLockManager:
    """group → message queue → (client id, time of the last renewal)."""

    def __init__(self, life_ms: int = LOCK_EXPIRE_MS, limit: int = MAX_LOCKS) -> None:
        self._expire_ms = life_ms
        self._limit = limit
        self._size = 0
        self._groups: dict[str, dict[MessageQueue, tuple[str, int]]] = {}

    def lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int
    ) -> list[MessageQueue]:
        """Lock or renew ``queues`` for a client; return those it holds now, in the order given."""
        table = self._groups.setdefault(group, {})
        held = []
        for queue in queues:
            owner = table.get(queue)
            if owner is None:
                if self._size >= self._limit:
                    continue
                self._size += 1
            elif owner[0] != client_id and now_ms - owner[1] <= self._expire_ms:
                continue
            table[queue] = (client_id, now_ms)
            held.append(queue)
        if not table:
            del self._groups[group]
        return held

    def unlock(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Release the locks of a client; locks of other clients are not changed."""
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
        """Return True if a member holds a valid lock: the group consumes in order."""
        table = self._groups.get(group)
        if not table:
            return False
        return any(now_ms - since <= self._expire_ms for _, since in table.values())

    def expire(self, now_ms: int) -> None:
        """Remove expired locks, so that groups that have left take no memory."""
        for group, table in list(self._groups.items()):
            for queue, (_, since) in list(table.items()):
                if now_ms - since > self._expire_ms:
                    del table[queue]
                    self._size -= 1
            if not table:
                del self._groups[group]
