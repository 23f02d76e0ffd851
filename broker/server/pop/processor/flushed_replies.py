"""Replies that wait until the check points and acks they report are flushed and copied.

All replies of one event-loop iteration wait for one group commit. A failed wait does not change
them, as in Java: the record is in the log, and a lost one only repeats a delivery.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.remoting.protocol.command import RemotingCommand
from broker.store.results import PutMessageStatus

if TYPE_CHECKING:
    from broker.remoting.server import Connection
    from broker.server.ha.durability import PutDurability

Reply = RemotingCommand | bytes


class FlushedReplies:
    """Replies that wait together; ``durability()`` returns the broker's PutDurability.

    ``soon`` runs a call at the end of this event-loop iteration.
    """

    def __init__(
        self,
        durability: Callable[[], "PutDurability"],
        soon: Callable[[Callable[[], None]], object],
    ) -> None:
        self._durability = durability
        self._soon = soon
        self._waiting: list[tuple[Connection, Reply]] = []
        self._end = 0

    def hold(self, connection: "Connection", reply: Reply, end: int) -> Reply | None:
        """Return the reply, or None if it is sent once the log is stored up to ``end``."""
        durability = self._durability()
        if not durability.waits or durability.is_stored(end):
            return reply
        first = not self._waiting
        self._waiting.append((connection, reply))
        self._end = max(self._end, end)
        if first:
            self._soon(self._join_group_commit)
        return None

    def _join_group_commit(self) -> None:
        waiting, self._waiting = self._waiting, []

        def flushed(status: PutMessageStatus) -> None:
            for connection, reply in waiting:
                if not connection.closed:
                    connection.send(reply)

        self._durability().await_stored(self._end, flushed)
