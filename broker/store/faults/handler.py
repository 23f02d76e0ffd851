"""FaultHandler: log the failures of a store and enter them into its RunningFlags.

Each component reports a failure here; no other module logs that writes are refused. A full disk
is the only failure that can end: :meth:`FaultHandler.retry_due` limits the rate of the attempts,
and the end is logged after a quiet time, because a nearly full disk alternates.

**Source:** RocketMQ RunningFlags and its callers (there without a reason). Java logs a failed
force and continues; see :mod:`broker.store.flushing.flush`.
"""

import logging
import os
from typing import Final

from broker.common.clock import Clock
from broker.errors import DescriptorLimitError, DiskFullError, StoreError
from broker.store.faults.running_flags import RunningFlags
from broker.store.format.state import ABORT
from broker.store.logfile.disk import Disk
from broker.store.recovery.store_recovery import SYNC_FAILED, abort_content

_log = logging.getLogger(__name__)

# Time without a failed allocation after which "disk full" is reported as over.
_RECOVERED_AFTER_MS: Final = 10_000
# Minimum time between two attempts to allocate after "disk full".
_RETRY_MS: Final = 1_000


class FaultHandler:
    """Failures of the store in ``root``; its methods may be called from any thread.

    A permanent failure is logged as critical each time, a full disk once until it is over.
    """

    def __init__(self, disk: Disk, root: str, clock: Clock, flags: RunningFlags) -> None:
        self._disk = disk
        self._root = root
        self._clock = clock
        self._flags = flags
        # Time of the last allocation attempt after "disk full", and whether that was logged.
        self._last_attempt_ms = 0.0
        self._disk_full_reported = False
        self._reported_allocation = ""

    def dispatch_failed(self, reason: str) -> None:
        """Refuse writes until the store is opened again: messages cannot be made visible."""
        if self._flags.writable:
            _log.error("writes are refused: %s", reason)
        self._flags.make_dispatch_failed(reason)

    def background_died(self, reason: str) -> None:
        """Refuse writes until the store is opened again: a thread of the store has ended."""
        _log.critical("writes are refused: %s", reason)
        self._flags.make_background_failed(reason)

    def background_failed(self, error: Exception) -> None:
        """Classify the error of a background job. Temporary ones are retried by their callers."""
        if isinstance(error, (DiskFullError, DescriptorLimitError)):
            return
        if isinstance(error, (StoreError, OSError)):
            self.sync_failed(f"sync of a derived file failed: {error}")
        else:
            self.background_died(f"background job failed: {type(error).__name__}: {error}")

    def sync_failed(self, reason: str) -> None:
        """Refuse writes until the store is opened again: a sync has failed.

        The mark in ``abort`` makes the next start rewrite and sync all data.
        """
        if self._disk.refusal:
            # The directory is lost and already reported; its abort file may be another broker's.
            return
        self._flags.make_sync_failed(reason)
        _log.critical("writes are refused: %s", reason)
        abort = os.path.join(self._root, ABORT)
        try:
            content = abort_content(self._disk, self._root) + SYNC_FAILED
            self._disk.write(abort, content, sync=False)
        except (OSError, StoreError) as error:
            _log.error("%s: the failed sync cannot be recorded: %s", abort, error)

    def directory_lost(self, reason: str) -> str:
        """Refuse writes and file changes permanently: another broker may use the directory.

        Returns the reason with the remedy.
        """
        reason += ": stop this broker, restore the directory, then start it"
        self._disk.revoke(reason)
        self._flags.make_directory_lost(reason)
        _log.critical("writes are refused: %s", reason)
        return reason

    def allocation_failed(self, error: Exception) -> None:
        """Log that the next file cannot be created; a repeated error once."""
        if str(error) != self._reported_allocation:
            self._reported_allocation = str(error)
            _log.error("the file for the next message cannot be created: %s", error)

    def disk_full(self, error: DiskFullError) -> None:
        """Refuse writes until an allocation succeeds."""
        if not self._flags.sync_failed:
            self._report_disk_full(error.message)
        self._disk_full_reported = True
        self._last_attempt_ms = self._clock.monotonic_ms()
        self._flags.make_disk_full(error.message)

    def disk_over_limit(self, reason: str) -> None:
        """Refuse writes until disk usage is below the limit."""
        self._report_disk_full(reason)
        self._flags.make_disk_over_limit(reason)

    def _report_disk_full(self, reason: str) -> None:
        if not self._disk_full_reported:
            _log.error("disk full, writes are refused until there is space: %s", reason)
        self._disk_full_reported = True

    def retry_due(self) -> bool:
        """Return whether to retry the allocation now; True at most once a second."""
        now = self._clock.monotonic_ms()
        if not self._flags.disk_full or now - self._last_attempt_ms < _RETRY_MS:
            return False
        self._last_attempt_ms = now
        return True

    def report_recovered_space(self) -> None:
        """Log the end of "disk full" after a quiet time."""
        quiet_ms = self._clock.monotonic_ms() - self._last_attempt_ms
        if self._disk_full_reported and self._flags.writable and quiet_ms >= _RECOVERED_AFTER_MS:
            self._disk_full_reported = False
            _log.warning("the disk has space again: writes are accepted")
