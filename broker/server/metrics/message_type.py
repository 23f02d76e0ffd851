"""The message types of metrics, from the properties that the sender has set.

**Source:** RocketMQ SendMessageProcessor, TopicMessageType#parseFromMessageProperty.
"""

from collections.abc import Mapping
from typing import Final

from broker.message import message as props

NORMAL: Final = "normal"
FIFO: Final = "fifo"
DELAY: Final = "delay"
TRANSACTION: Final = "transaction"
TYPES: Final = (FIFO, DELAY, TRANSACTION)
"""The types that are counted one by one; the other messages of a topic are normal ones."""

# Names of the counters of each type in the statistics.
NUMS: Final = {kind: f"TOPIC_PUT_NUMS_{kind}" for kind in TYPES}
SIZE: Final = {kind: f"TOPIC_PUT_SIZE_{kind}" for kind in TYPES}

FIFO_NAME: Final = props.PROPERTY_SHARDING_KEY.encode() + b"\x01"
_DELAY_NAMES: Final = (
    "__STARTDELIVERTIME",
    props.PROPERTY_DELAY_TIME_LEVEL,
    props.PROPERTY_TIMER_DELIVER_MS,
    props.PROPERTY_TIMER_DELAY_SEC,
    props.PROPERTY_TIMER_DELAY_MS,
)


def message_type(properties: Mapping[str, str]) -> str:
    """Return the type of a message with these properties."""
    if properties.get(props.PROPERTY_TRANSACTION_PREPARED) == "true":
        return TRANSACTION
    if props.PROPERTY_SHARDING_KEY in properties:
        return FIFO
    if any(name in properties for name in _DELAY_NAMES):
        return DELAY
    return NORMAL
