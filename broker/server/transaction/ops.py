"""Op records: the halves decided since the last one (OpBatch), and those a round has read.

The body of an op record lists queue offsets of half messages in decimal: one offset up to 5.0,
several with a comma after each from 5.1 on.

**Source:** RocketMQ TransactionalMessageServiceImpl#getOpMessage, #fillOpRemoveMap,
#calculateOpOffset, MessageQueueOpContext.
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import Final

from broker.common.java import INT64_MAX
from broker.message.message import MessageExt
from broker.message.transaction import OFFSET_SEPARATOR, REMOVE_TAG, decode_op_body

MAX_WINDOW: Final = 1 << 26
"""Half messages after the start of a round whose op records are used: 8 MiB of bits. An op record
for a later one is read by a later round."""
MAX_ENTRIES: Final = 4_096
"""Op records whose position is kept exactly; older ones are merged in pairs beyond that."""


def decode_op(message: MessageExt) -> list[int]:
    """Return the queue offsets of half messages that an op record lists; invalid ones are left out.

    Empty for a record without the tag ``d``.
    """
    if message.tags != REMOVE_TAG:
        return []
    return decode_op_body(message.body)


class OpBatch:
    """Queue offsets of decided halves that no op record lists yet.

    ``limit_bytes`` is the size of a full body (transactionOpMsgMaxSize); 0 makes one op record per
    half, without a comma, as RocketMQ 4.9 writes and reads it.

    An op record is progress: it may be written once the log is flushed up to ``needs_flushed`` of
    the halves in it. A power cut could otherwise keep it and lose the committed message before it.
    """

    def __init__(self, limit_bytes: int, interval_ms: int) -> None:
        self.limit_bytes = limit_bytes
        self.interval_ms = interval_ms
        self.size_bytes = 0
        self._pending: list[bytes] = []
        self._ends = array("q")  # parallel: the log must be flushed up to there; never decreasing
        self._first_ms = 0.0

    def add(self, half_offset: int, now_ms: float, committed_end: int = 0) -> None:
        """Add a half decided at the monotonic time ``now_ms``.

        ``committed_end`` is the physical end of the last committed message, this one or an earlier.
        """
        if not self._pending:
            self._first_ms = now_ms
        data = b"%d," % half_offset
        self._pending.append(data)
        self._ends.append(committed_end)
        self.size_bytes += len(data)

    def pending(self) -> Iterator[int]:
        """Yield the queue offsets that wait."""
        return (int(data[:-1]) for data in self._pending)

    def due_ms(self) -> float | None:
        """Return when the next op record must be written, None if no half waits."""
        if not self._pending:
            return None
        full = self.size_bytes >= self.limit_bytes
        return self._first_ms if full else self._first_ms + self.interval_ms

    @property
    def needs_flushed(self) -> tuple[int, int]:
        """Physical ends up to which the log must be flushed: for the first half, and for all."""
        return (self._ends[0], self._ends[-1]) if self._ends else (0, 0)

    def body(self, flushed_end: int = INT64_MAX) -> tuple[bytes, int]:
        """Return the body of the next op record and the number of halves in it.

        It contains the first half, and following ones that need no more than ``flushed_end``.
        """
        if not self.limit_bytes:
            return self._pending[0].rstrip(OFFSET_SEPARATOR), 1
        size = count = 0
        for data, end in zip(self._pending, self._ends, strict=True):
            if count and (size + len(data) > self.limit_bytes or end > flushed_end):
                break
            size += len(data)
            count += 1
        return b"".join(self._pending[:count]), count

    def written(self, count: int, now_ms: float) -> None:
        """Remove the first ``count`` halves: they are in the log."""
        self.size_bytes -= sum(map(len, self._pending[:count]))
        del self._pending[:count]
        del self._ends[:count]
        self._first_ms = now_ms


class RemovalSet:
    """The half messages that op records list, from ``start`` on, and the position in the op queue.

    One bit per half message. An op record is done when all halves it lists are before the scan;
    the position after the last done one becomes the op queue's offset.
    """

    def __init__(self, start: int, op_offset: int) -> None:
        self._start = start
        self._bits = bytearray()
        self._op_offset = op_offset
        # Parallel: position after an op record, and the highest half offset up to there.
        self.ends = array("q")
        self._highest = array("q")

    def __contains__(self, half_offset: int) -> bool:
        place = half_offset - self._start
        byte = place >> 3
        return 0 <= byte < len(self._bits) and bool(self._bits[byte] >> (place & 7) & 1)

    def add(self, op_offset: int, half_offsets: Iterable[int], half_end: int) -> bool:
        """Add an op record; False if it lists a half beyond the window, then it is not added.

        Offsets at or after ``half_end``, the end of the half queue, belong to no half message.
        """
        places = [at - self._start for at in half_offsets if self._start <= at < half_end]
        highest = max(places, default=-1)
        if highest >= MAX_WINDOW:
            return False
        self._set(places)
        if self._highest:
            highest = max(highest, self._highest[-1])
        self.ends.append(op_offset + 1)
        self._highest.append(highest)
        if len(self.ends) > 2 * MAX_ENTRIES:
            self._merge()
        return True

    def mark(self, half_offset: int) -> None:
        """Add a half message that no op record lists yet."""
        place = half_offset - self._start
        if 0 <= place < MAX_WINDOW:
            self._set([place])

    def skip(self, op_offset: int) -> None:
        """Note that the op queue continues at ``op_offset``: its earlier records are deleted."""
        self.ends.append(op_offset)
        self._highest.append(self._highest[-1] if self._highest else -1)

    def after_removed(self, half_offset: int, limit: int) -> int:
        """Return the first offset from ``half_offset`` on that is not listed, at most ``limit``."""
        bits = self._bits
        while half_offset < limit and half_offset in self:
            place = half_offset - self._start
            if not place & 7 and bits[place >> 3] == 0xFF:
                half_offset += 8
            else:
                half_offset += 1
        return min(half_offset, limit)

    def done_up_to(self, half_offset: int) -> int:
        """Return the offset after the op records whose halves are before ``half_offset``."""
        place = half_offset - self._start
        done = self._op_offset
        for end, highest in zip(self.ends, self._highest, strict=True):
            if highest >= place:
                break
            done = end
        return done

    def _set(self, places: list[int]) -> None:
        size = (max(places, default=-1) >> 3) + 1
        if size > len(self._bits):
            self._bits.extend(bytes(size - len(self._bits)))
        for place in places:
            self._bits[place >> 3] |= 1 << (place & 7)

    def _merge(self) -> None:
        """Keep every second position of the older half: progress may lag, memory may not grow."""
        middle = len(self.ends) // 2
        self.ends = self.ends[1:middle:2] + self.ends[middle:]
        self._highest = self._highest[1:middle:2] + self._highest[middle:]
