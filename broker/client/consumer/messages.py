"""From the response of a pull or pop to the messages that a listener gets.

**Source:** RocketMQ ``PullAPIWrapper#processPullResult``, ``DefaultMQPushConsumerImpl
#resetRetryAndNamespace``.
"""

from collections.abc import Iterable

import msgspec

from broker.client.namespace import without_namespace
from broker.client.results import PullStatus
from broker.common import sysflag
from broker.common.subscription import SubscriptionData, is_tag_type
from broker.common.topic import original_of_pop_retry_topic, retry_topic
from broker.message.batch import unwrap_inner_batch
from broker.message.message import (
    PROPERTY_MAX_OFFSET,
    PROPERTY_MIN_OFFSET,
    PROPERTY_RETRY_TOPIC,
    MessageExt,
)
from broker.message.record import scan_records


class PullResult(msgspec.Struct, frozen=True, kw_only=True):
    """The response to a pull; ``messages`` in queue order, decompressed."""

    status: PullStatus
    next_begin_offset: int
    min_offset: int
    max_offset: int
    messages: list[MessageExt] = []
    suggested_broker_id: int = 0


def read_messages(body: bytes) -> list[MessageExt]:
    """Decode the records of a response; inner batches are split, bodies decompressed.

    Raises RemoteProtocolError for an invalid record or body.
    """
    messages: list[MessageExt] = []
    for record in scan_records(body):
        messages += unwrap_inner_batch(record)
    for message in messages:
        if message.sys_flag & sysflag.COMPRESSED:
            message.body = message.payload()
            message.sys_flag &= ~sysflag.COMPRESSED
    return messages


def select_messages(
    messages: Iterable[MessageExt], subscription: SubscriptionData
) -> list[MessageExt]:
    """Return messages whose tag text matches: the broker compares only hashes of tags.

    A message without tag matches only a subscription to all messages.
    """
    if not subscription.tags_set or not is_tag_type(subscription.expression_type):
        return list(messages)
    return [one for one in messages if one.tags in subscription.tags_set]


def add_offset_bounds(messages: Iterable[MessageExt], min_offset: int, max_offset: int) -> None:
    """Set the queue's bounds as properties, as Java listeners find them."""
    for message in messages:
        message.properties[PROPERTY_MIN_OFFSET] = str(min_offset)
        message.properties[PROPERTY_MAX_OFFSET] = str(max_offset)


def restore_topic(messages: Iterable[MessageExt], group: str, namespace: str) -> None:
    """Give a retried message its original topic back, and remove the namespace.

    Java leaves a message that is pulled from a POP retry topic the name of that topic.
    """
    own_retry_topic = retry_topic(group)
    for message in messages:
        if message.topic == own_retry_topic:
            message.topic = message.properties.get(PROPERTY_RETRY_TOPIC, message.topic)
        if message.topic.startswith(own_retry_topic):
            message.topic = original_of_pop_retry_topic(message.topic, group) or message.topic
        if namespace:
            message.topic = without_namespace(namespace, message.topic)
