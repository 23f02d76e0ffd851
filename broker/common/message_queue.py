"""MessageQueue: the identity of one queue of one topic on one broker."""

import msgspec

from broker.common.encoding import java_json
from broker.common.encoding.java_values import FrozenObject
from broker.errors import RemoteProtocolError

MAX_KEY_BYTES = 4 * 1024
"""Longest text of a queue as map key in non-standard JSON."""


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """(topic, brokerName, queueId): hashable, ordered as Java orders it (in that sequence).

    **Source:** RocketMQ MessageQueue#compareTo.
    """

    topic: str
    broker_name: str
    queue_id: int


def message_queue_to_wire(queue: MessageQueue) -> dict[str, object]:
    """Return the JSON object of a queue, fields in Java's (alphabetical) order."""
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def message_queue_from_wire(value: object) -> MessageQueue:
    """Read a queue from a decoded JSON value or map key.

    Accepts a dict, a ``FrozenObject`` (an object in key position), or a string with
    the object's JSON (which Java also accepts as a key). Missing text fields become "" and a
    missing queueId 0, as in Java's bean. Raises RemoteProtocolError for any other value.
    """
    if isinstance(value, str):
        value = java_json.loads(value, tolerant_limit_bytes=MAX_KEY_BYTES)
    if isinstance(value, FrozenObject):
        value = dict(value)
    if not isinstance(value, dict):
        raise RemoteProtocolError(f"not a message queue: {value!r:.80}")
    topic, broker_name = value.get("topic"), value.get("brokerName")
    queue_id = value.get("queueId") or 0
    try:
        number = int(queue_id)
    except (TypeError, ValueError, OverflowError):
        raise RemoteProtocolError(f"not a queue id: {queue_id!r:.80}") from None
    return MessageQueue(
        "" if topic is None else str(topic),
        "" if broker_name is None else str(broker_name),
        number,
    )
