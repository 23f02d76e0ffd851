"""QueueOffsetValidator: detect records whose stored queue offset is corrupt.

No checksum covers a record's header. Queue offsets increase by one, or by the number of messages of
an inner batch, so a single corrupt offset can be recognised: the next record of the queue continues
the sequence without it. Recovery therefore defers a record whose offset is not the expected one
until the next record of the same queue shows which of the two is right:

==================================  ===========================================================
the next offset follows this one    the offset is valid; the records before it were lost
the next offset follows the         the offset is corrupt; the record belongs at the expected
expected one                        queue offset
neither                             the offset is accepted if enough log space precedes the
                                    record for the missing ones, else it is corrupt
==================================  ===========================================================

A unit that was there before the restart decides first: if the one at the record's own offset points
to the record, the offset is valid; if the one at the expected offset does, it is corrupt. Only then
is offset 0 always accepted: the topic was deleted and recreated. A negative offset is never valid.

**Source:** no Java counterpart; RocketMQ trusts every offset and overwrites or loses neighbouring
units.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from typing import Final

from broker.message.batch import MIN_ITEM_SIZE
from broker.store.consumequeue.consume_queue import ConsumeQueue, Topic
from broker.store.dispatch.request import DispatchRequest
from broker.store.format.commitlog import RECORD_LEAST

# Searches of a topic's queues for the unit of a record, without a result, before a scan makes no
# more. One takes 5 ms for 1,000 queues, and a topic that was deleted and recreated needs two per
# queue: its old records have the queue offsets of the new ones.
MAX_SEARCHES: Final = 32
Append = Callable[[DispatchRequest, int], None]
MismatchedRecord = Callable[[DispatchRequest, int, int], None]


class QueueOffsetValidator:
    """Validate the queue offsets of records passed in log order.

    ``append(request, tags code)`` receives the records with a valid offset,
    ``mismatched(request, tags code, queue offset)`` the others, with the offset they should have.
    """

    def __init__(self, append: Append, mismatched: MismatchedRecord) -> None:
        self._append = append
        self._mismatched = mismatched
        self._expected: dict[ConsumeQueue, int] = {}
        self._deferred: dict[ConsumeQueue, tuple[DispatchRequest, int]] = {}
        self._searches: Counter[Topic] = Counter()

    def accept(self, request: DispatchRequest, code: int) -> None:
        """Validate the next record of the log and, first, the deferred record of its queue.

        ValueError if another record has its place, and a unit of another queue points to it: its
        queue id is corrupt. With offset 0 it would restart its topic.
        """
        queue, queue_offset = request.queue, request.queue_offset
        place = (request.physical_offset, request.size)
        stored = queue.unit(queue_offset)
        if stored is not None and stored[:2] != place:
            self._refuse_other_owner(queue, place)
        if self._deferred and queue in self._deferred:
            self._resolve(queue, queue_offset)
        expected = self._expected.get(queue)
        if expected is None:
            expected = _next_of(queue, request)
            self._expected[queue] = expected
        if queue_offset == expected or _has_unit(queue, queue_offset, place):
            self._take(request, code)
        elif queue_offset < 0 or _has_unit(queue, expected, place):
            self._mismatch(request, code, expected)
        elif queue_offset == 0:
            self._take(request, code)
        else:
            self._deferred[queue] = (request, code)

    def accept_run(self, queue: ConsumeQueue, first: int, count: int, physical_offset: int) -> bool:
        """Return whether ``count`` records of a queue continue its sequence at offset ``first``.

        If so they count as accepted, and the caller writes their units; else each one must be
        passed to :meth:`accept`. ``physical_offset`` is that of the first record.
        """
        expected = self._expected.get(queue)
        if expected is None:
            expected = first
            if queue.max_offset > 0 and queue.max_physical_offset <= physical_offset:
                expected = queue.max_offset
        if queue in self._deferred or first not in (expected, 0):
            return False
        if first != expected and (unit := queue.unit(expected)) and unit[0] == physical_offset:
            return False
        if (unit := queue.unit(first)) and unit[0] != physical_offset:
            return False
        self._expected[queue] = first + count
        return True

    def finish(self, *, something_lost: bool, log_min: int = 0) -> None:
        """Pass on the deferred records; an offset is valid only if records before it were lost.

        They were lost to corruption (``something_lost``) or expired before ``log_min``.
        """
        for queue in list(self._deferred):
            request, code = self._deferred.pop(queue)
            if (something_lost or self._end_before(queue) < log_min) and self._has_space(request):
                self._append(request, code)
            else:
                self._mismatched(request, code, self._expected[queue])

    def _resolve(self, queue: ConsumeQueue, following: int) -> None:
        request, code = self._deferred.pop(queue)
        expected = self._expected[queue]
        if following != request.queue_offset + _offsets(request) and (
            following == expected + _offsets(request) or not self._has_space(request)
        ):
            self._mismatch(request, code, expected)
        else:
            self._take(request, code)

    def _mismatch(self, request: DispatchRequest, code: int, expected: int) -> None:
        self._expected[request.queue] = expected + _offsets(request)
        self._mismatched(request, code, expected)

    def _take(self, request: DispatchRequest, code: int) -> None:
        self._expected[request.queue] = request.queue_offset + _offsets(request)
        self._append(request, code)

    def _refuse_other_owner(self, queue: ConsumeQueue, place: tuple[int, int]) -> None:
        """Raise ValueError if a unit of another queue of the topic points to the record."""
        topic = queue.topic
        if self._searches[topic] >= MAX_SEARCHES:
            return
        for other in topic.queues.values():
            if other is not queue and _has_unit(other, _place_of(other, place[0]), place):
                raise ValueError(f"its unit is in queue {other.queue_id}")
        self._searches[topic] += 1

    def _has_space(self, request: DispatchRequest) -> bool:
        """Return whether the missing records fit between this record and its predecessor."""
        start = request.physical_offset
        end = self._end_before(request.queue)
        lost = request.queue_offset - self._expected[request.queue]
        least = MIN_ITEM_SIZE if request.queue.topic.batch else RECORD_LEAST
        return lost * least <= start - (end if end <= start else 0)

    def _end_before(self, queue: ConsumeQueue) -> int:
        """Physical end offset of the record before the expected one, 0 if there is none.

        The end of the queue cannot be used: the queue may already contain units of the deferred
        record and of later ones, written before the restart.
        """
        expected = self._expected[queue]
        before = queue.unit(expected - 1) if expected > 0 else None
        return before[0] + before[1] if before is not None else 0


def _offsets(request: DispatchRequest) -> int:
    """Number of queue offsets that a record takes: an inner batch takes one in the timer queue."""
    return request.messages if request.queue.topic.batch else 1


def _place_of(queue: ConsumeQueue, physical_offset: int) -> int:
    """The first queue offset whose unit does not point before ``physical_offset``."""

    def start(queue_offset: int) -> int:
        unit = queue.unit(queue_offset)
        return unit[0] if unit is not None else -1

    first = queue.first_offset
    return first + bisect_left(range(first, queue.max_offset), physical_offset, key=start)


def _has_unit(queue: ConsumeQueue, queue_offset: int, place: tuple[int, int]) -> bool:
    """Whether the unit at a queue offset has this physical offset and size."""
    if not 0 <= queue_offset < queue.max_offset:
        return False
    unit = queue.unit(queue_offset)
    return unit is not None and unit[:2] == place and queue.unit_base(queue_offset) == queue_offset


def _next_of(queue: ConsumeQueue, request: DispatchRequest) -> int:
    """The expected queue offset of the first record read of a queue.

    If the queue has later units, it is the record's own unless a unit shows another one, or units
    of earlier records are at it and after it.
    """
    own, start = request.queue_offset, request.physical_offset
    if queue.max_offset > 0 and queue.max_physical_offset <= start:
        return queue.max_offset
    place = (start, request.size)
    if _has_unit(queue, own, place):
        return own
    shown = _place_of(queue, start)
    if _has_unit(queue, shown, place) or own < 0 or 0 < own < shown:
        return shown
    return own
