"""Delay levels: messages stay in SCHEDULE_TOPIC_XXXX until their level's delay has passed.

One scheduler serves all levels and receives the time from its clock: it reads the head unit of
each level's queue, delivers due messages, and returns when it must be called again. The offset of
a level advances only after its message is stored in the real topic. An arrival in the schedule
topic or the due time of a head unit wakes it. Due times are wall-clock times and waits are
monotonic, so while a message is pending it is called at least once a second: after a clock step
no delivery is late by more than that.

A record that cannot be delivered (corrupt, or permanently refused by the store) is quarantined:
it is skipped, counted, logged with its position, and stays in the CommitLog. One bad record
therefore never stops its level.

**Source:** RocketMQ ScheduleMessageService, HookUtils#handleScheduleMessage.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from broker.common.java import INT32_MAX, INT32_MIN, parse_number
from broker.common.topic import SCHEDULE_TOPIC, TRANS_HALF_TOPIC
from broker.errors import RemoteProtocolError
from broker.message.message import (
    PROPERTY_DELAY_TIME_LEVEL,
    PROPERTY_REAL_QUEUE_ID,
    PROPERTY_REAL_TOPIC,
    MessageExt,
)
from broker.message.record import decode_record
from broker.server.tables.data_version import DataVersion
from broker.store.format.config import DataVersion as VersionOfFile
from broker.store.format.consumequeue import PRE_BLANK_SIZE
from broker.store.results import ConsumeQueueUnitView, MessageExtBrokerInner, PutMessageStatus

if TYPE_CHECKING:
    from broker.common.clock import Clock
    from broker.store.message_store import MessageStore

log = logging.getLogger("broker.server")

MAX_PER_TURN: Final = 256  # deliveries per call, so that the event loop serves other work
MAX_WAIT_MS: Final = 1_000  # longest time between two calls while a message is pending
RETRY_PUT_MS: Final = 100
MAX_LOGGED: Final = 100  # quarantined records that are logged; all are counted

# Put statuses that a retry cannot change.
_REFUSED_FOR_GOOD: Final = {
    PutMessageStatus.MESSAGE_ILLEGAL,
    PutMessageStatus.PROPERTIES_SIZE_EXCEEDED,
}


class ScheduleMessageService:
    """Delivery of delayed messages, and the delivery offset of each level.

    ``on_delivered(topic, stored bytes)`` is called for each message stored in its real topic.
    ``quarantined`` counts the records skipped since the start because they cannot be delivered.
    """

    def __init__(self, store: "MessageStore", clock: "Clock", levels: Mapping[int, int]) -> None:
        self._store = store
        self._clock = clock
        self.levels = levels
        self.offsets: dict[int, int] = {}
        self.data_version = DataVersion()
        self.changed = False
        self.quarantined = 0
        self.on_delivered: Callable[[str, int], None] | None = None
        self._last_level = 0

    @property
    def max_level(self) -> int:
        """The highest level; higher requested levels are reduced to it."""
        return max(self.levels, default=0)

    def load(self, offsets: Mapping[int, int], version: VersionOfFile | None) -> None:
        """Load delayOffset.json, with each offset clamped to the bounds of its queue.

        Entries of levels that have neither a delay nor a queue are dropped. A level that is only
        missing in messageDelayLevel keeps its progress: its messages wait until it returns.
        """
        self.data_version.assign(version)
        for level, offset in offsets.items():
            low = self._store.get_min_offset(SCHEDULE_TOPIC, level - 1)
            high = self._store.get_max_offset(SCHEDULE_TOPIC, level - 1)
            if level in self.levels or low >= 0:
                moved = self.offsets[level] = max(low, 0, min(offset, high))
                if moved != offset:
                    _log_moved(level, offset, moved, high)
        self.changed = self.offsets != dict(offsets)

    def merge(self, offsets: Mapping[int, int]) -> None:
        """Take over the delivery offsets of the master."""
        if any(self.offsets.get(level) != offset for level, offset in offsets.items()):
            self.offsets.update(offsets)
            self.changed = True

    def progress(self) -> Iterator[tuple[int, int, int]]:
        """Yield (level, delivered up to, end of the queue) for each level that was ever used."""
        for level in range(1, self.max_level + 1):
            end = self._store.get_max_offset(SCHEDULE_TOPIC, level - 1)
            if level in self.offsets or end:
                yield level, self.offsets.get(level, 0), end

    def deliver_due(self) -> float | None:
        """Deliver due messages; return ms until the next call, None if no message is delayed.

        0 means that the limit of this call is used up and more messages may be due.
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
                self._last_level = level  # fairness: the next call starts with the level after it
                return 0.0
        return wait_ms

    def wait_ms(self, due_ms: int) -> float:
        """Return the wait in ms before the next call if ``due_ms`` is the next due time."""
        return min(max(0, due_ms - self._clock.now_ms()), MAX_WAIT_MS)

    def suspend(
        self, inner: MessageExtBrokerInner, properties: dict[str, str], level: int
    ) -> str | None:
        """Redirect ``inner`` to its level's queue; its real topic and queue go into ``properties``.

        If it could not be stored in its real topic later, change nothing and return the reason.

        **Source:** RocketMQ HookUtils#transformDelayLevelMessage, #checkBeforePutMessage.
        """
        reason = self._store.why_illegal_place(inner.topic, inner.queue_id)
        if reason is not None:
            return reason
        properties[PROPERTY_DELAY_TIME_LEVEL] = str(level)
        properties[PROPERTY_REAL_TOPIC] = inner.topic
        properties[PROPERTY_REAL_QUEUE_ID] = str(inner.queue_id)
        inner.topic, inner.queue_id = SCHEDULE_TOPIC, level - 1
        return None

    def _deliver_level(self, level: int, budget: int) -> tuple[int, float | None]:
        store = self._store
        queue_id = level - 1
        offset = self.offsets.get(level, 0)
        end = store.get_max_offset(SCHEDULE_TOPIC, queue_id)
        if offset >= end:
            return 0, None
        low = store.get_min_offset(SCHEDULE_TOPIC, queue_id)
        if low > offset:
            _log_moved(level, offset, low, end)
            offset = low
        done = 0
        wait_ms: float | None = None
        now_ms = self._clock.now_ms()
        for unit in store.consume_queue_units(SCHEDULE_TOPIC, queue_id, offset, budget):
            due_ms = self._due(unit.tags_code, now_ms, level)
            if due_ms > now_ms:
                wait_ms = self.wait_ms(due_ms)
                break
            if not self._deliver(unit, level):
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
        # After the clock was set back or a level was shortened, the wait can exceed the level's
        # delay. As in Java, such a message is delivered immediately.
        return now_ms if due_ms > now_ms + self.levels[level] else due_ms

    def _deliver(self, unit: ConsumeQueueUnitView, level: int) -> bool:
        """Store one delayed message in its real topic; return False if it must be retried."""
        store = self._store
        if unit.size == PRE_BLANK_SIZE or unit.physical_offset < store.min_physical_offset:
            return True  # a blank unit, or the record was deleted with its log file
        record = store.get_record_at(unit.physical_offset, unit.size)
        if record is None:
            return self._quarantine(unit, level, f"no record of {unit.size} bytes there")
        try:
            message = decode_record(record, check_crc=True)
            if message.queue_offset > unit.queue_offset:
                return True  # a filler unit of recovery; the record's own unit follows
            inner = _restored(message, level)
        except RemoteProtocolError as error:
            return self._quarantine(unit, level, error.message)
        result = store.put_message(inner)
        if result.status in _REFUSED_FOR_GOOD:
            reason = result.remark or result.status.name
            return self._quarantine(unit, level, f"{inner.topic}: {reason}")
        if result.status is not PutMessageStatus.PUT_OK:
            return False
        if self.on_delivered is not None:
            self.on_delivered(inner.topic, result.store_size)
        return True

    def _quarantine(self, unit: ConsumeQueueUnitView, level: int, reason: str) -> bool:
        self.quarantined += 1
        if self.quarantined <= MAX_LOGGED:
            log.error(
                "delayed message (level %d, queue offset %d, physical offset %d): not delivered: "
                "%s; it stays in the CommitLog: mqadmin store inspect %s --from %d --limit 1%s",
                level,
                unit.queue_offset,
                unit.physical_offset,
                reason,
                self._store.config.root,
                unit.physical_offset,
                "; further ones are only counted" if self.quarantined == MAX_LOGGED else "",
            )
        return True


def _log_moved(level: int, offset: int, moved: int, end: int) -> None:
    """Log that a delivery offset was outside its queue: messages may be missing or repeated."""
    log.warning(
        "delayOffset.json: level %d: delivery offset %d changed to %d: its queue ends at %d",
        level,
        offset,
        moved,
        end,
    )


def _restored(message: MessageExt, level: int) -> MessageExtBrokerInner:
    """Return the message for its real topic; RemoteProtocolError if it names none.

    **Source:** RocketMQ ScheduleMessageService#messageTimeup.
    """
    if message.topic != SCHEDULE_TOPIC or message.queue_id != level - 1:
        where = f"queue {message.queue_id} of topic {message.topic!r}"
        raise RemoteProtocolError(f"the record belongs to {where}")
    topic = message.get_property(PROPERTY_REAL_TOPIC)
    if not topic or "\ufffd" in topic or topic in (SCHEDULE_TOPIC, TRANS_HALF_TOPIC):
        raise RemoteProtocolError(f"{PROPERTY_REAL_TOPIC}: {topic!r} is not a topic of messages")
    text = message.get_property(PROPERTY_REAL_QUEUE_ID)
    queue_id = parse_number(text or "", INT32_MIN, INT32_MAX)
    if queue_id is None or queue_id < 0:
        raise RemoteProtocolError(f"{PROPERTY_REAL_QUEUE_ID}: {text!r:.40} is not a queue number")
    return MessageExtBrokerInner(
        topic=topic,
        queue_id=queue_id,
        body=message.body,
        properties=message.properties_raw,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host_raw,
        store_host=message.store_host_raw,
        reconsume_times=message.reconsume_times,
    )


def delay_level(properties: Mapping[str, str], max_level: int) -> int:
    """Return the delay level that a message requests, at most ``max_level``; 0 if not delayed.

    A number beyond 32 bits is the highest level. Text that is not a number delays nothing, so that
    a message of the broker's own (a retry, a commit) is never lost by it; :func:`illegal_delay`
    refuses it in sends.

    **Source:** RocketMQ MessageExtBrokerInner#getDelayTimeLevel.
    """
    text = properties.get(PROPERTY_DELAY_TIME_LEVEL)
    if text is None:
        return 0
    level = parse_number(text, 0, INT32_MAX)
    if level is None:
        level = max_level if _is_integer(text) and text[0] != "-" else 0
    return min(level, max_level)


def illegal_delay(properties: Mapping[str, str]) -> str | None:
    """Return why the delay level of a send is illegal: not an integer; None if it is legal.

    **Source:** RocketMQ MessageExtBrokerInner#getDelayTimeLevel fails with NumberFormatException.
    """
    text = properties.get(PROPERTY_DELAY_TIME_LEVEL)
    if text is None or _is_integer(text):
        return None
    return f"property {PROPERTY_DELAY_TIME_LEVEL}: {text!r:.40} is not an integer"


def _is_integer(text: str) -> bool:
    digits = text[1:] if text[:1] in ("-", "+") else text
    return digits.isascii() and digits.isdigit()
