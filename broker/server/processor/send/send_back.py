"""CONSUMER_SEND_MSG_BACK (36): a consumer failed to consume a message; retry it or give it up.

**Source:** RocketMQ AbstractSendMessageProcessor#consumerSendMsgBack.
"""

import random
from collections.abc import Awaitable
from typing import TYPE_CHECKING, NamedTuple

from broker.common import sysflag
from broker.common import topic as names
from broker.common.group import SubscriptionGroupConfig
from broker.errors import RemoteProtocolError, RocketMQError
from broker.message import message as props
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import decode_record
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.remoting.protocol.header.send import ConsumerSendMsgBackRequestHeader
from broker.server import stats as counted
from broker.server.context import BrokerContext
from broker.server.processor.responses import no_group, not_written
from broker.server.processor.send.send import VERSION_WITH_MAX_RECONSUME
from broker.store.results import MessageExtBrokerInner, PutMessageStatus

if TYPE_CHECKING:
    from broker.remoting.server import Connection

FIRST_RETRY_LEVEL = 3  # delay level of the first retry


def send_back(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand | Awaitable[RemotingCommand]:
    """Store a copy in the retry topic after a delay, or in the DLQ."""
    header = decode_header_fields(ConsumerSendMsgBackRequestHeader, request.ext_fields)
    config = context.groups.find(header.group)
    if config is None:
        return no_group(request, header.group)
    if not names.is_writable(context.config.broker_permission):
        remark = f"the broker[{context.address}] sending message is forbidden"
        return response(request, ResponseCode.NO_PERMISSION, remark)
    if config.retry_queue_nums <= 0:
        return response(request)
    reason = context.store.why_illegal_place(names.retry_topic(header.group), 0)
    if reason is not None:
        return _illegal(request, reason)  # before a topic is created that cannot hold messages
    sys_flag = sysflag.TOPIC_UNIT_SUB if header.unit_mode else 0
    topic = context.topics.ensure(
        names.retry_topic(header.group), config.retry_queue_nums, sys_flag=sys_flag
    )
    if not names.is_writable(topic.perm):
        remark = f"the topic[{topic.topic_name}] sending message is forbidden"
        return response(request, ResponseCode.NO_PERMISSION, remark)
    queue_nums = min(topic.read_queue_nums, topic.write_queue_nums)
    if queue_nums <= 0:
        remark = f"the topic[{topic.topic_name}] has no queue to write to and read from"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    message = _lookup(context, header.offset)
    if message is None:
        remark = f"look message by offset failed, {header.offset}"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    # Java draws from the group's retryQueueNums: an existing retry topic may have fewer queues, and
    # no consumer pulls the others. Raising the number does not change an existing topic.
    queue_id = random.randrange(queue_nums)
    inner = _copy(context, header, config, message, queue_id, request.version)
    if isinstance(inner, str):
        return _illegal(request, inner)
    copy = _Copy(inner, f"{_first_topic(message, header.group)}@{header.group}")
    topics = (topic.topic_name, names.dlq_topic(header.group))
    if all(context.topics.is_persisted(name) for name in topics):
        return _store(context, request, copy)
    return _store_persisted(context, request, copy)


class _Copy(NamedTuple):
    """The record to store, and the key of its statistics: ``topic@group``."""

    inner: MessageExtBrokerInner
    counted_as: str


async def _store_persisted(
    context: BrokerContext, request: RemotingCommand, copy: _Copy
) -> RemotingCommand:
    """Store in a topic that was just created: topics.json is written first."""
    try:
        await context.topics.persist()
    except (RocketMQError, OSError) as error:
        return not_written(request, error)
    answer = _store(context, request, copy)
    return await answer if isinstance(answer, Awaitable) else answer


def _store(
    context: BrokerContext, request: RemotingCommand, copy: _Copy
) -> RemotingCommand | Awaitable[RemotingCommand]:
    """Store the copy; the response waits as that of a send: the consumer gives its message up.

    Java answers at once, also with SYNC_FLUSH and SYNC_MASTER.
    """
    lacking = context.durability.refusal()
    if lacking is not None:
        return response(request, ResponseCode.SYSTEM_ERROR, lacking.name)
    result = context.store.put_message(copy.inner)
    if result.status is not PutMessageStatus.PUT_OK:
        return response(request, ResponseCode.SYSTEM_ERROR, result.status.name)
    context.stats.counter(counted.SNDBCK_PUT_NUMS, copy.counted_as).add(1)
    if not context.durability.waits:
        return response(request)
    return _stored(context, request, result.physical_end)


async def _stored(
    context: BrokerContext, request: RemotingCommand, physical_end: int
) -> RemotingCommand:
    """Respond when the copy is flushed and replicated; SYSTEM_ERROR after a timeout, as in Java."""
    status = await context.durability.stored(physical_end)
    if status is not PutMessageStatus.PUT_OK:
        return response(request, ResponseCode.SYSTEM_ERROR, status.name)
    return response(request)


def _illegal(request: RemotingCommand, reason: str) -> RemotingCommand:
    remark = f"{PutMessageStatus.MESSAGE_ILLEGAL.name}: {reason}"
    return response(request, ResponseCode.SYSTEM_ERROR, remark)


def _lookup(context: BrokerContext, physical_offset: int) -> MessageExt | None:
    """Return the message at an offset, None unless it is intact.

    The checksum is verified because the copy gets a new one, which would hide the corruption.
    """
    record = context.store.get_record_at(physical_offset)
    if record is None:
        return None
    try:
        message = decode_record(record, check_crc=True)
    except RemoteProtocolError:
        return None
    return message if message.physical_offset == physical_offset else None


def _first_topic(message: MessageExt, group: str) -> str:
    """Return the topic that the message was sent to.

    A message redelivered by POP is in the POP retry topic of the group. Java names that topic in
    RETRY_TOPIC, so that a replay of dead letters would send to it.
    """
    topic = message.get_property(props.PROPERTY_RETRY_TOPIC) or message.topic
    return names.original_of_pop_retry_topic(topic, group) or topic


def _copy(
    context: BrokerContext,
    header: ConsumerSendMsgBackRequestHeader,
    config: SubscriptionGroupConfig,
    message: MessageExt,
    retry_queue_id: int,
    version: int,
) -> MessageExtBrokerInner | str:
    """Return the message to store, or the reason why its topic cannot hold it."""
    properties = dict(message.properties)
    properties[props.PROPERTY_RETRY_TOPIC] = _first_topic(message, header.group)
    properties[props.PROPERTY_WAIT_STORE_MSG_OK] = "false"
    origin = properties.get(props.PROPERTY_ORIGIN_MESSAGE_ID) or message.offset_msg_id
    properties[props.PROPERTY_ORIGIN_MESSAGE_ID] = origin
    limit = config.retry_max_times
    if version >= VERSION_WITH_MAX_RECONSUME and header.max_reconsume_times is not None:
        limit = header.max_reconsume_times
    level = header.delay_level
    if message.reconsume_times >= limit or level < 0:
        topic, queue_id, level = names.dlq_topic(header.group), 0, 0
        reason = context.store.why_illegal_place(topic, queue_id)
        if reason is not None:
            return reason
        context.topics.ensure(topic, 1)
        origin_topic = properties[props.PROPERTY_RETRY_TOPIC]
        context.stats.counter(counted.DLQ_PUT_NUMS, f"{origin_topic}@{header.group}").add(1)
    else:
        topic, queue_id = names.retry_topic(header.group), retry_queue_id
        if level == 0:
            level = FIRST_RETRY_LEVEL + message.reconsume_times
    inner = MessageExtBrokerInner(
        topic,
        queue_id,
        message.body,
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp=message.born_timestamp,
        born_host=message.born_host_raw,
        store_host=context.store_host,
        reconsume_times=message.reconsume_times + 1,
    )
    if context.delays is not None:
        level = min(level, context.delays.max_level)
    properties[props.PROPERTY_DELAY_TIME_LEVEL] = str(level)
    if context.delays is not None and level > 0:
        reason = context.delays.suspend(inner, properties, level)
        if reason is not None:
            return reason
    inner.properties = encode_properties(properties)
    return inner


HANDLERS = {RequestCode.CONSUMER_SEND_MSG_BACK: send_back}
