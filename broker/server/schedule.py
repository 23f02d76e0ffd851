"""Delay levels: messages parked in SCHEDULE_TOPIC_XXXX until their level's time has passed.

One scheduler for all levels, told the time: it looks at the head unit of each level's queue,
delivers what is due, and says when it wants to be called again. A level's offset moves on only
after its message is stored in the real topic. Nothing polls: an arrival in the schedule topic
or the head's due time wakes it.

**Source:** RocketMQ ScheduleMessageService, HookUtils#handleScheduleMessage.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from broker.common.topic import SCHEDULE_TOPIC, TRANS_HALF_TOPIC
from broker.message.message import (
    PROPERTY_DELAY_TIME_LEVEL,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
)
from broker.message.properties import peek_property
from broker.message.record import decode_record
from broker.server.data_version import DataVersion
from broker.store.format.config import DataVersion as VersionOfFile
from broker.store.results import MessageInner, PutMessageStatus

if TYPE_CHECKING:
    from broker.common.clock import Clock
    from broker.store.message_store import MessageStore

MAX_PER_TURN: Final = 256  # deliveries before other work of the loop gets its turn
RETRY_PUT_MS: Final = 100


class DelayQueues:
    """The queues of the schedule topic: what is parked, how far each level was delivered.

    ``on_delivered(topic, stored bytes)`` hears of each message stored in its real topic.
    """

    def __init__(self, store: "MessageStore", clock: "Clock", levels: Mapping[int, int]) -> None:
        self._store = store
        self._clock = clock
        self.levels = levels
        self.offsets: dict[int, int] = {}
        self.data_version = DataVersion()
        self.changed = False
        self.on_delivered: Callable[[str, int], None] | None = None
        self._last_level = 0

    @property
    def max_level(self) -> int:
        """The highest level; larger ones count as it."""
        return max(self.levels, default=0)

    def load(self, offsets: Mapping[int, int], version: VersionOfFile | None) -> None:
        """Take over delayOffset.json, each offset moved into the bounds of its queue."""
        self.data_version.assign(version)
        for level, offset in offsets.items():
            low = self._store.get_min_offset(SCHEDULE_TOPIC, level - 1)
            high = self._store.get_max_offset(SCHEDULE_TOPIC, level - 1)
            self.offsets[level] = max(low, min(offset, high))

    def progress(self) -> Iterator[tuple[int, int, int]]:
        """(level, delivered up to, end of the queue) of each level that was ever used."""
        for level in range(1, self.max_level + 1):
            end = self._store.get_max_offset(SCHEDULE_TOPIC, level - 1)
            if level in self.offsets or end:
                yield level, self.offsets.get(level, 0), end

    def deliver_due(self) -> float | None:
        """Deliver what is due; ms until the next call is wanted, None when nothing is parked.

        0 means that the turn's share is used up and more is due.
        """
        budget = MAX_PER_TURN
        wait_ms: float | None = None
        count = self.max_level
        for step in range(1, count + 1):
            level = (self._last_level + step - 1) % count + 1
            done, level_wait = self._deliver_level(level, budget)
            budget -= done
            if level_wait is not None and (wait_ms is None or level_wait < wait_ms):
                wait_ms = level_wait
            if budget <= 0:
                self._last_level = level  # the next turn begins with the level after this one
                return 0.0
        return wait_ms

    def _deliver_level(self, level: int, budget: int) -> tuple[int, float | None]:
        store = self._store
        queue_id = level - 1
        offset = self.offsets.get(level, 0)
        end = store.get_max_offset(SCHEDULE_TOPIC, queue_id)
        if offset >= end:
            return 0, None
        offset = max(offset, store.get_min_offset(SCHEDULE_TOPIC, queue_id))
        done = 0
        wait_ms: float | None = None
        now_ms = self._clock.now_ms()
        for unit in store.consume_queue_units(SCHEDULE_TOPIC, queue_id, offset, budget):
            due_ms = self._due(unit.tags_code, now_ms, level)
            if due_ms > now_ms:
                wait_ms = due_ms - now_ms
                break
            if not self._deliver(unit.physical_offset, unit.size):
                wait_ms = RETRY_PUT_MS
                break
            offset += 1
            done += 1
        if done or self.offsets.get(level) != offset:
            self.offsets[level] = offset
            self.data_version.bump(now_ms)
            self.changed = True
        return done, wait_ms

    def _due(self, due_ms: int, now_ms: int, level: int) -> int:
        # After a jump of the clock, or a shortened level table, nothing waits longer than a level.
        return now_ms if due_ms > now_ms + self.levels[level] else due_ms

    def _deliver(self, physical_offset: int, size: int) -> bool:
        """Store one parked message in its real topic; False when it must be tried again."""
        record = self._store.look_message(physical_offset, size)
        if record is None:
            return True  # deleted with its log file: nothing left to deliver
        message = decode_record(record)
        properties = message.properties_raw
        topic = peek_property(properties, PROPERTY_REAL_TOPIC.encode())
        queue_id = peek_property(properties, PROPERTY_REAL_QUEUE_ID.encode())
        if topic is None or topic.decode() == TRANS_HALF_TOPIC:
            return True
        inner = MessageInner(
            topic=topic.decode(),
            queue_id=int(queue_id or 0),
            body=message.body,
            properties=properties,
            flag=message.flag,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp,
            born_host=message.born_host_raw,
            store_host=message.store_host_raw,
            reconsume_times=message.reconsume_times,
        )
        result = self._store.put_message(inner)
        if result.status is PutMessageStatus.PUT_OK and self.on_delivered is not None:
            self.on_delivered(inner.topic, result.store_size)
        return result.status in (
            PutMessageStatus.PUT_OK,
            PutMessageStatus.MESSAGE_ILLEGAL,
            PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
        )


def park(properties: dict[str, str], topic: str, queue_id: int, level: int) -> tuple[str, int]:
    """Note the real place in ``properties``; the topic and queue where the message waits.

    **Source:** RocketMQ HookUtils#transformDelayLevelMessage.
    """
    properties[PROPERTY_DELAY_TIME_LEVEL] = str(level)
    properties[PROPERTY_REAL_TOPIC] = topic
    properties[PROPERTY_REAL_QUEUE_ID] = str(queue_id)
    return SCHEDULE_TOPIC, level - 1


def delay_level(properties: Mapping[str, str], max_level: int) -> int:
    """The level a message asks for, at most ``max_level``; 0 when it is not delayed.

    **Source:** RocketMQ MessageExtBrokerInner#getDelayTimeLevel.
    """
    text = properties.get(PROPERTY_DELAY_TIME_LEVEL, "")
    if not text or not text.lstrip("-").isdigit():
        return 0
    return max(0, min(int(text), max_level))
