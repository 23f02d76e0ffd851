"""PopBufferMerge: check points and acknowledgements merged in memory before they are written.

::

    add ──► waiting ──┬─ all acknowledged: nothing is written at all
                      └─ popCkStayBufferTime over, or the invisible time nearly so:
                         the check point and the acknowledgements so far are written
    offsets           committed in the order of the pops, each once its check point is done

The consumer offset of a queue may be persisted only when every check point up to it is done or in
the log: a buffered check point is lost by a crash, and its messages must be delivered again then.
Therefore the offsets of a queue wait in line; the next pop continues at :meth:`latest_offset`.
So an acknowledgement in memory lasts as one in the log does: an offset in the file is after its
message only when the acknowledgement is flushed or its check point is done.

A pure object that receives the time as an argument; ``take_due`` returns the entries to write.

**Source:** RocketMQ PopBufferMergeService.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from broker.message.check_point import MergeKey, PopCheckPoint
from broker.server.pop.order_info import QueueKey

ENTRY_BYTES: Final = 1_024  # one buffered check point with its table entries
MAX_BUFFER_BYTES: Final = 128 * 1024 * 1024
ADD_MARGIN_MS: Final = 1_500


class BufferLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the buffer; times in ms."""

    stay_ms: int = 10_000
    timeout_ms: int = 3_000
    max_entries: int = 200_000
    max_queue_entries: int = 20_000


class BufferedCheckPoint:
    """One check point in the buffer; ``written`` has a bit per acknowledgement in the log.

    ``stored``: the check point is in the log. ``next_offset`` is the offset to commit afterwards.
    """

    __slots__ = ("ck", "closed", "next_offset", "queue", "revive_queue_id", "stored", "written")

    def __init__(self, ck: PopCheckPoint, revive_queue_id: int, next_offset: int) -> None:
        self.ck = ck
        self.revive_queue_id = revive_queue_id
        self.next_offset = next_offset
        self.queue: QueueKey = (ck.topic, ck.group, ck.queue_id)
        self.written = 0
        self.stored = False
        self.closed = False

    @property
    def unwritten(self) -> list[int]:
        """Queue offsets of the acknowledgements that are not in the log."""
        bits = self.ck.bits & ~self.written
        return [self.ck.offset_at(index) for index in range(self.ck.count) if bits >> index & 1]


class PopBufferMerge:
    """Buffered check points by merge key, and the lines of offsets to commit."""

    def __init__(self, limits: BufferLimits) -> None:
        self.limits = limits
        self._entries: dict[MergeKey, BufferedCheckPoint] = {}
        self._lines: dict[QueueKey, deque[BufferedCheckPoint]] = {}
        self._due: list[tuple[int, int, BufferedCheckPoint]] = []
        self._sequence = 0
        self._ready: set[QueueKey] = set()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def held_bytes(self) -> int:
        """The memory of the buffer in bytes, an estimate."""
        return ENTRY_BYTES * (len(self._entries) + len(self._due))

    def latest_offset(self, queue: QueueKey) -> int:
        """Return the offset after the last pop whose offset is not committed; -1 if none."""
        line = self._lines.get(queue)
        return line[-1].next_offset if line else -1

    def accepts(self, ck: PopCheckPoint, now_ms: int) -> bool:
        """Return whether a check point may wait in memory instead of being written at once.

        **Source:** RocketMQ PopBufferMergeService#addCk.
        """
        limits = self.limits
        return (
            ck.revive_time - now_ms >= limits.timeout_ms + ADD_MARGIN_MS
            and len(self._entries) <= limits.max_entries
            and self.held_bytes < MAX_BUFFER_BYTES
            and len(self._lines.get((ck.topic, ck.group, ck.queue_id), ()))
            < limits.max_queue_entries
            and ck.merge_key("") not in self._entries
        )

    def add(self, ck: PopCheckPoint, revive_queue_id: int, next_offset: int) -> None:
        """Keep a check point that :meth:`accepts` allows."""
        entry = BufferedCheckPoint(ck, revive_queue_id, next_offset)
        self._entries[ck.merge_key("")] = entry
        self._join_line(entry)
        due_ms = min(ck.pop_time + self.limits.stay_ms, ck.revive_time - self.limits.timeout_ms)
        self._sequence += 1
        heapq.heappush(self._due, (due_ms, self._sequence, entry))

    def add_stored(self, ck: PopCheckPoint, next_offset: int) -> None:
        """Put the offset of a check point that is in the log, or has no message, in its line."""
        entry = BufferedCheckPoint(ck, -1, next_offset)
        entry.stored = entry.closed = True
        self._join_line(entry)
        self._ready.add(entry.queue)

    def acknowledge(self, key: MergeKey, offsets: Sequence[int], now_ms: int) -> int | None:
        """Merge acknowledgements into a check point; return how many were new.

        None if the check point is not in the buffer, or about to be written: then the
        acknowledgement must be written.

        **Source:** RocketMQ PopBufferMergeService#addAk.
        """
        entry = self._entries.get(key)
        if entry is None or entry.stored:
            return None
        limits = self.limits
        if entry.ck.revive_time - now_ms < limits.timeout_ms + ADD_MARGIN_MS:
            return None
        if now_ms - entry.ck.pop_time > limits.stay_ms - ADD_MARGIN_MS:
            return None
        new = entry.ck.acknowledge(offsets)
        if entry.ck.done:
            self._close(key, entry)
        return new

    def next_due_ms(self) -> int | None:
        """Return when :meth:`take_due` must be called next (epoch ms), None if it is empty."""
        while self._due and self._due[0][2].closed:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def take_due(self, now_ms: int, limit: int) -> list[BufferedCheckPoint]:
        """Remove and return the entries to write now, at most ``limit``; oldest first.

        Each must be passed to :meth:`written` or, if it could not be written, :meth:`retry`.
        """
        due: list[BufferedCheckPoint] = []
        while len(due) < limit and (at := self.next_due_ms()) is not None and at <= now_ms:
            due.append(heapq.heappop(self._due)[2])
        return due

    def take_all(self) -> list[BufferedCheckPoint]:
        """Remove and return every entry, when the broker stops or the buffer is switched off."""
        left = [entry for _, _, entry in sorted(self._due, key=lambda due: due[:2])]
        self._due.clear()
        return [entry for entry in left if not entry.closed]

    def written(self, entry: BufferedCheckPoint) -> None:
        """Note that a check point and its acknowledgements are in the log."""
        entry.stored = True
        self._close(entry.ck.merge_key(""), entry)

    def retry(self, entry: BufferedCheckPoint, at_ms: int) -> None:
        """Return an entry that could not be written completely; it is due again at ``at_ms``."""
        self._sequence += 1
        heapq.heappush(self._due, (at_ms, self._sequence, entry))

    def take_offsets(self) -> list[tuple[QueueKey, int]]:
        """Remove and return the offsets that may be committed: (queue, offset), in order."""
        offsets = []
        for queue in self._ready:
            line = self._lines.get(queue)
            offset = -1
            while line and line[0].closed:
                offset = line.popleft().next_offset
            if offset >= 0:
                offsets.append((queue, offset))
            if not line:
                self._lines.pop(queue, None)
        self._ready.clear()
        return offsets

    def clear_line(self, queue: QueueKey) -> None:
        """Forget the offsets to commit of a queue: its offset was reset.

        **Source:** RocketMQ PopBufferMergeService#clearOffsetQueue.
        """
        self._lines.pop(queue, None)

    def _join_line(self, entry: BufferedCheckPoint) -> None:
        self._lines.setdefault(entry.queue, deque()).append(entry)

    def _close(self, key: MergeKey, entry: BufferedCheckPoint) -> None:
        entry.closed = True
        self._ready.add(entry.queue)
        if self._entries.get(key) is entry:
            del self._entries[key]
        # A closed entry stays in the heap until its time; many of them are removed together.
        if len(self._due) > 64 and len(self._due) > 2 * len(self._entries):
            self._due = [due for due in self._due if not due[2].closed]
            heapq.heapify(self._due)
