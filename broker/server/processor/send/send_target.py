"""Target: the values for sending to one topic, and the check of the topic that precedes a send.

The sends of a topic share one Target until the topic or settings change. Java looks the topic up
for every message.

**Source:** RocketMQ AbstractSendMessageProcessor#msgCheck.
"""

import random
from typing import Final

from broker.common import sysflag
from broker.common import topic as names
from broker.common.topic import TopicConfig
from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.fields import wire_names
from broker.remoting.protocol.header.send import (
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
)
from broker.server import stats as counted
from broker.server.context import BrokerContext
from broker.server.metrics.message_type import FIFO_NAME, NORMAL, NUMS, SIZE
from broker.server.processor.send.batch_records import is_batch_topic
from broker.server.static_topic.mapping_table import TopicQueueMappingManager
from broker.server.stats import BrokerStats, Counter

# Wire names of the short header (V2), from its declaration: a send reads the fields it needs from
# the dictionary, because building the header object costs as much as the rest of the request.
_FIELDS: Final = wire_names(SendMessageRequestHeaderV2)
TOPIC: Final = _FIELDS["topic"]
DEFAULT_TOPIC: Final = _FIELDS["default_topic"]
DEFAULT_QUEUES: Final = _FIELDS["default_topic_queue_nums"]
QUEUE_ID: Final = _FIELDS["queue_id"]
SYS_FLAG: Final = _FIELDS["sys_flag"]
BORN_TIMESTAMP: Final = _FIELDS["born_timestamp"]
FLAG: Final = _FIELDS["flag"]
PROPERTIES: Final = _FIELDS["properties"]
RECONSUME_TIMES: Final = _FIELDS["reconsume_times"]
UNIT_MODE: Final = _FIELDS["unit_mode"]
MAX_RECONSUME_TIMES: Final = _FIELDS["max_reconsume_times"]
BATCH: Final = _FIELDS["batch"]
# Long name -> short name of the fields that both forms have.
SHORT_NAMES: Final = {
    long_name: _FIELDS[name] for name, long_name in wire_names(SendMessageRequestHeader).items()
}


class Target:
    """The values for sending to one topic; ``slow`` sends every message to the slow path."""

    __slots__ = (
        "batch_queue",
        "config",
        "mappings",
        "put_nums",
        "put_size",
        "queue_limit",
        "slow",
        "sys_flag",
        "typed",
    )

    def __init__(
        self,
        config: TopicConfig,
        put_nums: Counter,
        put_size: Counter,
        mappings: TopicQueueMappingManager | None = None,
    ) -> None:
        self.config = config
        self.mappings = mappings  # of a static topic, None of others
        self.queue_limit = max(config.read_queue_nums, config.write_queue_nums)
        multi = config.topic_filter_type == "MULTI_TAG"
        self.sys_flag = sysflag.MULTI_TAGS if multi else 0
        self.slow = names.is_retry_topic(config.topic_name)
        self.batch_queue = is_batch_topic(config)
        self.put_nums = put_nums
        self.put_size = put_size
        self.typed: tuple[Counter, Counter] | None = None  # the same of one message type


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
        context.mappings if topic in context.mappings.details else None,
    )


def _create_topic(
    context: BrokerContext, request: RemotingCommand, topic: str
) -> TopicConfig | None:
    ext = request.ext_fields
    topics = context.topics
    flag = sysflag.TOPIC_UNIT if ext.get(UNIT_MODE, "").lower() == "true" else 0
    template = ext.get(DEFAULT_TOPIC, names.TBW102)
    queues = int(ext.get(DEFAULT_QUEUES) or 0)
    if not names.is_retry_topic(topic):
        return topics.create_for_send(topic, template, queues, flag)
    flag = sysflag.TOPIC_UNIT_SUB if flag else 0
    # A client without the retry topic's route sends to a queue of the default topic's route.
    made = topics.create_for_send(topic, template, max(1, queues), flag)
    return made or topics.ensure(topic, 1, sys_flag=flag)


def random_queue(target: Target) -> int:
    """Return the queue for a negative queue id: as in Java, a random one.

    ValueError if the topic has no queue: no pull would read the message. Java divides by zero.
    """
    config = target.config
    if config.write_queue_nums <= 0:
        nums = f"writeQueueNums[{config.write_queue_nums}]"
        raise ValueError(f"any queue, but topic[{config.topic_name}] has {nums}")
    return random.randrange(config.write_queue_nums)


def record_target(stats: BrokerStats, topic: str, target: Target, kind: str) -> Target:
    """Return a target that counts under the record's own topic (schedule topic, DLQ) and type."""
    found = Target(
        target.config,
        stats.counter(counted.TOPIC_PUT_NUMS, topic),
        stats.counter(counted.TOPIC_PUT_SIZE, topic),
    )
    if kind != NORMAL:
        found.typed = stats.counter(NUMS[kind], topic), stats.counter(SIZE[kind], topic)
    return found


def is_special_or_fifo(text: str) -> bool:
    """Return the same as :func:`is_special`, also for messages that metrics count as ``fifo``."""
    return FIFO_NAME in text or is_special(text)


def is_special(text: str) -> bool:
    """Return whether a property string contains a name that needs the slow path.

    The searches are written out because a loop over the names costs more than all the searches; in
    bytes they would cost six times as much. A value that looks like a name only costs time.
    """
    return (
        "DELAY\x01" in text
        or "TRAN_MSG\x01" in text
        or "TIMER_D" in text
        or "POP_CK\x01" in text
        or "INNER_NUM\x01" in text
        or "MSG_REGION\x01" in text
        or "TRACE_ON\x01" in text
        or "CLUSTER\x01" in text
    )
