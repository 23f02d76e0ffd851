"""Receipt handles of POP consumption, and the offset strings of pop responses.

::

    handle            ckQueueOffset popTime invisibleTime reviveQid retryFlag broker queueId offset
    startOffsetInfo   retryFlag queueId startOffset;…
    msgOffsetInfo     retryFlag queueId offset,offset,…;…
    orderCountInfo    retryFlag queueId count;…  and  retryFlag qoQUEUE%OFFSET count;…

A client builds the handle of a message from the response of a pop, and returns it in every
acknowledgement and change of the invisible time.

**Source:** RocketMQ ExtraInfoUtil.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from broker.common.java import INT32_MAX, INT32_MIN, parse_number
from broker.common.topic import pop_retry_topic
from broker.errors import RemoteProtocolError

SEPARATOR: Final = " "
ITEM_SEPARATOR: Final = ";"
ORDER_REVIVE_QUEUE_ID: Final = 999  # in handles of an ordered pop, which writes no check point

NORMAL_TOPIC: Final = "0"
RETRY_TOPIC_V1: Final = "1"
RETRY_TOPIC_V2: Final = "2"

MAX_HANDLE_CHARS: Final = 1024
LEAST_FIELDS: Final = 7
_SHOWN_CHARS: Final = 80
_SHORT_DIGITS: Final = 10


class ReceiptHandle(NamedTuple):
    """The fields of a handle; times in ms, ``queue_offset`` -1 in the form with seven fields.

    ``start_offset`` is the start offset of the check point, ``revive_queue_id``
    :data:`ORDER_REVIVE_QUEUE_ID` for an ordered pop, ``retry_flag`` the kind of the topic.
    """

    start_offset: int
    pop_time: int
    invisible_time: int
    revive_queue_id: int
    retry_flag: str
    broker_name: str
    queue_id: int
    queue_offset: int = -1

    @property
    def ordered(self) -> bool:
        """Whether the message comes from an ordered pop."""
        return self.revive_queue_id == ORDER_REVIVE_QUEUE_ID

    @property
    def due_ms(self) -> int:
        """End of the invisible time, epoch ms."""
        return self.pop_time + self.invisible_time


def encode_handle(handle: ReceiptHandle) -> str:
    """Encode a handle with eight fields, or seven if it has no queue offset."""
    fields = handle if handle.queue_offset >= 0 else handle[:-1]
    return SEPARATOR.join(map(str, fields))


def decode_handle(text: str) -> ReceiptHandle:
    """Decode a handle; RemoteProtocolError naming the field that is missing or not a number."""
    if len(text) > MAX_HANDLE_CHARS:
        raise RemoteProtocolError(f"receipt handle of {len(text)} characters")
    fields = text.split(SEPARATOR)
    if len(fields) < LEAST_FIELDS:
        raise RemoteProtocolError(
            f"receipt handle {text[:_SHOWN_CHARS]!r}: {len(fields)} fields, at least {LEAST_FIELDS}"
        )
    return ReceiptHandle(
        _number(text, "ckQueueOffset", fields[0]),
        _number(text, "popTime", fields[1]),
        _number(text, "invisibleTime", fields[2]),
        _number(text, "reviveQid", fields[3], narrow=True),
        fields[4],
        fields[5],
        _number(text, "queueId", fields[6], narrow=True),
        _number(text, "queueOffset", fields[7]) if len(fields) > LEAST_FIELDS else -1,
    )


def _number(text: str, name: str, field: str, *, narrow: bool = False) -> int:
    if len(field) < _SHORT_DIGITS and field.isascii() and field.isdigit():
        return int(field)  # almost always; the rules of Java below cost more
    bounds = (INT32_MIN, INT32_MAX) if narrow else ()
    number = parse_number(field, *bounds)
    if number is None:
        shown = text[:_SHOWN_CHARS]
        raise RemoteProtocolError(f"receipt handle {shown!r}: {name} is not a number")
    return number


def retry_flag(topic: str, group: str, normal_topic: str) -> str:
    """Return the flag of the topic that a message was popped from.

    **Source:** RocketMQ ExtraInfoUtil#getRetry.
    """
    if topic == pop_retry_topic(normal_topic, group, version_2=True):
        return RETRY_TOPIC_V2
    return RETRY_TOPIC_V1 if topic != normal_topic else NORMAL_TOPIC


def real_topic(normal_topic: str, group: str, flag: str | None) -> str:
    """Return the topic that a flag refers to.

    **Source:** RocketMQ ExtraInfoUtil#getRealTopic.
    """
    if flag == RETRY_TOPIC_V1:
        return pop_retry_topic(normal_topic, group)
    if flag == RETRY_TOPIC_V2:
        return pop_retry_topic(normal_topic, group, version_2=True)
    return normal_topic


def start_offset_item(flag: str, queue_id: int, start_offset: int) -> str:
    """Return one item of ``startOffsetInfo``."""
    return f"{flag} {queue_id} {start_offset}"


def message_offset_item(flag: str, queue_id: int, offsets: Iterable[int]) -> str:
    """Return one item of ``msgOffsetInfo``."""
    return f"{flag} {queue_id} {','.join(map(str, offsets))}"


def queue_count_item(flag: str, queue_id: int, count: int) -> str:
    """Return the item of ``orderCountInfo`` for a whole queue: the least consumption count."""
    return f"{flag} {queue_id} {count}"


def offset_count_item(flag: str, queue_id: int, queue_offset: int, count: int) -> str:
    """Return the item of ``orderCountInfo`` for one message."""
    return f"{flag} qo{queue_id}%{queue_offset} {count}"
