"""QueueOrder: can the queue offset that a record says be its own?

No checksum covers a record's head. In a queue offsets go up by one, so a single wrong one shows:
the record behind it goes on as if it had been right. Recovery therefore holds back the unit of a
record whose offset does not follow, until the next record of that queue tells which it is:

==========================  ==================================================================
next goes on from it        the offset is real, what lies between was lost with a damaged part
next goes on without it     the offset is damaged: the record's place is the one expected
neither                     taken as it is
==========================  ==================================================================

An offset of 0 is always taken: a topic was deleted and made again.

**Source:** no Java counterpart; RocketMQ believes every offset and shifts or loses the neighbours.
"""

from collections.abc import Callable
from typing import Final

from broker.store.consumequeue import ConsumeQueue
from broker.store.reput import Dispatch

# No record is shorter: it bounds how many can have been lost between two places of the log.
SHORTEST_RECORD: Final = 91

Place = Callable[[Dispatch, int], None]
Misplaced = Callable[[Dispatch, int, int], None]


class QueueOrder:
    """Hands records on in order: ``place(entry, tags code)`` those whose offset can be their own.

    ``misplaced(entry, tags code, queue offset)`` gets the others, with the offset they must have.
    """

    def __init__(self, place: Place, misplaced: Misplaced) -> None:
        self._place = place
        self._misplaced = misplaced
        self._expected: dict[ConsumeQueue, int] = {}
        self._held: dict[ConsumeQueue, tuple[Dispatch, int]] = {}

    def offer(self, entry: Dispatch, code: int) -> None:
        """Take the next record of the log."""
        queue, queue_offset = entry[5], entry[4]
        if self._held and queue in self._held:
            self._judge(queue, queue_offset)
        expected = self._expected.get(queue)
        if expected is None:
            expected = _next_of(queue, entry)
            self._expected[queue] = expected
        if queue_offset == expected or queue_offset == 0:
            self._take(entry, code)
        else:
            self._held[queue] = (entry, code)

    def offer_run(self, queue: ConsumeQueue, first: int, count: int, physical_offset: int) -> bool:
        """Whether the next ``count`` records of a queue, from offset ``first`` on, are in order.

        They count as taken then; who asks places them. ``physical_offset`` is the first one's.
        """
        expected = self._expected.get(queue)
        if expected is None:
            expected = first
            if queue.max_offset > 0 and queue.max_physical_offset <= physical_offset:
                expected = queue.max_offset
        if queue in self._held or first not in (expected, 0):
            return False
        self._expected[queue] = first + count
        return True

    def finish(self, *, something_lost: bool, log_min: int = 0) -> None:
        """Hand on what is held back; its offset is real only if a part of the log was lost.

        That part may be what was cleaned away before the log's begin.
        """
        for queue in list(self._held):
            entry, code = self._held.pop(queue)
            if (something_lost or self._end_before(queue) < log_min) and self._has_room(entry):
                self._place(entry, code)
            else:
                self._misplaced(entry, code, self._expected[queue])

    def _judge(self, queue: ConsumeQueue, following: int) -> None:
        entry, code = self._held.pop(queue)
        expected = self._expected[queue]
        if following != entry[4] + 1 and (following == expected + 1 or not self._has_room(entry)):
            self._misplaced(entry, code, expected)
            self._expected[queue] = expected + 1
        else:
            self._take(entry, code)

    def _take(self, entry: Dispatch, code: int) -> None:
        self._expected[entry[5]] = entry[4] + 1
        self._place(entry, code)

    def _has_room(self, entry: Dispatch) -> bool:
        """Whether so many records can have been lost between this one and the one before it."""
        end = self._end_before(entry[5])
        lost = entry[4] - self._expected[entry[5]]
        return lost * SHORTEST_RECORD <= entry[0] - (end if end <= entry[0] else 0)

    def _end_before(self, queue: ConsumeQueue) -> int:
        """Physical end of the record before the one expected next, 0 without one.

        Not the queue's end: it may hold units of the held record and of later ones from before.
        """
        expected = self._expected[queue]
        before = queue.unit(expected - 1) if expected > 0 else None
        return before[0] + before[1] if before is not None else 0


def _next_of(queue: ConsumeQueue, entry: Dispatch) -> int:
    """The queue offset that the first record of a queue that is read must have."""
    if queue.max_offset > 0 and queue.max_physical_offset <= entry[0]:
        return queue.max_offset
    return entry[4]
