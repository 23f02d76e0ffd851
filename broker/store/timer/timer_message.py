"""Rules of timer messages: when one is due, and the record that is delivered. No I/O, no clock.

A message is due at the end of its slot: TIMER_OUT_MS is the slot's start, so a message is at most
one precision late and never early.

**Source:** RocketMQ HookUtils#transformTimerMessage, TimerMessageStore#convert, #buildDeleteKey.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from broker.common.java import INT32_MAX, INT64_MAX, INT64_MIN, parse_number, to_int64
from broker.common.topic import SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC
from broker.errors import RemoteProtocolError
from broker.message import message as props
from broker.message.properties import append_property, peek_property, remove_property
from broker.message.record import (
    FIXED_SIZES,
    MAGIC_V1,
    RecordHead,
    peek_record,
    properties_of,
)
from broker.store.results import MessageExtBrokerInner

DELAY_SEC: Final = props.PROPERTY_TIMER_DELAY_SEC
DELAY_MS: Final = props.PROPERTY_TIMER_DELAY_MS
DELIVER_MS: Final = props.PROPERTY_TIMER_DELIVER_MS
REQUEST_PROPERTIES: Final = (DELAY_SEC, DELAY_MS, DELIVER_MS)
_REQUESTS: Final = frozenset(REQUEST_PROPERTIES)
_DELAYS: Final = ((DELAY_SEC.encode(), 1_000), (DELAY_MS.encode(), 1))
_DELAY_PREFIX: Final = b"TIMER_DELAY_"

OUT_MS: Final = props.PROPERTY_TIMER_OUT_MS.encode()
ENQUEUE_MS: Final = props.PROPERTY_TIMER_ENQUEUE_MS.encode()
DEQUEUE_MS: Final = props.PROPERTY_TIMER_DEQUEUE_MS.encode()
ROLL_TIMES: Final = props.PROPERTY_TIMER_ROLL_TIMES.encode()
DELETE_KEY: Final = props.PROPERTY_TIMER_DEL_UNIQKEY.encode()
REAL_TOPIC: Final = props.PROPERTY_REAL_TOPIC.encode()
REAL_QUEUE_ID: Final = props.PROPERTY_REAL_QUEUE_ID.encode()
UNIQ_KEY: Final = props.PROPERTY_UNIQ_KEY.encode()

MAX_PROPERTIES: Final = 32_767
# Length of TIMER_ENQUEUE_MS and TIMER_DEQUEUE_MS, rounded up.
_TIMES_SIZE: Final = 100
# Topics that a delivered message must not enter: it would be delayed again, or become a half.
_FORBIDDEN: Final = frozenset(
    topic.encode() for topic in (SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF_TOPIC)
)


class TimerMessage(NamedTuple):
    """A record of the timer topic, as far as the wheel needs it.

    ``record`` is the whole record, ``properties`` its encoded properties; ``out_ms`` the start of
    its slot.
    """

    head: RecordHead
    record: memoryview
    properties: bytes
    out_ms: int
    real_topic: bytes
    real_queue_id: int

    @property
    def deletes(self) -> bool:
        """Whether it recalls another message and is never delivered itself."""
        return DELETE_KEY in self.properties and bool(peek_property(self.properties, DELETE_KEY))

    @property
    def roll_times(self) -> int:
        """How often the message was stored again because it was due too far ahead."""
        text = peek_property(self.properties, ROLL_TIMES)
        return (parse_number(text, 0, INT32_MAX) or 0) if text else 0

    @property
    def dequeued(self) -> bool:
        """Whether this is a whole copy that the wheel stored.

        Recognised by its last property: a power cut can tear a record, and properties have no
        checksum.
        """
        return DEQUEUE_MS in self.properties or len(self.properties) > MAX_PROPERTIES - _TIMES_SIZE

    @property
    def delay_ms(self) -> int | None:
        """The delay that the producer requested; None if it requested a time."""
        if _DELAY_PREFIX not in self.properties:
            return None
        for name, factor in _DELAYS:
            text = peek_property(self.properties, name)
            if text is not None:
                delay = parse_number(text, 0, INT64_MAX)
                return None if delay is None else delay * factor
        return None


def is_timer_request(topic: str, properties: Mapping[str, str]) -> bool:
    """Whether a message without a delay level requests a delivery time.

    A delivered copy is not: it keeps TIMER_OUT_MS.

    **Source:** RocketMQ HookUtils#checkIfTimerMessage.
    """
    if topic == TIMER_TOPIC or props.PROPERTY_TIMER_OUT_MS in properties:
        return False
    return not _REQUESTS.isdisjoint(properties)


def deliver_time(properties: Mapping[str, str], now_ms: int) -> int | None:
    """Requested delivery time, epoch ms; None if the number is malformed.

    TIMER_DELAY_SEC precedes TIMER_DELAY_MS, which precedes TIMER_DELIVER_MS. Sums wrap as in Java.
    """
    for name, factor in ((DELAY_SEC, 1_000), (DELAY_MS, 1)):
        if name in properties:
            delay = parse_number(properties[name], INT64_MIN, INT64_MAX)
            return None if delay is None else to_int64(now_ms + to_int64(delay * factor))
    return parse_number(properties.get(DELIVER_MS, ""), INT64_MIN, INT64_MAX)


def slot_time(deliver_ms: int, precision_ms: int) -> int:
    """Start of the slot after whose end a message with this delivery time is due, epoch ms.

    An exact multiple of the precision belongs to the slot before it: it is due at its end.
    """
    return (deliver_ms - 1) // precision_ms * precision_ms


def decode_timer_message(record: memoryview) -> TimerMessage:
    """Decode a record of the timer topic; RemoteProtocolError if it cannot be delivered."""
    head = peek_record(record)
    if head is None or head.total_size != len(record):
        raise RemoteProtocolError("not a message record")
    properties = properties_of(record, head)
    out_ms = _number(properties, OUT_MS, INT64_MAX)
    real_topic = peek_property(properties, REAL_TOPIC)
    if not real_topic or real_topic in _FORBIDDEN:
        raise RemoteProtocolError(f"REAL_TOPIC: {real_topic!r:.80} is not a topic of messages")
    queue_id = _number(properties, REAL_QUEUE_ID, INT32_MAX)
    return TimerMessage(head, record, properties, out_ms, real_topic, queue_id)


def _number(properties: bytes, name: bytes, high: int) -> int:
    text = peek_property(properties, name)
    value = parse_number(text, 0, high) if text else None
    if value is None:
        shown = "is missing" if text is None else f"{text!r:.40} is not a number"
        raise RemoteProtocolError(f"{name.decode()}: {shown}")
    return value


def record_topic(record: memoryview, head: RecordHead) -> bytes:
    """Encoded topic of a record whose head has been read."""
    at = FIXED_SIZES[head.sys_flag >> 4 & 3] + head.body_size
    if head.magic == MAGIC_V1:
        return bytes(record[at + 1 : at + 1 + record[at]])
    size = record[at] << 8 | record[at + 1]
    return bytes(record[at + 2 : at + 2 + size])


def delete_key(real_topic: bytes, uniq_key: bytes) -> bytes:
    """Value of TIMER_DEL_UNIQKEY that recalls a message (5.3.2 and later).

    **Source:** RocketMQ TimerMessageStore#buildDeleteKey.
    """
    return b"%b+%b" % (real_topic, uniq_key)


def restored(message: TimerMessage, enqueue_ms: int, now_ms: int) -> MessageExtBrokerInner:
    """The record for the real topic. RemoteProtocolError if the topic is not UTF-8.

    The stored properties keep REAL_TOPIC, REAL_QID and TIMER_OUT_MS, and gain TIMER_ENQUEUE_MS and
    TIMER_DEQUEUE_MS if they fit.
    """
    properties = _with_times(message.properties, enqueue_ms, now_ms)
    if len(properties) > MAX_PROPERTIES:
        properties = message.properties
    try:
        topic = message.real_topic.decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError("REAL_TOPIC: not UTF-8") from None
    return _inner(message, topic, message.real_queue_id, properties)


def rolled(
    message: TimerMessage, enqueue_ms: int, now_ms: int, out_ms: int
) -> MessageExtBrokerInner:
    """The record for another round in the timer topic, with TIMER_ROLL_TIMES increased.

    ``out_ms`` is the start of its slot; earlier than before if the clock was set back.
    """
    times = b"%d" % (message.roll_times + 1)
    properties = append_property(remove_property(message.properties, ROLL_TIMES), ROLL_TIMES, times)
    if out_ms < message.out_ms:
        properties = append_property(remove_property(properties, OUT_MS), OUT_MS, b"%d" % out_ms)
    longer = _with_times(properties, enqueue_ms, now_ms)
    if len(longer) <= MAX_PROPERTIES:
        properties = longer
    elif len(properties) > MAX_PROPERTIES:
        properties = message.properties
    return _inner(message, TIMER_TOPIC, 0, properties)


def _with_times(properties: bytes, enqueue_ms: int, now_ms: int) -> bytes:
    if ENQUEUE_MS in properties:
        properties = remove_property(remove_property(properties, ENQUEUE_MS), DEQUEUE_MS)
    properties = append_property(properties, ENQUEUE_MS, b"%d" % enqueue_ms)
    return append_property(properties, DEQUEUE_MS, b"%d" % now_ms)


def _inner(
    message: TimerMessage, topic: str, queue_id: int, properties: bytes
) -> MessageExtBrokerInner:
    head = message.head
    start = FIXED_SIZES[head.sys_flag >> 4 & 3]
    return MessageExtBrokerInner(
        topic=topic,
        queue_id=queue_id,
        body=message.record[start : start + head.body_size],
        properties=properties,
        flag=head.flag,
        sys_flag=head.sys_flag,
        born_timestamp=head.born_timestamp,
        born_host=head.born_host_raw,
        store_host=head.store_host_raw,
        reconsume_times=head.reconsume_times,
    )


def identity(message: TimerMessage, topic: bytes, roll_times: int) -> int:
    """64-bit hash that a message shares with its copy in ``topic`` after ``roll_times`` rounds."""
    digest = hashlib.blake2b(digest_size=8)
    for part in (
        topic,
        message.real_topic,
        peek_property(message.properties, UNIQ_KEY) or b"",
        b"%d %d %d %d"
        % (
            message.real_queue_id,
            roll_times,
            message.head.born_timestamp,
            message.head.body_crc,
        ),
    ):
        digest.update(b"%d\0%b" % (len(part), part))
    return int.from_bytes(digest.digest(), "big")
