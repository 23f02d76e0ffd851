"""QueueOffsetValidator: detect records whose stored queue offset is corrupt.

No checksum covers a record's header. Queue offsets increase by one, so a single corrupt offset
can be recognised: the next record of the queue continues the sequence without it. Recovery
therefore defers a record whose offset is not the expected one until the next record of the same
queue shows which of the two is right:

==================================  ===========================================================
the next offset follows this one    the offset is valid; the records before it were lost
the next offset follows the         the offset is corrupt; the record belongs at the expected
expected one                        queue offset
neither                             the offset is accepted if enough log space precedes the
                                    record for the missing ones, else it is corrupt
==================================  ===========================================================

Offset 0 is always accepted: the topic was deleted and recreated.

**Source:** no Java counterpart; RocketMQ trusts every offset and overwrites or loses neighbouring
units.
"""

from collections.abc import Callable
from typing import Final

from broker.store.consumequeue.consume_queue import ConsumeQueue
from broker.store.reput import Dispatch

# Minimum record length: bounds how many records can be missing between two physical offsets.
SHORTEST_RECORD: Final = 91

Place = Callable[[Dispatch, int], None]
MismatchedRecord = Callable[[Dispatch, int, int], None]


class QueueOffsetValidator:
    """Validate the queue offsets of records passed in log order.

    ``place(entry, tags code)`` receives the records with a valid offset,
    ``misplaced(entry, tags code, queue offset)`` the others, with the offset they should have.
    """

    def __init__(self, place: Place, misplaced: MismatchedRecord) -> None:
        self._place = place
        self._mismatched = misplaced
        self._expected: dict[ConsumeQueue, int] = {}
        self._held: dict[ConsumeQueue, tuple[Dispatch, int]] = {}

    def offer(self, entry: Dispatch, code: int) -> None:
        """Validate the next record of the log and, first, the deferred record of its queue."""
        queue, queue_offset = entry[5], entry[4]
        if self._held and queue in self._held:
            self._resolve(queue, queue_offset)
        expected = self._expected.get(queue)
        if expected is None:
            expected = _next_of(queue, entry)
            self._expected[queue] = expected
        if queue_offset == expected or queue_offset == 0:
            self._take(entry, code)
        else:
            self._held[queue] = (entry, code)

    def offer_run(self, queue: ConsumeQueue, first: int, count: int, physical_offset: int) -> bool:
        """Return whether ``count`` records of a queue continue its sequence at offset ``first``.

        If so they count as accepted, and the caller writes their units. ``physical_offset`` is
        that of the first record.
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
        """Pass on the deferred records; an offset is valid only if records before it were lost.

        They were lost to corruption (``something_lost``) or expired before ``log_min``.
        """
        for queue in list(self._held):
            entry, code = self._held.pop(queue)
            if (something_lost or self._end_before(queue) < log_min) and self._has_room(entry):
                self._place(entry, code)
            else:
                self._mismatched(entry, code, self._expected[queue])

    def _resolve(self, queue: ConsumeQueue, following: int) -> None:
        entry, code = self._held.pop(queue)
        expected = self._expected[queue]
        if following != entry[4] + 1 and (following == expected + 1 or not self._has_room(entry)):
            self._mismatched(entry, code, expected)
            self._expected[queue] = expected + 1
        else:
            self._take(entry, code)

    def _take(self, entry: Dispatch, code: int) -> None:
        self._expected[entry[5]] = entry[4] + 1
        self._place(entry, code)

    def _has_room(self, entry: Dispatch) -> bool:
        """Return whether the missing records fit between this record and its predecessor."""
        end = self._end_before(entry[5])
        lost = entry[4] - self._expected[entry[5]]
        return lost * SHORTEST_RECORD <= entry[0] - (end if end <= entry[0] else 0)

    def _end_before(self, queue: ConsumeQueue) -> int:
        """Physical end offset of the record before the expected one, 0 if there is none.

        The end of the queue cannot be used: the queue may already contain units of the deferred
        record and of later ones, written before the restart.
        """
        expected = self._expected[queue]
        before = queue.unit(expected - 1) if expected > 0 else None
        return before[0] + before[1] if before is not None else 0


def _next_of(queue: ConsumeQueue, entry: Dispatch) -> int:
    """The expected queue offset of the first record read of a queue."""
    if queue.max_offset > 0 and queue.max_physical_offset <= entry[0]:
        return queue.max_offset
    return entry[4]
