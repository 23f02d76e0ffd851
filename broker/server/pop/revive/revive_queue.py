"""ReviveQueue: the open check points of one revive queue, and which of them are due.

::

    revive queue   ck A  ck B  ack A  ack B  ck C …          read in order, each record once
                     │     └─ all acknowledged: done
                     └─ not acknowledged by reviveTime + 2 s: its messages go to the retry topic

A check point arrives in the revive queue one second before its revive time and its
acknowledgements at the revive time, because both are timer messages. It is decided
:data:`ACK_GRACE_MS` after the revive time, and not before the timer has delivered everything that
was due at the revive time: an acknowledgement in time is never overtaken. Late acknowledgements
count until then, as in Java.

The committed revive offset is the position of the last record before the first open check point;
a restart reads again from the record after it. Check points may be done out of order: their revive
times are not quite in the order of the queue.

A pure object: records and times are arguments.

**Source:** RocketMQ PopReviveService#consumeReviveMessage, #mergeAndRevive.
"""

import heapq
from typing import Final

from broker.errors import RemoteProtocolError
from broker.message.check_point import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CK_TAG,
    MergeKey,
    PopCheckPoint,
    decode_ack,
    decode_check_point,
)

ACK_GRACE_MS: Final = 2_000
CHECK_POINT_BYTES: Final = 1_024  # one open check point with its table entries
MAX_OPEN_BYTES: Final = 32 * 1024 * 1024  # per revive queue; beyond it no record is read ahead


class ReviveQueue:
    """Open check points of one revive queue; ``next_read`` is the queue offset to read next.

    ``read_until_ms`` is the latest due time of a record that was read (endTime in Java).
    """

    def __init__(self, queue_id: int, committed: int, own_broker: str) -> None:
        self.queue_id = queue_id
        self.next_read = committed + 1
        self.skipped = 0
        self.read_until_ms = 0
        self._own_broker = own_broker
        self._committed = committed
        # In the order of the queue; a decided check point leaves both tables.
        self._open: dict[int, PopCheckPoint] = {}
        self._by_key: dict[MergeKey, PopCheckPoint] = {}
        self._due: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return len(self._open)

    @property
    def full(self) -> bool:
        """Whether reading must wait until check points are decided."""
        return len(self._open) * CHECK_POINT_BYTES >= MAX_OPEN_BYTES

    @property
    def committed(self) -> int:
        """The revive offset to commit: of the last record before the first open check point."""
        first = next(iter(self._open), self.next_read)
        self._committed = max(self._committed, first - 1)
        return self._committed

    def rewind(self, revive_offset: int) -> None:
        """Continue reading at an earlier offset: the committed one is past the end."""
        self.next_read = revive_offset
        self._committed = min(self._committed, revive_offset - 1)

    def accept(
        self, tag: str | None, body: bytes, revive_offset: int, due_ms: int = 0
    ) -> PopCheckPoint | None:
        """Take the next record, due at ``due_ms``; return the check point that it opens, if any.

        RemoteProtocolError for a record that cannot be decoded: it is skipped.
        """
        self.next_read = revive_offset + 1
        self.read_until_ms = max(self.read_until_ms, due_ms)
        try:
            if tag == CK_TAG:
                return self._add(decode_check_point(body), revive_offset)
            if tag in (ACK_TAG, BATCH_ACK_TAG):
                ack = decode_ack(body, batched=tag == BATCH_ACK_TAG)
                ck = self._by_key.get(ack.merge_key(self._own_broker))
                if ck is not None:
                    ck.acknowledge(ack.offsets)
                return None
            raise RemoteProtocolError(f"record of the revive topic: tag {str(tag)[:40]!r}")
        except RemoteProtocolError:
            self.skipped += 1
            raise

    def _add(self, ck: PopCheckPoint, revive_offset: int) -> PopCheckPoint:
        ck.revive_offset = revive_offset
        key = ck.merge_key(self._own_broker)
        before = self._by_key.get(key)
        if before is not None and before.diffs == ck.diffs and before.count == ck.count:
            # Delivered twice after a crash: one of them decides. A check point for fewer messages
            # under the same key (written again after a failure) does not replace the other.
            ck.bits |= before.bits
            self._open.pop(before.revive_offset, None)
        self._by_key[key] = ck
        self._open[revive_offset] = ck
        heapq.heappush(self._due, (ck.revive_time, revive_offset))
        return ck

    def next_due_ms(self) -> int | None:
        """Return when the next check point is decided at the earliest (epoch ms), None if none."""
        while self._due and self._due[0][1] not in self._open:
            heapq.heappop(self._due)
        return self._due[0][0] + ACK_GRACE_MS if self._due else None

    def due(self, now_ms: int, delivered_until_ms: int) -> PopCheckPoint | None:
        """Return the next check point to decide, None if none is due.

        ``delivered_until_ms``: every timer message due until then is in its topic and was read.
        Pass the check point to :meth:`done` afterwards.
        """
        at_ms = self.next_due_ms()
        if at_ms is None or now_ms < at_ms or self._due[0][0] > delivered_until_ms:
            return None
        return self._open[self._due[0][1]]

    def overtakes(self, ck: PopCheckPoint) -> bool:
        """Whether a check point before this one is open: a restart would read this one again."""
        return next(iter(self._open), ck.revive_offset) < ck.revive_offset

    def done(self, ck: PopCheckPoint) -> None:
        """Remove a check point: acknowledged, or its messages are in the retry topic."""
        self._open.pop(ck.revive_offset, None)
        key = ck.merge_key(self._own_broker)
        if self._by_key.get(key) is ck:
            del self._by_key[key]
