"""FlushConsumeQueueService: sync the derived files — queues, full index files, the checkpoint.

Runs in the worker thread, except :meth:`FlushConsumeQueueService.sync_before_delete` and the sync
of a clean stop. The checkpoint's time for queues and index advances only after the sync that it
records and after the flush of the log up to it (:mod:`broker.store.flushing.flush_barrier`).

**Source:** RocketMQ FlushConsumeQueueService, IndexService#flush.
"""

from broker.common.clock import Clock
from broker.errors import StoreError
from broker.store.config import MessageStoreConfig
from broker.store.consumequeue.consume_queue_store import ConsumeQueueStore
from broker.store.dispatch.reput import ReputService
from broker.store.faults.handler import FaultHandler
from broker.store.flushing.flush import StoreCheckpoint
from broker.store.flushing.flush_barrier import FlushBarrier
from broker.store.flushing.worker import Worker, WorkerTimer
from broker.store.index.index_file import IndexFile


class FlushConsumeQueueService:
    """Syncs queues that became dirty after flushIntervalConsumeQueue, and index files once full."""

    def __init__(
        self,
        config: MessageStoreConfig,
        clock: Clock,
        reput: ReputService,
        *,
        worker: Worker,
        checkpoint: StoreCheckpoint,
        barrier: FlushBarrier,
        faults: FaultHandler,
    ) -> None:
        self._config = config
        self._clock = clock
        self._reput = reput
        self._queues: ConsumeQueueStore = reput.queues
        self._index = reput.index
        self._worker = worker
        self._timer = WorkerTimer(worker, self._flush)
        self._checkpoint = checkpoint
        self._barrier = barrier
        self._faults = faults
        self._last_thorough_ms = 0.0
        self._queues.on_first_dirty = self._schedule
        if self._index is not None:
            self._index.on_full = self._index_full

    def _schedule(self) -> None:
        self._timer.schedule(self._config.flush_interval_consume_queue)

    def _flush(self) -> None:
        """Flush queues with enough dirty pages, then the checkpoint.

        Every flushConsumeQueueThoroughInterval all dirty queues are flushed; only then does the
        checkpoint's time for queues advance.
        """
        now = self._clock.monotonic_ms()
        interval = self._config.flush_consume_queue_thorough_interval
        thorough = now - self._last_thorough_ms >= interval
        try:
            self.sync(thorough=thorough)
            if thorough:
                self._last_thorough_ms = now
            self._checkpoint.flush()
        finally:
            if self._queues.dirty:
                self._schedule()

    def sync(self, *, thorough: bool) -> None:
        """Sync the dirty queues; ``thorough``: also those with few dirty pages.

        Runs in the worker, in parallel with the thread that appends.
        """
        timestamp = self._reput.last_store_timestamp
        self._queues.sync(0 if thorough else self._config.flush_consume_queue_least_pages)
        if thorough:
            self._barrier.behind(lambda: self._checkpoint.set_logics(timestamp))()

    def sync_before_delete(self, log_min: int) -> bool:
        """Sync the units of records before ``log_min``, which are about to be deleted.

        Those units cannot be rebuilt from the log afterwards. False if a sync fails: the files
        must not be deleted then, and the store refuses writes.
        """
        try:
            self._queues.sync_before_delete(log_min)
        except (OSError, StoreError) as error:
            self._faults.sync_failed(f"sync of the queues failed: {error}")
            return False
        return True

    def _index_full(self, index: IndexFile) -> None:
        assert self._index is not None
        files = self._index.files
        set_index = self._barrier.before(lambda: self._checkpoint.set_index(index.end_timestamp))

        def job() -> None:
            # Sync earlier files too: the checkpoint covers all index files up to this one.
            for file in list(files):
                file.sync()
                if file is index:
                    break
            set_index()
            self._checkpoint.flush()

        self._worker.run(job)
