"""RunningFlags: the causes for which the store refuses writes, with one transition per event.

::

    cause              set by                       ends
    NOT_STARTED        a new store                  started()
    DIRECTORY_LOST     the directory monitor        never: it may belong to another broker
    SYNC_FAILED        a failed fdatasync           never: the kernel may have dropped the pages
    BACKGROUND_FAILED  a dead thread, a failed job  never
    DISPATCH_FAILED    an error while dispatching   never
    SHUTTING_DOWN      shutdown()                   started()
    REPLICA            brokerRole=SLAVE             never: only replicated bytes are appended
    FENCED             fence()                      unfence(): no other broker is the master
    DISK_FULL          an allocation that failed    disk_has_space()
    DISK_OVER_LIMIT    the cleaning round           disk_below_limit()

Causes are independent: disk space that is available again does not undo a failed sync. "never"
means until the store is opened again. Several threads call the transitions; puts read
:attr:`RunningFlags.refusal` without a lock.

**Source:** RocketMQ RunningFlags (there one bit per cause, without a reason).
"""

import enum
import threading


class Cause(enum.Enum):
    """Causes in order of priority: of several causes the first one is reported."""

    DIRECTORY_LOST = enum.auto()
    SYNC_FAILED = enum.auto()
    BACKGROUND_FAILED = enum.auto()
    DISPATCH_FAILED = enum.auto()
    SHUTTING_DOWN = enum.auto()
    NOT_STARTED = enum.auto()
    REPLICA = enum.auto()
    FENCED = enum.auto()
    DISK_FULL = enum.auto()
    DISK_OVER_LIMIT = enum.auto()


class RunningFlags:
    """The current causes; ``refusal`` is the reason of the first one, None when writable."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reasons = {Cause.NOT_STARTED: "the store is not open"}
        self.refusal: str | None = self._reasons[Cause.NOT_STARTED]

    @property
    def writable(self) -> bool:
        """Whether puts are accepted."""
        return self.refusal is None

    @property
    def sync_failed(self) -> bool:
        """Whether a sync has failed."""
        return Cause.SYNC_FAILED in self._reasons

    @property
    def disk_full(self) -> bool:
        """Whether an allocation has failed and none has succeeded since."""
        return Cause.DISK_FULL in self._reasons

    @property
    def disk_over_limit(self) -> bool:
        """Whether disk usage is above diskSpaceWarningLevelRatio."""
        return Cause.DISK_OVER_LIMIT in self._reasons

    def started(self) -> None:
        """The store has started."""
        self._clear(Cause.NOT_STARTED, Cause.SHUTTING_DOWN)

    def make_shutting_down(self) -> None:
        """The store is shutting down."""
        self._set(Cause.SHUTTING_DOWN, "the store is shutting down")

    def make_directory_lost(self, reason: str) -> None:
        """The directory, the lock file or the last CommitLog file was removed or replaced."""
        self._set(Cause.DIRECTORY_LOST, reason)

    def make_sync_failed(self, reason: str) -> None:
        """A sync of a store file has failed: data written before it may be lost."""
        self._set(Cause.SYNC_FAILED, reason)

    def make_background_failed(self, reason: str) -> None:
        """A thread of the store has died, or a background job failed with an unexpected error."""
        self._set(Cause.BACKGROUND_FAILED, reason)

    def make_dispatch_failed(self, reason: str) -> None:
        """Stored messages cannot be made visible."""
        self._set(Cause.DISPATCH_FAILED, reason)

    def make_replica(self) -> None:
        """The broker is a slave: its log is a copy of the master's."""
        self._set(Cause.REPLICA, "this broker is a slave; send to its master")

    def fence(self, reason: str) -> None:
        """Another broker is or becomes the master of this broker name."""
        self._set(Cause.FENCED, reason)

    def unfence(self) -> None:
        """This broker is the master of its name."""
        self._clear(Cause.FENCED)

    def make_disk_full(self, reason: str) -> None:
        """The space of a store file could not be allocated."""
        self._set(Cause.DISK_FULL, f"disk full: {reason}")

    def disk_has_space(self) -> None:
        """The allocation that failed has succeeded."""
        self._clear(Cause.DISK_FULL)

    def make_disk_over_limit(self, reason: str) -> None:
        """Disk usage is above diskSpaceWarningLevelRatio."""
        self._set(Cause.DISK_OVER_LIMIT, f"disk full: {reason}")

    def disk_below_limit(self) -> None:
        """Disk usage is no longer above diskSpaceWarningLevelRatio."""
        self._clear(Cause.DISK_OVER_LIMIT)

    def _set(self, cause: Cause, reason: str) -> None:
        with self._lock:
            self._reasons[cause] = reason
            self._choose()

    def _clear(self, *causes: Cause) -> None:
        with self._lock:
            for cause in causes:
                self._reasons.pop(cause, None)
            self._choose()

    def _choose(self) -> None:
        first = min(self._reasons, key=lambda cause: cause.value, default=None)
        self.refusal = None if first is None else self._reasons[first]
