"""Timer messages that are pending, found in the records of the topic rmq_sys_wheel_timer.

A record is pending until its slot is due, unless a later record recalls it or repeats it for
another round of the wheel (TIMER_ROLL_TIMES).

**Source:** RocketMQ TimerMessageStore, TimerMessageStore#buildDeleteKey.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from broker.common.java import INT32_MAX, INT64_MAX, parse_number
from broker.common.topic import REVIVE_TOPIC_PREFIX
from broker.errors import RemoteProtocolError
from broker.message import message as props
from broker.message.message import MessageExt
from broker.message.recall_handle import RecallHandle, encode_recall_handle
from broker.message.transaction import real_place

MAX_PENDING: Final = 200_000
"""Pending messages that one scan of the timer queue keeps: about 200 MB of rows."""


class TimerRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One timer message that waits for its time.

    ``topic`` and ``queueId`` are the real ones, ``queueOffset`` and ``physicalOffset`` those of
    the record in rmq_sys_wheel_timer. ``dueTimestamp`` (epoch ms) is the start of its slot: it is
    delivered at most one timerPrecisionMs later. ``dueInMs`` is negative if it is overdue.
    ``recallHandle`` is None if the broker name or the uniqKey is not known.
    """

    topic: str
    broker_name: str | None
    queue_id: int
    due_timestamp: int
    due_in_ms: int
    uniq_key: str | None
    keys: list[str]
    tags: str | None
    roll_times: int
    recall_handle: str | None
    store_timestamp: int
    queue_offset: int
    physical_offset: int
    offset_msg_id: str

    @property
    def is_system(self) -> bool:
        """Whether it is a check point or acknowledgement of POP consumption."""
        return self.topic.startswith(REVIVE_TOPIC_PREFIX)

    def matches(self, text: str) -> bool:
        """Return whether ``text`` is the uniqKey or the offsetMsgId in either case, or a key."""
        wanted = text.upper()
        return wanted in (self.offset_msg_id, (self.uniq_key or "").upper()) or text in self.keys


class TimerFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of a list: topic, key or id; ``system`` includes check points of POP."""

    topic: str | None = None
    key: str | None = None
    system: bool = False

    def accepts(self, row: TimerRow) -> bool:
        """Return whether a row meets every condition."""
        if row.is_system and not (self.system or self.topic == row.topic):
            return False
        if self.topic is not None and row.topic != self.topic:
            return False
        return self.key is None or row.matches(self.key)


def timer_row(message: MessageExt, broker_name: str | None, now_ms: int) -> TimerRow:
    """Build the row of a record; RemoteProtocolError if its time or real topic is invalid."""
    place = real_place(message)
    out_ms = _out_ms(message)
    if place is None or out_ms is None:
        raise RemoteProtocolError("not a timer message: TIMER_OUT_MS or REAL_TOPIC is invalid")
    return TimerRow(
        topic=place[0],
        broker_name=broker_name,
        queue_id=place[1],
        due_timestamp=out_ms,
        due_in_ms=out_ms - now_ms,
        uniq_key=message.uniq_key,
        keys=message.keys,
        tags=message.tags,
        roll_times=roll_times(message),
        recall_handle=_recall_handle(place[0], broker_name, out_ms, message.uniq_key),
        store_timestamp=message.store_timestamp,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        offset_msg_id=message.offset_msg_id,
    )


def roll_times(message: MessageExt) -> int:
    """Return how many rounds of the wheel a message has made."""
    text = message.get_property(props.PROPERTY_TIMER_ROLL_TIMES) or "0"
    return parse_number(text, 0, INT32_MAX) or 0


def recalled_key(message: MessageExt) -> str | None:
    """Return the key that a recall names, None for a message that is not a recall."""
    return message.get_property(props.PROPERTY_TIMER_DEL_UNIQKEY) or None


def _out_ms(message: MessageExt) -> int | None:
    return parse_number(message.get_property(props.PROPERTY_TIMER_OUT_MS) or "", 0, INT64_MAX)


def _recall_handle(
    topic: str, broker_name: str | None, out_ms: int, uniq_key: str | None
) -> str | None:
    if broker_name is None or not uniq_key:
        return None
    # 1 ms after the start of the slot: rounded down, it leads to the same slot.
    return encode_recall_handle(RecallHandle(topic, broker_name, str(out_ms + 1), uniq_key))


class Recalls:
    """The recalls found so far, by slot."""

    def __init__(self) -> None:
        self._keys: set[tuple[int, str]] = set()

    def add(self, message: MessageExt) -> None:
        """Record the recall that a message is."""
        key, out_ms = recalled_key(message), _out_ms(message)
        if key is not None and out_ms is not None:
            self._keys.add((out_ms, key))

    def cover(self, row: TimerRow) -> bool:
        """Return whether a message was recalled.

        Up to 5.3.1 a recall names the uniqKey alone.
        """
        if not self._keys or not row.uniq_key:
            return False
        named = (f"{row.topic}+{row.uniq_key}", row.uniq_key)
        return any((row.due_timestamp, key) in self._keys for key in named)


class PendingTimers:
    """The pending messages among the records of a timer queue, in the order of the queue.

    ``read_ms``: slots before this time have been delivered. At most ``max_pending`` are kept:
    ``truncated`` if there were more.
    """

    def __init__(
        self,
        broker_name: str | None,
        now_ms: int,
        *,
        read_ms: int,
        max_pending: int = MAX_PENDING,
    ) -> None:
        self.truncated = False
        self.recalls = Recalls()
        self._broker_name, self._now_ms = broker_name, now_ms
        self._read_ms = read_ms
        self._max = max_pending
        # One producer can send a message twice with the same uniqKey: a list for each.
        self._rows: dict[tuple[str, str, int], list[TimerRow]] = {}
        self._count = 0

    def add_all(self, messages: Iterable[MessageExt]) -> None:
        """Add records in the order of the queue."""
        for message in messages:
            self.add(message)

    def add(self, message: MessageExt) -> None:
        """Add one record; an invalid one is left out, as the broker does."""
        if recalled_key(message) is not None:
            self.recalls.add(message)
            return
        try:
            row = timer_row(message, self._broker_name, self._now_ms)
        except RemoteProtocolError:
            return
        name = row.uniq_key or f"@{row.queue_offset}"
        earlier = self._rows.get((row.topic, name, row.roll_times - 1))
        if earlier:
            earlier.pop(0)
            self._count -= 1
        if row.due_timestamp < self._read_ms:
            return
        if self._count >= self._max:
            self.truncated = True
            return
        self._count += 1
        self._rows.setdefault((row.topic, name, row.roll_times), []).append(row)

    def rows(self) -> Iterator[TimerRow]:
        """Yield the pending messages by due time."""
        found = [row for rows in self._rows.values() for row in rows if not self.recalls.cover(row)]
        yield from sorted(found, key=lambda row: (row.due_timestamp, row.queue_offset))
