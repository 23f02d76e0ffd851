"""Delay levels: their delays, and the messages that wait in SCHEDULE_TOPIC_XXXX.

**Source:** RocketMQ ScheduleMessageService, MessageStoreConfig#messageDelayLevel.
"""

from collections.abc import Collection
from typing import Final

import msgspec

from broker.errors import ConfigError
from broker.message import message as props
from broker.message.message import MessageExt
from broker.message.transaction import real_place

DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
"""Default of messageDelayLevel."""
_UNITS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_levels(text: str) -> list[int]:
    """Return the delays of the levels in ms, level 1 first; an invalid word counts as 0."""
    found = []
    for word in text.split():
        number, unit = word[:-1], word[-1:]
        found.append(int(number) * _UNITS[unit] if number.isdecimal() and unit in _UNITS else 0)
    return found


def check_level(level: int | None, known: Collection[int]) -> None:
    """ConfigError with the range if the levels do not include the wanted one."""
    if level is not None and known and level not in known:
        raise ConfigError(
            f"--level: must be between {min(known)} and {max(known)}, not {level}",
            "mqadmin delay levels shows the levels",
        )


class DelayLevelRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One delay level of one broker.

    ``offset`` is the queue offset up to which the level is delivered, ``backlog`` the messages
    from it to ``maxOffset``. ``nextDueTimestamp`` (epoch ms) and ``nextDueInMs`` are of the first
    of them, None without a backlog; negative: overdue. ``delayMs`` is None for a level that
    messageDelayLevel does not define.
    """

    broker_name: str | None
    level: int
    delay_ms: int | None
    queue_id: int
    offset: int
    max_offset: int
    backlog: int
    next_due_timestamp: int | None
    next_due_in_ms: int | None


class DelayedRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One message that waits in a delay level.

    ``topic`` and ``queueId`` are the real ones, ``queueOffset`` and ``physicalOffset`` those of
    the record in SCHEDULE_TOPIC_XXXX. Times are epoch ms; ``dueInMs`` is negative if overdue.
    ``reconsumeTimes`` greater than 0: a retry.
    """

    level: int
    topic: str | None
    broker_name: str | None
    queue_id: int | None
    due_timestamp: int
    due_in_ms: int
    uniq_key: str | None
    keys: list[str]
    tags: str | None
    reconsume_times: int
    store_timestamp: int
    queue_offset: int
    physical_offset: int
    offset_msg_id: str


class DelayFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Conditions of a list of delayed messages."""

    level: int | None = None
    topic: str | None = None

    def accepts(self, row: DelayedRow) -> bool:
        """Return whether a row is of the topic."""
        return self.topic is None or row.topic == self.topic


def delayed_row(
    message: MessageExt, broker_name: str | None, due_ms: int, now_ms: int
) -> DelayedRow:
    """Build the row of a record of SCHEDULE_TOPIC_XXXX that is due at ``due_ms``."""
    place = real_place(message)
    named = message.get_property(props.PROPERTY_REAL_TOPIC)
    return DelayedRow(
        level=message.queue_id + 1,
        topic=place[0] if place else named,
        broker_name=broker_name,
        queue_id=place[1] if place else None,
        due_timestamp=due_ms,
        due_in_ms=due_ms - now_ms,
        uniq_key=message.uniq_key,
        keys=message.keys,
        tags=message.tags,
        reconsume_times=message.reconsume_times,
        store_timestamp=message.store_timestamp,
        queue_offset=message.queue_offset,
        physical_offset=message.physical_offset,
        offset_msg_id=message.offset_msg_id,
    )


def level_row(
    broker_name: str | None,
    level: int,
    delay_ms: int | None,
    offsets: tuple[int, int],
    due_ms: int | None,
    now_ms: int,
) -> DelayLevelRow:
    """Build the row of a level; ``offsets`` are the delivered and the max offset."""
    offset, end = offsets
    return DelayLevelRow(
        broker_name=broker_name,
        level=level,
        delay_ms=delay_ms,
        queue_id=level - 1,
        offset=offset,
        max_offset=end,
        backlog=max(0, end - offset),
        next_due_timestamp=due_ms,
        next_due_in_ms=None if due_ms is None else due_ms - now_ms,
    )
