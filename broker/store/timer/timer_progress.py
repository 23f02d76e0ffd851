"""TimerProgress: write the state of the timers to their files, never ahead of the CommitLog.

One job writes them in this order, so that a crash at any point leaves the previous checkpoint
valid: every unit below its log position and every slot that it needs are on the disk.

::

    CommitLog flushed ─ timer log synced ─ wheel written and synced ─ timercheck ─ timermetrics

A slot is emptied in the file once the deliveries of its messages are flushed with the CommitLog:
nothing of it is needed any more, whichever checkpoint is on the disk.

**Source:** RocketMQ TimerMessageStore.TimerFlushService (its order: log, wheel, checkpoint).
"""

import os
from typing import Final

from broker.errors import RemoteProtocolError
from broker.store.config_file import ConfigFile
from broker.store.format.config import TIMER_METRICS
from broker.store.format.timer import (
    TimerCheckpoint,
    decode_timer_checkpoint,
    encode_timer_checkpoint,
)
from broker.store.logfile.disk import Disk, make_durable_folder
from broker.store.timer.timer_log import TimerLog
from broker.store.timer.timer_wheel import Changes, TimerWheel

TIMER_CHECK: Final = "timercheck"
TIMER_WHEEL: Final = "timerwheel"
TIMER_LOG_DIR: Final = "timerlog"


class TimerProgress:
    """The files below the store directory ``root``; :meth:`write` runs in any thread."""

    def __init__(self, disk: Disk, root: str, log: TimerLog, wheel: TimerWheel) -> None:
        self._disk = disk
        self._folder = os.path.join(root, "config")
        self.timer_log = log
        self.wheel = wheel
        self.path = os.path.join(self._folder, TIMER_CHECK)
        self.metrics_file = ConfigFile(os.path.join(self._folder, TIMER_METRICS), disk)

    def read(self, notes: list[str]) -> TimerCheckpoint | None:
        """Read ``timercheck``; None if it is missing or cannot be used."""
        if not self._disk.exists(self.path):
            return None
        data = self._disk.read(self.path)
        try:
            checkpoint = decode_timer_checkpoint(data)
        except RemoteProtocolError as error:
            notes.append(f"{self.path}: {error.message}; not used")
            return None
        if min(checkpoint[:3]) < 0 or not any(checkpoint):
            notes.append(f"{self.path}: positions below 0 or only zeros; not used")
            return None
        return checkpoint

    def remove(self) -> None:
        """Remove ``timercheck``; it is gone from the disk on return."""
        if self._disk.exists(self.path):
            self._disk.unlink(self.path)
            self._disk.sync_folder(self._folder)

    def write(self, checkpoint: TimerCheckpoint, changes: Changes, metrics: str) -> None:
        """Write everything; OSError or StoreError leaves the previous checkpoint in force."""
        self.timer_log.sync(checkpoint.last_timer_log_flush_position)
        self.wheel.write(changes)
        make_durable_folder(self._disk, self._folder)
        created = not self._disk.exists(self.path)
        fd = self._disk.open(self.path, create=True)
        try:
            data = encode_timer_checkpoint(checkpoint)
            self._disk.reserve(fd, len(data), self.path)
            self._disk.write_at(fd, data, 0)
            self._disk.sync_data(fd)
        finally:
            self._disk.close(fd)
        if created:
            self._disk.sync_folder(self._folder)
        if metrics:
            self.metrics_file.persist(metrics)
