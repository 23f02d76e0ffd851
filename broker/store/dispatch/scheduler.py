"""DispatchScheduler: decides when appended records are flushed and dispatched.

One flush request and one dispatch serve all puts of an event-loop turn::

    put ─ schedule ─ end of the turn ─┬─ flusher.wake or touched
                                      └─ ASYNC_FLUSH: dispatch a slice now
                                         SYNC_FLUSH: dispatch when the flush has ended

It must be used from the thread that appends.

**Source:** RocketMQ DefaultMessageStore.ReputMessageService (there a thread that polls).
"""

import logging
from collections.abc import Callable
from typing import Final

from broker.errors import DescriptorLimitError, DiskFullError, StoreError
from broker.store.commitlog import CommitLog
from broker.store.dispatch.reput import ReputService
from broker.store.faults.handler import FaultHandler
from broker.store.faults.running_flags import RunningFlags
from broker.store.flushing.flush import FlushCallback, FlushService

_log = logging.getLogger(__name__)

Defer = Callable[[Callable[[], None]], None]

# Records dispatched in one turn of the loop, about 10 ms.
DISPATCH_SLICE: Final = 2_048


class DispatchScheduler:
    """Schedules flush and dispatch; ``defer(fn)`` runs ``fn`` at the end of the loop's turn.

    Without ``defer`` each call flushes and dispatches at once. ``scheduled`` is whether the end of
    the turn already includes a dispatch; puts read it without a call.
    """

    def __init__(
        self,
        log: CommitLog,
        reput: ReputService,
        flusher: FlushService,
        *,
        flags: RunningFlags,
        faults: FaultHandler,
        sync_flush: bool,
        defer: Defer | None,
    ) -> None:
        self.scheduled = False
        self._log = log
        self._reput = reput
        self._flusher = flusher
        self._flags = flags
        self._faults = faults
        self._sync_flush = sync_flush
        self._defer = defer
        self._flush_requested = False
        # Called at the end of each turn that appended; replication sends from there.
        self.on_appended: Callable[[], None] | None = None

    @property
    def limit(self) -> int:
        """Physical offset up to which records may become visible."""
        return self._log.flushed_where if self._sync_flush else self._log.max_offset

    def schedule(self) -> None:
        """Schedule flush and dispatch of the appended records."""
        if self._defer is not None:
            self.scheduled = True
            self._defer(self._end_of_turn)
        else:
            self._end_of_turn()

    def pause(self) -> bool:
        """Make puts append without scheduling; return the state that :meth:`resume` needs."""
        before, self.scheduled = self.scheduled, True
        return before

    def resume(self, before: bool) -> None:
        """Schedule once for all records appended since :meth:`pause`."""
        self.scheduled = before
        if not before:
            self.schedule()

    def _end_of_turn(self) -> None:
        self.scheduled = False
        self._log.write_gathered()
        if self._flush_requested:
            self._flush_requested = False
            self._flusher.wake()
        elif self._sync_flush and self._defer is not None:
            # The responses of this turn are about to wait for the flush: one wake-up serves both.
            self._defer(self._touch_flusher)
        else:
            self._flusher.touched()
        if self.on_appended is not None:
            self.on_appended()
        self._log.load_ahead(sync_flush=self._sync_flush)
        if not self._sync_flush:
            self.dispatch_slice()

    def _touch_flusher(self) -> None:
        """Report growth of the log, unless the end of the turn starts a flush anyway."""
        if not self._flush_requested:
            self._flusher.touched()

    def dispatch_slice(self) -> None:
        """Dispatch; a large backlog in several event-loop turns, with other work in between."""
        if self._defer is None:
            self.dispatch()
            return
        before = self._reput.offset
        self.dispatch(DISPATCH_SLICE)
        if before < self._reput.offset < self.limit:
            self._defer(self.dispatch_slice)

    def dispatch(self, max_count: int | None = None) -> None:
        """Make appended messages visible (queues, index, listeners); with SYNC_FLUSH flushed ones.

        At most ``max_count`` messages; None for all. Errors do not raise: a full disk and other
        errors make the store refuse writes; without a file descriptor a later call tries again.

        **Source:** RocketMQ DefaultMessageStore.ReputMessageService#doReput.
        """
        self._log.write_gathered()
        limit = self.limit
        if self._reput.offset >= limit and not self._reput.pending:
            return
        try:
            self._reput.run(limit, max_count)
        except DiskFullError as error:
            self._faults.disk_full(error)
        except DescriptorLimitError as error:
            _log.warning("dispatch waits for a file descriptor: %s", error)
        except Exception as error:
            # The event loop would only log it: messages would be acknowledged but never visible.
            _log.exception("dispatch failed")
            self._faults.dispatch_failed(f"dispatch failed: {error}")

    def await_flush(self, physical_end: int, callback: FlushCallback) -> None:
        """Call ``callback(status)`` once everything below ``physical_end`` is on the disk.

        ``status`` is PUT_OK, or FLUSH_DISK_TIMEOUT after syncFlushTimeout or a failed sync. All
        waiting puts of one event-loop turn share one sync. If the result is already known, the
        callback runs within this call; otherwise through ``notify``, if the store has one.
        """
        self._log.write_gathered()
        if self._flusher.wait_for(physical_end, callback):
            self._flush_requested = True
            if self._defer is None:
                self._flush_requested = False
                self._flusher.wake()
            elif not self.scheduled:
                self.schedule()
            if not self._sync_flush:
                self._flusher.wake()

    def retry_allocation(self) -> bool:
        """Retry the allocation after a full disk, at most once a second; True if now writable."""
        if not self._faults.retry_due():
            return False
        try:
            self._log.ready()
            if self._reput.index is not None:
                self._reput.index.catch_up()
        except DiskFullError as error:
            self._faults.disk_full(error)
            return False
        except (StoreError, OSError) as error:
            _log.error("the disk was full and cannot be used again: %s", error)
            return False
        self._flags.disk_has_space()
        self.dispatch()
        return self._flags.writable
