"""Target: the values for sending to one topic, and the check of the topic that precedes a send.

The sends of a topic share one Target until the topic or settings change. Java looks the topic up
for every message.

**Source:** RocketMQ AbstractSendMessageProcessor#msgCheck.
"""

from typing import Final

from broker.common import sysflag
from broker.common import topic as names
from broker.common.topic import TopicConfig
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.server import stats as counted
from broker.server.context import BrokerContext
from broker.server.processor.batch_records import is_batch_topic
from broker.server.stats import Counter

V2_FIELD_NAMES: Final = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
    "brokerName": "n",
}


class Target:
    """The values for sending to one topic; ``slow`` sends every message to the slow path."""

    __slots__ = (
        "batch_queue",
        "config",
        "put_nums",
        "put_size",
        "queue_limit",
        "slow",
        "sys_flag",
    )

    def __init__(self, config: TopicConfig, put_nums: Counter, put_size: Counter) -> None:
        self.config = config
        self.queue_limit = max(config.read_queue_nums, config.write_queue_nums)
        multi = config.topic_filter_type == "MULTI_TAG"
        self.sys_flag = sysflag.MULTI_TAGS if multi else 0
        self.slow = names.is_retry_topic(config.topic_name)
        self.batch_queue = is_batch_topic(config)
        self.put_nums = put_nums
        self.put_size = put_size


def check_topic(
    context: BrokerContext, request: RemotingCommand, topic: str
) -> Target | RemotingCommand:
    """Check a topic in Java's order and create it if it is missing; return a Target or the refusal.

    ``request`` has the one-letter field names of SEND_MESSAGE_V2; ValueError for a field that is
    not a number.
    """
    config = context.config
    start_ms = config.start_accept_send_request_time_stamp
    if context.now_ms() < start_ms:
        remark = f"broker unable to service, until {start_ms}"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    found = context.topics.get(topic)
    if found is not None and found.order and not names.is_writable(config.broker_permission):
        remark = f"the broker[{config.broker_ip1}] sending message is forbidden"
        return response(request, ResponseCode.NO_PERMISSION, remark)
    reason = names.check_topic_name(topic)
    if reason is not None:
        return response(request, ResponseCode.INVALID_PARAMETER, reason)
    if names.is_not_allowed_send_topic(topic):
        remark = f"Sending message to topic[{topic}] is forbidden."
        return response(request, ResponseCode.NO_PERMISSION, remark)
    if found is None:
        found = _create_topic(context, request, topic)
    if found is None:
        remark = f"topic[{topic}] not exist, apply first please!"
        return response(request, ResponseCode.TOPIC_NOT_EXIST, remark)
    stats = context.stats
    return Target(
        found,
        stats.counter(counted.TOPIC_PUT_NUMS, topic),
        stats.counter(counted.TOPIC_PUT_SIZE, topic),
    )


def _create_topic(
    context: BrokerContext, request: RemotingCommand, topic: str
) -> TopicConfig | None:
    ext = request.ext_fields
    topics = context.topics
    flag = sysflag.TOPIC_UNIT if ext.get("k") == "true" else 0
    if names.is_retry_topic(topic):
        flag = sysflag.TOPIC_UNIT_SUB if flag else 0
        return topics.ensure(topic, 1, sys_flag=flag)
    return topics.create_for_send(topic, ext.get("c", names.TBW102), int(ext.get("d") or 0), flag)
