"""Acknowledgements: which puts are replicated, from the acknowledged offsets of the slaves.

A put waits for ``needed`` copies including the master's own. It is complete when that many
replicas, the master among them, have its last byte.

A slave with an empty log gets the master's last file only. Its acknowledgements do not cover
records before that file: a put of such a record needs one more copy (``skip``). Java counts that
slave, and answers SEND_OK for a message that only the master has.

**Source:** RocketMQ GroupTransferService, DefaultHAService#inSyncReplicasNums.
"""

import heapq
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from broker.store.results import PutMessageStatus

MAX_SKIPS: Final = 64
"""Remembered starts of empty slaves; puts wait much shorter than so many connections take."""

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
        # Physical offsets at which slaves with an empty log have started.
        self._skips: list[int] = []

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

    def is_copied(self, physical_end: int, needed: int) -> bool:
        """Whether ``needed`` replicas, the master included, have the log up to there."""
        if needed <= 1:
            return True
        return self.acknowledged_by(needed - 1 + self._skipped(physical_end)) >= physical_end

    def skip(self, physical_offset: int) -> None:
        """Record that a slave starts at ``physical_offset`` without the records before it."""
        self._skips = [*self._skips, physical_offset][-MAX_SKIPS:]
        self._waiting = [
            (end, number, needed + (end <= physical_offset), deadline, callback)
            for end, number, needed, deadline, callback in self._waiting
        ]

    def _skipped(self, physical_end: int) -> int:
        """Return the number of slaves that may have acknowledged this offset without the record."""
        return sum(physical_end <= start for start in self._skips) if self._skips else 0

    def in_sync(self, max_offset: int, max_gap_bytes: int) -> int:
        """Replicas, the master included, that are less than ``max_gap_bytes`` from its end."""
        return 1 + sum(max_offset - offset < max_gap_bytes for offset in self._slaves.values())

    def wait(
        self, physical_end: int, needed: int, deadline: float, callback: ReplicaCallback
    ) -> bool:
        """Call ``callback`` when ``needed`` replicas have the log up to ``physical_end``.

        True if it waits, until ``deadline`` at most; False if the callback was called at once.
        """
        if self.is_copied(physical_end, needed):
            callback(PutMessageStatus.PUT_OK)
            return False
        needed += self._skipped(physical_end)
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
