"""Checks that pop, peek, notification, ack and change of the invisible time share.

**Source:** RocketMQ PopMessageProcessor, PeekMessageProcessor, NotificationProcessor,
AckMessageProcessor, ChangeInvisibleTimeProcessor (the checks before their work).
"""

from typing import Protocol

from broker.common import topic as names
from broker.common.topic import TopicConfig
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.server.context import BrokerContext
from broker.server.processor.responses import no_group, no_topic


class Reader(Protocol):
    """The fields of a header that reads for a group; ``queue_id`` -1 is any queue."""

    @property
    def consumer_group(self) -> str:
        """The consumer group."""
        ...

    @property
    def topic(self) -> str:
        """The topic without retry prefix."""
        ...

    @property
    def queue_id(self) -> int:
        """The queue."""
        ...


class Receipt(Protocol):
    """The fields of a header that refers to one delivered message."""

    @property
    def topic(self) -> str:
        """The topic that the message is in, possibly a retry topic."""
        ...

    @property
    def queue_id(self) -> int:
        """The queue."""
        ...

    @property
    def offset(self) -> int:
        """The queue offset."""
        ...


def check_broker(
    context: BrokerContext, request: RemotingCommand, verb: str
) -> RemotingCommand | None:
    """Return the refusal of a broker that may not be read."""
    if names.is_readable(context.config.broker_permission):
        return None
    remark = f"the broker[{context.address}] {verb} message is forbidden"
    return response(request, ResponseCode.NO_PERMISSION, remark)


def check_reader(
    context: BrokerContext, request: RemotingCommand, header: Reader
) -> TopicConfig | RemotingCommand:
    """Return the topic, or the refusal by topic, queue or group, in Java's order."""
    topic = context.topics.get(header.topic)
    if topic is None:
        return no_topic(request, header.topic)
    if not names.is_readable(topic.perm):
        remark = f"the topic[{header.topic}] peeking message is forbidden"
        return response(request, ResponseCode.NO_PERMISSION, remark)
    if header.queue_id >= topic.read_queue_nums:
        remark = _bad_queue(header.topic, header.queue_id, topic)
        return response(request, ResponseCode.INVALID_PARAMETER, remark)
    group = context.groups.find(header.consumer_group)
    if group is None:
        return no_group(request, header.consumer_group)
    if not group.consume_enable:
        remark = f"subscription group no permission, {header.consumer_group}"
        return response(request, ResponseCode.NO_PERMISSION, remark)
    return topic


def check_receipt(
    context: BrokerContext, request: RemotingCommand, header: Receipt, *, beyond: int
) -> RemotingCommand | None:
    """Return the refusal of a message that does not exist.

    ``beyond``: how far the offset may be past the last message: an ack may name the maximum.
    """
    topic = context.topics.get(header.topic)
    if topic is None:
        return no_topic(request, header.topic)
    if not 0 <= header.queue_id < topic.read_queue_nums:
        remark = _bad_queue(header.topic, header.queue_id, topic)
        return response(request, ResponseCode.MESSAGE_ILLEGAL, remark)
    low = context.store.get_min_offset(header.topic, header.queue_id)
    high = context.store.get_max_offset(header.topic, header.queue_id)
    if not low <= header.offset < high + beyond:
        remark = (
            f"offset is illegal, key:{header.topic}@{header.queue_id}, commit:{header.offset}, "
            f"store:{low}~{high}"
        )
        return response(request, ResponseCode.NO_MESSAGE, remark)
    return None


def _bad_queue(name: str, queue_id: int, topic: TopicConfig) -> str:
    return (
        f"queueId[{queue_id}] is illegal, topic:[{name}] "
        f"topicConfig.readQueueNums:[{topic.read_queue_nums}]"
    )
