"""PutDurability: what a send waits for before its response: the flush, copies, or both.

==============  ==================  =======================================
flushDiskType   copies              a send waits for
==============  ==================  =======================================
ASYNC_FLUSH     1                   nothing
SYNC_FLUSH      1                   the flush
ASYNC_FLUSH     inSyncReplicas > 1  the copies
SYNC_FLUSH      inSyncReplicas > 1  both; they run in parallel
==============  ==================  =======================================

If both fail, the result is that of the copies.

**Source:** RocketMQ CommitLog#handleDiskFlushAndHA.
"""

from broker.server.ha.service import HAService
from broker.store.flushing.flush import FlushCallback
from broker.store.message_store import MessageStore
from broker.store.results import PutMessageStatus


class PutDurability:
    """The waits of one broker; ``needed`` replicas, the master included, must have each record."""

    def __init__(self, store: MessageStore, service: HAService | None, needed: int) -> None:
        self._store = store
        self._service = service if needed > 1 else None
        self._needed = needed
        # Whether any send waits: read once per send.
        self.waits = store.sync_flush or self._service is not None

    def await_stored(self, physical_end: int, callback: FlushCallback) -> None:
        """Call ``callback(status)`` once everything below ``physical_end`` is flushed and copied.

        ``status``: PUT_OK, FLUSH_DISK_TIMEOUT or FLUSH_SLAVE_TIMEOUT.
        """
        service = self._service
        if service is None:
            self._store.await_flush(physical_end, callback)
            return
        if not self._store.sync_flush:
            service.await_replicas(physical_end, self._needed, callback)
            return
        statuses: dict[str, PutMessageStatus] = {}

        def completed(kind: str, status: PutMessageStatus) -> None:
            statuses[kind] = status
            if len(statuses) == 2:
                failed = statuses["copy"] is not PutMessageStatus.PUT_OK
                callback(statuses["copy" if failed else "flush"])

        self._store.await_flush(physical_end, lambda status: completed("flush", status))
        service.await_replicas(physical_end, self._needed, lambda status: completed("copy", status))
