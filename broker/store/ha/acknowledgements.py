"""Acknowledgements: which puts are replicated, from the acknowledged offsets of the slaves.

A put waits for ``needed`` copies including the master's own. It is complete when that many
replicas, the master among them, have its last byte.

A slave with an empty log gets the master's last file only. Its acknowledgements do not cover
records before that file: a put of such a record needs one more copy (``skip``). Java counts that
slave, and answers SEND_OK for a message that only the master has.

Copies are counted by slave, not by connection (``SlaveTable``).

**Source:** RocketMQ GroupTransferService.
"""

import heapq
from collections.abc import Callable, Hashable, Mapping
from typing import Final

from broker.store.ha.slave_table import SlaveReport, SlaveTable
from broker.store.results import PutMessageStatus

MAX_SKIPS: Final = 64
"""Remembered starts of empty slaves; puts wait much shorter than so many connections take."""

ReplicaCallback = Callable[[PutMessageStatus], None]


_Waiting = tuple[int, int, int, int, float, ReplicaCallback]


class Acknowledgements:
    """Progress of the connected slaves and the puts that wait for it; used in one thread."""

    def __init__(self) -> None:
        self._slaves = SlaveTable()
        # (physical end, sequence, needed, first end, deadline, callback)
        self._waiting: list[_Waiting] = []
        self._sequence = 0
        # Physical offsets at which slaves with an empty log have started.
        self._skips: list[int] = []

    @property
    def waiting(self) -> int:
        """Number of puts that wait."""
        return len(self._waiting)

    def is_copied(self, physical_end: int, needed: int, first_end: int | None = None) -> bool:
        """Whether ``needed`` replicas, the master included, have the records that end there.

        ``first_end`` is the end of the first of several records, ``physical_end`` of the last.
        """
        if needed <= 1:
            return True
        skipped = self._skipped(physical_end if first_end is None else first_end)
        return self._slaves.acknowledged_by(needed - 1 + skipped) >= physical_end

    def skip(self, physical_offset: int) -> None:
        """Record that a slave starts at ``physical_offset`` without the records before it."""
        self._skips = [*self._skips, physical_offset][-MAX_SKIPS:]
        self._waiting = [
            (end, number, needed + (first <= physical_offset), first, deadline, callback)
            for end, number, needed, first, deadline, callback in self._waiting
        ]

    def _skipped(self, physical_end: int) -> int:
        """Return the number of slaves that may have acknowledged this offset without the record."""
        return sum(physical_end <= start for start in self._skips) if self._skips else 0

    def in_sync(self, max_offset: int, max_gap_bytes: int) -> int:
        """Replicas, the master included, that are less than ``max_gap_bytes`` from its end."""
        return 1 + self._slaves.in_sync(max_offset, max_gap_bytes)

    def wait(
        self,
        physical_end: int,
        needed: int,
        deadline: float,
        callback: ReplicaCallback,
        first_end: int | None = None,
    ) -> bool:
        """Call ``callback`` when ``needed`` replicas have the log up to ``physical_end``.

        ``first_end`` as in :meth:`is_copied`. True if it waits, until ``deadline`` at most; False
        if the callback was called at once.
        """
        if self.is_copied(physical_end, needed, first_end):
            callback(PutMessageStatus.PUT_OK)
            return False
        first = physical_end if first_end is None else first_end
        needed += self._skipped(first)
        self._sequence += 1
        entry = (physical_end, self._sequence, needed, first, deadline, callback)
        heapq.heappush(self._waiting, entry)
        return True

    def connected(self, connection: Hashable, host: str, sent: Mapping[Hashable, int]) -> None:
        """Add a connection; ``sent``: end of the bytes sent on each other one, -1 without any."""
        self._slaves.connected(connection, host, sent)

    def report(self, connection: Hashable, report: SlaveReport) -> None:
        """Record the report of a connection; completes the puts that it covers."""
        self._slaves.reported(connection, report)
        self._complete()

    def disconnected(self, connection: Hashable) -> None:
        """Remove a connection; puts wait for other slaves until their deadline."""
        self._slaves.disconnected(connection)

    def next_deadline(self) -> float | None:
        """The earliest deadline of the waiting puts, None without any."""
        return min((entry[4] for entry in self._waiting), default=None)

    def expire(self, now: float) -> None:
        """Answer FLUSH_SLAVE_TIMEOUT to the puts whose deadline is not after ``now``."""
        late = [entry for entry in self._waiting if entry[4] <= now]
        if not late:
            return
        self._waiting = [entry for entry in self._waiting if entry[4] > now]
        heapq.heapify(self._waiting)
        for entry in late:
            entry[5](PutMessageStatus.FLUSH_SLAVE_TIMEOUT)

    def _complete(self) -> None:
        """Complete waiting puts from the smallest offset on.

        Puts that need more copies than others may block completed ones after them only until
        the next report: both limits grow with the log.
        """
        kept = []
        while self._waiting:
            entry = self._waiting[0]
            if self._slaves.acknowledged_by(1) < entry[0]:
                break
            heapq.heappop(self._waiting)
            if self._slaves.acknowledged_by(entry[2] - 1) >= entry[0]:
                entry[5](PutMessageStatus.PUT_OK)
            else:
                kept.append(entry)
        for entry in kept:
            heapq.heappush(self._waiting, entry)
