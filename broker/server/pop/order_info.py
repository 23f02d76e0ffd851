"""Order info: the batch that an ordered pop delivered last, per topic, group and queue.

An ordered pop writes no check point. Its batch blocks the queue for its group until every message
is acknowledged or its invisible time has ended; then the pop resumes at the first message that is
not acknowledged. The committed offset follows the acknowledged prefix of the batch. The same
``attemptId`` may pop the batch again, which serves a client whose response was lost.

A pure table that receives the time as an argument. ``free_keys`` returns the queues whose block
has ended by time, so that suspended pops are resumed.

**Source:** RocketMQ ConsumerOrderInfoManager, ConsumerOrderInfoLockManager.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from broker.common.encoding.java_values import Lines

CLEAN_AFTER_MS: Final = 24 * 3_600_000
MAX_BATCHES: Final = 200_000  # queues of groups; further ones are not delivered in order
NOTHING_TO_COMMIT: Final = -2
ILLEGAL: Final = -1

QueueKey = tuple[str, str, int]
"""topic, group, queue id."""


class OrderInfo(msgspec.Struct, kw_only=True):
    """One batch: pop time, invisible time (ms), queue offsets, and the state of each message.

    ``acknowledged`` has a bit per message, ``next_visible`` the time (ms) of messages whose
    invisible time was changed, ``consumed`` how often messages were delivered before (above 0).
    """

    pop_time: int
    invisible_time: int
    offsets: list[int]
    attempt_id: str | None = None
    acknowledged: int = 0
    next_visible: dict[int, int] = {}
    consumed: dict[int, int] | None = None
    last_consume_ms: int = 0

    @property
    def next_offset(self) -> int:
        """The offset to commit: after the acknowledged prefix of the batch."""
        for index, offset in enumerate(self.offsets):
            if not self.acknowledged >> index & 1:
                return offset
        return self.offsets[-1] + 1

    @property
    def free_ms(self) -> int | None:
        """When the last unacknowledged message becomes visible; None if there is none."""
        times = [
            self.next_visible.get(offset, self.pop_time + self.invisible_time)
            for index, offset in enumerate(self.offsets)
            if not self.acknowledged >> index & 1
        ]
        return max(times, default=None)

    def blocks(self, attempt_id: str | None, now_ms: int) -> bool:
        """Return whether another pop must wait.

        **Source:** RocketMQ OrderInfo#needBlock.
        """
        if self.attempt_id is not None and self.attempt_id == attempt_id:
            return False
        free_ms = self.free_ms
        return free_ms is not None and now_ms < free_ms


class OrderInfoTable:
    """topic@group → queue id → the last batch; ``changed`` when the table must be written."""

    def __init__(self) -> None:
        self._table: dict[str, dict[int, OrderInfo]] = {}
        self._size = 0
        self._free: dict[QueueKey, int] = {}
        self.heap: list[tuple[int, QueueKey]] = []
        self.changed = False

    def __len__(self) -> int:
        return self._size

    def get(self, topic: str, group: str, queue_id: int) -> OrderInfo | None:
        """Return the last batch of a queue, None if there is none."""
        return self._table.get(f"{topic}@{group}", {}).get(queue_id)

    def blocked(
        self, topic: str, group: str, queue_id: int, now_ms: int, attempt_id: str | None
    ) -> bool:
        """Return whether a pop of this queue must wait for its last batch.

        **Source:** RocketMQ ConsumerOrderInfoManager#checkBlock.
        """
        info = self.get(topic, group, queue_id)
        if info is None:
            return self._size >= MAX_BATCHES
        return info.blocks(attempt_id, now_ms)

    def update(self, topic: str, group: str, queue_id: int, batch: OrderInfo) -> OrderInfo:
        """Record a delivered batch; return it with the consumption counts of its messages.

        A message that was in the batch before counts one delivery more, unless the same attempt
        popped it again.

        **Source:** RocketMQ ConsumerOrderInfoManager#update, OrderInfo#mergeOffsetConsumedCount.
        """
        queues = self._table.setdefault(f"{topic}@{group}", {})
        before = queues.get(queue_id)
        if before is None:
            self._size += 1
        else:
            counts = before.consumed or {}
            if before.attempt_id is not None and before.attempt_id == batch.attempt_id:
                batch.consumed = counts
            else:
                delivered = set(before.offsets)
                batch.consumed = {
                    offset: counts.get(offset, 0) + 1
                    for offset in batch.offsets
                    if offset in delivered
                }
        queues[queue_id] = batch
        self._changed((topic, group, queue_id), batch)
        return batch

    def commit(self, topic: str, group: str, queue_id: int, offset: int, pop_time: int) -> int:
        """Acknowledge one message; return the offset to commit.

        :data:`ILLEGAL` if the batch does not contain the message, :data:`NOTHING_TO_COMMIT` if
        the batch was popped at another time.

        **Source:** RocketMQ ConsumerOrderInfoManager#commitAndNext.
        """
        info = self.get(topic, group, queue_id)
        if info is None:
            return offset + 1
        if not info.offsets:
            return ILLEGAL
        if pop_time != info.pop_time:
            return NOTHING_TO_COMMIT
        if offset not in info.offsets:
            return ILLEGAL
        info.acknowledged |= 1 << info.offsets.index(offset)
        self._changed((topic, group, queue_id), info)
        return info.next_offset

    def change_visible(
        self, key: QueueKey, offset: int, pop_time: int, next_visible_ms: int
    ) -> bool:
        """Set when one message becomes visible; False if the batch is another one."""
        info = self.get(*key)
        if info is None or pop_time != info.pop_time or offset not in info.offsets:
            return False
        info.next_visible[offset] = next_visible_ms
        self._changed(key, info)
        return True

    def clear(self, topic: str, group: str, queue_id: int) -> None:
        """Remove the batch of a queue: its offset was reset."""
        queues = self._table.get(f"{topic}@{group}")
        if queues is None or queues.pop(queue_id, None) is None:
            return
        self._size -= 1
        self._free.pop((topic, group, queue_id), None)
        self.changed = True
        if not queues:
            del self._table[f"{topic}@{group}"]

    def clean(self, now_ms: int, queues_of: Callable[[str, str], int]) -> None:
        """Remove batches of deleted topics, groups and queues, and those older than a day.

        ``queues_of(topic, group)`` returns the number of read queues, 0 if topic or group is gone.

        **Source:** RocketMQ ConsumerOrderInfoManager#autoClean.
        """
        for key, queues in list(self._table.items()):
            topic, _, group = key.partition("@")
            limit = queues_of(topic, group)
            for queue_id, info in list(queues.items()):
                if queue_id >= limit or now_ms - info.last_consume_ms > CLEAN_AFTER_MS:
                    self.clear(topic, group, queue_id)

    # ---- the end of blocks

    def next_free_ms(self) -> int | None:
        """Return when :meth:`free_keys` must be called next, None if no queue is blocked."""
        while self.heap and self._free.get(self.heap[0][1]) != self.heap[0][0]:
            heapq.heappop(self.heap)
        return self.heap[0][0] if self.heap else None

    def free_keys(self, now_ms: int) -> list[QueueKey]:
        """Return the queues whose block has ended by time since the last call."""
        freed = []
        while (free_ms := self.next_free_ms()) is not None and free_ms <= now_ms:
            key = heapq.heappop(self.heap)[1]
            del self._free[key]
            freed.append(key)
        return freed

    def _changed(self, key: QueueKey, info: OrderInfo) -> None:
        self.changed = True
        free_ms = info.free_ms
        if free_ms is None:
            self._free.pop(key, None)
        elif self._free.get(key) != free_ms:
            self._free[key] = free_ms
            heapq.heappush(self.heap, (free_ms, key))
            # Stale entries stay in the heap: rebuilding keeps it within twice the live ones.
            if len(self.heap) > 64 and len(self.heap) > 2 * len(self._free):
                self.heap = [(at, queue) for queue, at in self._free.items()]
                heapq.heapify(self.heap)

    # ---- consumerOrderInfo.json

    def load(self, table: Mapping[str, Mapping[int, Mapping[str, Any]]]) -> None:
        """Load the decoded content of the file."""
        self._table, self._size = {}, 0
        for key, queues in table.items():
            topic, _, group = key.partition("@")
            for queue_id, wire in queues.items():
                info = _from_wire(wire)
                if info.offsets and self._size < MAX_BATCHES:
                    self._size += 1
                    self._table.setdefault(key, {})[queue_id] = info
                    self._changed((topic, group, queue_id), info)
        self.changed = False

    def snapshot(self) -> dict[str, dict[int, dict[str, Any]]]:
        """Return the content of the file as plain values, a copy."""
        return {
            key: {queue_id: _to_wire(info) for queue_id, info in queues.items()}
            for key, queues in self._table.items()
        }

    def __iter__(self) -> Iterator[tuple[str, int, OrderInfo]]:
        for key, queues in self._table.items():
            for queue_id, info in queues.items():
                yield key, queue_id, info


def _to_wire(info: OrderInfo) -> dict[str, Any]:
    """Return one entry with the fields in Java's order; absent ones are left out."""
    first = info.offsets[0]
    wire: dict[str, Any] = {"a": info.attempt_id} if info.attempt_id is not None else {}
    wire["cm"] = info.acknowledged
    wire["i"] = info.invisible_time
    wire["l"] = info.last_consume_ms
    wire["o"] = Lines([first, *(offset - first for offset in info.offsets[1:])])
    if info.consumed is not None:
        wire["oc"] = dict(info.consumed)
    if info.next_visible:
        wire["ot"] = dict(info.next_visible)
    wire["popTime"] = info.pop_time
    return wire


def _from_wire(wire: Mapping[str, Any]) -> OrderInfo:
    offsets = wire.get("o") or []
    counts, times = wire.get("oc"), wire.get("ot") or {}
    first = offsets[0] if offsets else 0
    return OrderInfo(
        pop_time=wire.get("popTime") or 0,
        invisible_time=wire.get("i") or 0,
        offsets=[first, *(first + distance for distance in offsets[1:])] if offsets else [],
        attempt_id=wire.get("a"),
        acknowledged=(wire.get("cm") or 0) & 0xFFFFFFFFFFFFFFFF,
        next_visible=dict(times),
        consumed=None if counts is None else dict(counts),
        last_consume_ms=wire.get("l") or 0,
    )
