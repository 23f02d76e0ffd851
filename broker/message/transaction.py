"""Transactions in stored records: fields of half messages, bodies of op records.

**Source:** RocketMQ TransactionalMessageBridge, TransactionalMessageServiceImpl#fillOpRemoveMap.
"""

from typing import Final

from broker.common.java import INT32_MAX, INT32_MIN, parse_number
from broker.common.topic import TRANS_HALF_TOPIC
from broker.message import message as props
from broker.message.message import MessageExt

REMOVE_TAG: Final = "d"
OFFSET_SEPARATOR: Final = b","


def decode_op_body(body: bytes) -> list[int]:
    """Return the half queue offsets in the body of an op record; invalid ones are left out.

    One offset in decimal up to 5.0, several with a comma after each from 5.1 on.
    """
    found = (parse_number(piece, 0) for piece in body.split(OFFSET_SEPARATOR))
    return [offset for offset in found if offset is not None]


def real_place(message: MessageExt) -> tuple[str, int] | None:
    """Return real topic and queue id of a half message; None if its properties name none."""
    topic = message.get_property(props.PROPERTY_REAL_TOPIC)
    text = message.get_property(props.PROPERTY_REAL_QUEUE_ID)
    queue_id = parse_number(text or "", INT32_MIN, INT32_MAX)
    if not topic or "\ufffd" in topic or topic == TRANS_HALF_TOPIC:
        return None
    if queue_id is None or queue_id < 0:
        return None
    return topic, queue_id


def check_times(message: MessageExt) -> int | None:
    """Return how often a half message was checked; None without the property, -1 if invalid."""
    text = message.get_property(props.PROPERTY_TRANSACTION_CHECK_TIMES)
    if text is None:
        return None
    times = parse_number(text, INT32_MIN, INT32_MAX)
    return -1 if times is None else times
