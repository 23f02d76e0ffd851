"""The recall handle that the response to the send of a timer message contains.

**Source:** RocketMQ SendMessageProcessor#attachRecallHandle.
"""

from collections.abc import Mapping

from broker.common.topic import TIMER_TOPIC, is_retry_topic
from broker.message import message as props
from broker.message.recall_handle import RecallHandle, encode_recall_handle
from broker.server.context import BrokerContext


def recall_handle(context: BrokerContext, topic: str, properties: Mapping[str, str]) -> str:
    """Return the handle of a message that is stored in ``topic``; empty if it cannot be recalled.

    Its time is 1 ms after the start of the slot: rounded down, it leads to the same slot.
    """
    real_topic = properties.get(props.PROPERTY_REAL_TOPIC, "")
    if topic != TIMER_TOPIC or is_retry_topic(real_topic):
        return ""
    out_ms = properties.get(props.PROPERTY_TIMER_OUT_MS, "")
    if not out_ms.isdecimal():
        return ""  # sent to the timer topic by the client itself
    uniq_key = properties.get(props.PROPERTY_UNIQ_KEY, "")
    handle = RecallHandle(real_topic, context.config.broker_name, str(int(out_ms) + 1), uniq_key)
    return encode_recall_handle(handle)
