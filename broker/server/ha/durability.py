"""PutDurability: conditions of a put before its append, and its waits before the response.

==============  ==========================  ============================================
flushDiskType   ReplicaPolicy               a put with a response waits for
==============  ==========================  ============================================
ASYNC_FLUSH     the master is enough        nothing
SYNC_FLUSH      the master is enough        the flush
ASYNC_FLUSH     copies are needed           the copies
SYNC_FLUSH      copies are needed           both; they run in parallel
==============  ==========================  ============================================

If both fail, the result is that of the copies. A put that a client is answered waits, whatever its
kind: sends, batches, half messages, commits, replies, recalls, sent-back messages, check points
and acks of POP. Puts of the broker itself (delivery of delays and timers, op messages, revival) do
not: they are repeated after a restart.

**Source:** RocketMQ CommitLog#handleDiskFlushAndHA. Java waits for no copy of a sent-back message.
"""

import asyncio
from typing import Final, Protocol

from broker.server.ha.replica_policy import ReplicaCounts, ReplicaPolicy
from broker.store.flushing.flush import FlushCallback
from broker.store.ha.acknowledgements import ReplicaCallback
from broker.store.message_store import MessageStore
from broker.store.results import PutMessageStatus

_OK: Final = PutMessageStatus.PUT_OK


class Replicas(ReplicaCounts, Protocol):
    """The part of HAService that is needed."""

    def await_replicas(self, physical_end: int, needed: int, callback: ReplicaCallback) -> None:
        """Call ``callback(status)`` once ``needed`` replicas have the log up to there."""
        ...

    def is_copied(self, physical_end: int, needed: int) -> bool:
        """Whether ``needed`` replicas, the master included, have the log up to there."""
        ...


class PutDurability:
    """The waits of one broker; ``replicas`` is None without slaves."""

    def __init__(
        self, store: MessageStore, replicas: Replicas | None, policy: ReplicaPolicy
    ) -> None:
        self._store = store
        self._replicas = replicas if policy.waits else None
        self._policy = policy
        # Whether any put waits, and whether any may be refused: read once per processor.
        self.waits = store.sync_flush or self._replicas is not None
        self.refuses = self._replicas is not None and policy.refuses

    def refusal(self) -> PutMessageStatus | None:
        """Return IN_SYNC_REPLICAS_NOT_ENOUGH if a put must not be appended now, else None."""
        if self._replicas is None or not self._policy.refuses_now(self._replicas):
            return None
        return PutMessageStatus.IN_SYNC_REPLICAS_NOT_ENOUGH

    def is_stored(self, physical_end: int) -> bool:
        """Whether a put that ends there needs no wait any more."""
        if self._store.sync_flush and physical_end > self._store.flushed_where:
            return False
        replicas = self._replicas
        if replicas is None:
            return True
        return replicas.is_copied(physical_end, self._policy.needed(replicas))

    def await_stored(self, physical_end: int, callback: FlushCallback) -> None:
        """Call ``callback(status)`` once everything below ``physical_end`` is flushed and copied.

        ``status``: PUT_OK, FLUSH_DISK_TIMEOUT, FLUSH_SLAVE_TIMEOUT or SLAVE_NOT_AVAILABLE.
        """
        replicas = self._replicas
        if replicas is None:
            self._store.await_flush(physical_end, callback)
            return
        if not self._store.sync_flush:
            self._await_copies(replicas, physical_end, callback)
            return
        statuses: dict[str, PutMessageStatus] = {}

        def completed(kind: str, status: PutMessageStatus) -> None:
            statuses[kind] = status
            if len(statuses) == 2:
                callback(statuses["copy" if statuses["copy"] is not _OK else "flush"])

        self._store.await_flush(physical_end, lambda status: completed("flush", status))
        self._await_copies(replicas, physical_end, lambda status: completed("copy", status))

    def _await_copies(
        self, replicas: Replicas, physical_end: int, callback: ReplicaCallback
    ) -> None:
        if self._policy.without_slave(replicas):
            callback(PutMessageStatus.SLAVE_NOT_AVAILABLE)
        else:
            replicas.await_replicas(physical_end, self._policy.needed(replicas), callback)

    async def stored(self, physical_end: int) -> PutMessageStatus:
        """Wait as :meth:`await_stored` does and return its status; PUT_OK at once without waits."""
        if not self.waits:
            return _OK
        loop = asyncio.get_running_loop()
        result: asyncio.Future[PutMessageStatus] = loop.create_future()

        def answer(status: PutMessageStatus) -> None:
            if not result.done():
                result.set_result(status)

        def called(status: PutMessageStatus) -> None:
            # A store without ``notify`` calls back in the flushing thread.
            loop.call_soon_threadsafe(answer, status)

        self.await_stored(physical_end, called)
        return await result
