"""The message types of metrics, from the properties that the sender has set.

**Source:** RocketMQ SendMessageProcessor, TopicMessageType#parseFromMessageProperty.
"""

from collections.abc import Mapping
from typing import Final

from broker.message import message as props
from broker.server.stats import TOPIC_PUT_NUMS, TOPIC_PUT_SIZE, BrokerStats

NORMAL: Final = "normal"
FIFO: Final = "fifo"
DELAY: Final = "delay"
TRANSACTION: Final = "transaction"
TYPES: Final = (FIFO, DELAY, TRANSACTION)
"""The types that are counted one by one; the other messages of a topic are normal ones."""

INTERNAL: Final = "internal"
"""Not a type: messages that no client has sent. Java's metrics do not include them."""

# Names of the counters of each type in the statistics.
NUMS: Final = {kind: f"TOPIC_PUT_NUMS_{kind}" for kind in (*TYPES, INTERNAL)}
SIZE: Final = {kind: f"TOPIC_PUT_SIZE_{kind}" for kind in (*TYPES, INTERNAL)}

FIFO_NAME: Final = props.PROPERTY_SHARDING_KEY + "\x01"
_DELAY_NAMES: Final = (
    "__STARTDELIVERTIME",
    props.PROPERTY_DELAY_TIME_LEVEL,
    props.PROPERTY_TIMER_DELIVER_MS,
    props.PROPERTY_TIMER_DELAY_SEC,
    props.PROPERTY_TIMER_DELAY_MS,
)


def count_put(stats: BrokerStats, topic: str, size: int, kind: str = INTERNAL) -> None:
    """Count one message of ``size`` bytes that the broker itself has put into a topic."""
    stats.counter(TOPIC_PUT_NUMS, topic).add(1)
    stats.counter(TOPIC_PUT_SIZE, topic).add(size)
    stats.put.add(1)
    stats.counter(NUMS[kind], topic).add(1)
    stats.counter(SIZE[kind], topic).add(size)


def message_type(properties: Mapping[str, str]) -> str:
    """Return the type of a message with these properties."""
    if properties.get(props.PROPERTY_TRANSACTION_PREPARED) == "true":
        return TRANSACTION
    if props.PROPERTY_SHARDING_KEY in properties:
        return FIFO
    if any(name in properties for name in _DELAY_NAMES):
        return DELAY
    return NORMAL
