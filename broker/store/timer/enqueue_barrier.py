"""EnqueueBarrier: whether every message that a due slot needs is in the wheel.

A message of the timer queue is visible once it is flushed (SYNC_FLUSH) and dispatched. A recall
that was accepted before the end of the slot may not be visible yet; nor may a message that was
rolled, if the broker was down and the slot of its delivery time is over, too.

**Source:** no Java counterpart; RocketMQ TimerMessageStore delivers a slot without waiting.
"""

from typing import Final

LONGEST_WAIT_MS: Final = 30_000
"""Then a slot is delivered in any case: a message that never becomes visible delays no others."""


class EnqueueBarrier:
    """Progress of the timer queue, compared with the time.

    Times are epoch ms, but ``monotonic_ms``. Queue offsets are those after the last message:
    ``enqueued`` of those in the wheel, ``stored`` of all.
    """

    __slots__ = ("_complete_ms", "_pending", "_rolled", "_waits_since_ms")

    def __init__(self) -> None:
        self._complete_ms = 0  # messages stored before this time are in the wheel
        self._pending = (0, 0)  # the next such time, and the queue offset that shows it
        self._rolled = 0  # queue offset after the last message that was rolled
        self._waits_since_ms = -1.0  # monotonic; negative: no slot waits

    def note_rolled(self, queue_offset: int) -> None:
        """Note that a rolled message was stored at this offset of the timer queue."""
        self._rolled = queue_offset + 1

    def note_clock_set_back(self) -> None:
        """Forget times, which may be in the future now."""
        self._complete_ms, self._pending, self._waits_since_ms = 0, (0, 0), -1.0

    def is_passed(
        self, end_ms: int, now_ms: int, monotonic_ms: float, enqueued: int, stored: int
    ) -> bool:
        """Whether the wheel has all rolled messages, and all that were stored before ``end_ms``.

        ``end_ms`` is not after ``now_ms``. If not, ask again when more messages are enqueued.
        """
        passed = self._is_complete(end_ms, now_ms, enqueued, stored)
        if passed:
            self._waits_since_ms = -1.0
        elif self._waits_since_ms < 0:
            self._waits_since_ms = monotonic_ms
        elif monotonic_ms - self._waits_since_ms >= LONGEST_WAIT_MS:
            return True
        return passed

    def _is_complete(self, end_ms: int, now_ms: int, enqueued: int, stored: int) -> bool:
        if enqueued < self._rolled:
            return False
        time_ms, queue_offset = self._pending
        if enqueued >= queue_offset:
            self._complete_ms = max(self._complete_ms, time_ms)
        if end_ms <= self._complete_ms:
            return True
        if enqueued < queue_offset:
            return False
        self._pending = (now_ms, stored)
        if enqueued < stored:
            return False
        self._complete_ms = now_ms
        return True
