"""Acknowledgements: which puts are replicated, from the acknowledged offsets of the slaves.

A put waits for ``needed`` copies including the master's own. It is complete when that many
replicas, the master among them, have its last byte.

**Source:** RocketMQ GroupTransferService, DefaultHAService#inSyncReplicasNums.
"""

import heapq
from collections.abc import Callable, Hashable
from typing import NamedTuple

from broker.store.results import PutMessageStatus

ReplicaCallback = Callable[[PutMessageStatus], None]


class SlaveProgress(NamedTuple):
    """What is known about one slave: its acknowledged offset, and the offset sent to it."""

    acknowledged: int
    sent: int


class Acknowledgements:
    """Progress of the connected slaves and the puts that wait for it; used in one thread."""

    def __init__(self) -> None:
        self._slaves: dict[Hashable, int] = {}
        # (physical end, sequence, needed, deadline, callback)
        self._waiting: list[tuple[int, int, int, float, ReplicaCallback]] = []
        self._sequence = 0

    @property
    def slaves(self) -> int:
        """Number of connected slaves that have reported an offset."""
        return len(self._slaves)

    @property
    def waiting(self) -> int:
        """Number of puts that wait."""
        return len(self._waiting)

    def acknowledged_by(self, copies: int) -> int:
        """Physical offset up to which ``copies`` slaves have the log; -1 with fewer slaves."""
        if copies <= 0:
            raise ValueError(f"{copies} copies")
        if copies > len(self._slaves):
            return -1
        return heapq.nlargest(copies, self._slaves.values())[-1]

    def in_sync(self, max_offset: int, max_gap_bytes: int) -> int:
        """Replicas, the master included, that are less than ``max_gap_bytes`` from its end."""
        return 1 + sum(max_offset - offset < max_gap_bytes for offset in self._slaves.values())

    def wait(
        self, physical_end: int, needed: int, deadline: float, callback: ReplicaCallback
    ) -> bool:
        """Call ``callback`` when ``needed`` replicas have the log up to ``physical_end``.

        True if it waits, until ``deadline`` at most; False if the callback was called at once.
        """
        if needed <= 1 or self.acknowledged_by(needed - 1) >= physical_end:
            callback(PutMessageStatus.PUT_OK)
            return False
        self._sequence += 1
        heapq.heappush(self._waiting, (physical_end, self._sequence, needed, deadline, callback))
        return True

    def report(self, slave: Hashable, acknowledged: int) -> None:
        """Record a slave's acknowledged offset; completes the puts that it covers.

        A lower offset than before counts: the slave has lost data.
        """
        self._slaves[slave] = acknowledged
        self._complete()

    def disconnected(self, slave: Hashable) -> None:
        """Forget a slave; puts go on waiting for others until their deadline."""
        self._slaves.pop(slave, None)

    def next_deadline(self) -> float | None:
        """The earliest deadline of the waiting puts, None without any."""
        return min((entry[3] for entry in self._waiting), default=None)

    def expire(self, now: float) -> None:
        """Answer FLUSH_SLAVE_TIMEOUT to the puts whose deadline is not after ``now``."""
        late = [entry for entry in self._waiting if entry[3] <= now]
        if not late:
            return
        self._waiting = [entry for entry in self._waiting if entry[3] > now]
        heapq.heapify(self._waiting)
        for entry in late:
            entry[4](PutMessageStatus.FLUSH_SLAVE_TIMEOUT)

    def _complete(self) -> None:
        """Complete waiting puts from the smallest offset on.

        Puts that need more copies than others may block completed ones behind them only until
        the next report: both limits grow with the log.
        """
        kept = []
        while self._waiting:
            entry = self._waiting[0]
            if self.acknowledged_by(1) < entry[0]:
                break
            heapq.heappop(self._waiting)
            if self.acknowledged_by(entry[2] - 1) >= entry[0]:
                entry[4](PutMessageStatus.PUT_OK)
            else:
                kept.append(entry)
        for entry in kept:
            heapq.heappush(self._waiting, entry)
