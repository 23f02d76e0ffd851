"""MessageQueue: the name of one queue of one topic on one broker."""

import msgspec

from broker.common import java_json
from broker.errors import RemoteProtocolError


class MessageQueue(msgspec.Struct, frozen=True, order=True, rename="camel"):
    """(topic, brokerName, queueId): hashable, ordered as Java orders it (in that sequence).

    **Source:** RocketMQ MessageQueue#compareTo.
    """

    topic: str
    broker_name: str
    queue_id: int


def message_queue_to_wire(queue: MessageQueue) -> dict[str, object]:
    """The JSON object of a queue, fields in Java's (alphabetical) order."""
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def message_queue_from_wire(value: object) -> MessageQueue:
    """Read a queue from a decoded JSON value or map key.

    Takes a dict, a ``java_json.FrozenObject`` (an object in key position), or a string that
    holds the object's JSON (which Java accepts as a key too). Absent text fields read as ""
    and an absent queueId as 0, as Java's bean does. RemoteProtocolError for anything else.
    """
    if isinstance(value, str):
        value = java_json.loads(value)
    if isinstance(value, java_json.FrozenObject):
        value = dict(value)
    if not isinstance(value, dict):
        raise RemoteProtocolError(f"not a message queue: {value!r:.80}")
    topic, broker_name = value.get("topic"), value.get("brokerName")
    queue_id = value.get("queueId") or 0
    try:
        number = int(queue_id)
    except (TypeError, ValueError):
        raise RemoteProtocolError(f"not a queue id: {queue_id!r:.80}") from None
    return MessageQueue(
        "" if topic is None else str(topic),
        "" if broker_name is None else str(broker_name),
        number,
    )
