"""Topics: create, update, delete, list, configuration, queue bounds, subscribers.

**Source:** RocketMQ AdminBrokerProcessor (updateAndCreateTopic, updateAndCreateTopicList,
deleteTopic, getAllTopicConfig, getTopicConfig, getTopicStatsInfo, queryTopicConsumeByWho,
getSystemTopicListFromBroker).
"""

from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from broker.common import topic as names
from broker.common.message_queue import MessageQueue
from broker.common.topic import TOPIC_FILTER_TYPES, TopicConfig
from broker.errors import BrokerError, ClientError, RocketMQError
from broker.remoting.protocol.body.consumer.group import GroupList
from broker.remoting.protocol.body.namesrv.route import TopicList
from broker.remoting.protocol.body.topic import (
    CreateTopicListRequestBody,
    TopicConfigAndMappingSerializeWrapper,
    TopicConfigAndQueueMapping,
    TopicOffset,
    TopicStatsTable,
)
from broker.remoting.protocol.body.version import DataVersion
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.remoting.protocol.header.topic import (
    CreateTopicRequestHeader,
    TopicNameRequestHeader,
)
from broker.server import stats as counted
from broker.server.context import BrokerContext
from broker.server.processor.responses import (
    QUEUES_PER_SLICE,
    no_topic,
    not_written,
    offsets_not_written,
    with_body,
)
from broker.server.slices import collect_in_slices, decode_body
from broker.server.tables.topic_config import (
    MAX_QUEUES,
    MESSAGE_TYPE,
    apply_attribute_changes,
    parse_attribute_changes,
)

if TYPE_CHECKING:
    from broker.remoting.server import Connection

Answer = RemotingCommand | Awaitable[RemotingCommand]

TOPICS_PER_SLICE: Final = 500
"""Topics of a list checked per slice, about 10 µs each."""


def reject_reason(context: BrokerContext, config: TopicConfig) -> str | None:
    """Return the reason why a topic may not be created or changed, None if it may."""
    reason = names.check_topic_name(config.topic_name)
    if reason is not None:
        return reason
    if context.config.validate_system_topic_when_update_topic and context.topics.is_system(
        config.topic_name
    ):
        return f"The topic[{config.topic_name}] is conflict with system topic."
    if config.topic_filter_type not in TOPIC_FILTER_TYPES:
        types = " or ".join(TOPIC_FILTER_TYPES)
        return f"topicFilterType {config.topic_filter_type!r:.80} is not {types}"
    if not 0 <= config.perm <= 7:
        return f"perm {config.perm} is not between 0 and 7"
    if not (0 <= config.read_queue_nums <= MAX_QUEUES):
        return f"readQueueNums {config.read_queue_nums} is not between 0 and {MAX_QUEUES}"
    if not (0 <= config.write_queue_nums <= MAX_QUEUES):
        return f"writeQueueNums {config.write_queue_nums} is not between 0 and {MAX_QUEUES}"
    mixed = config.attributes.get(f"+{MESSAGE_TYPE}") == "MIXED"
    if mixed and not context.config.enable_mixed_message_type:
        return "MIXED message type is not supported."
    return None


def _with_attributes(context: BrokerContext, config: TopicConfig) -> TopicConfig:
    """Apply signed attribute changes to the topic's current attributes; ClientError if refused."""
    current = context.topics.get(config.topic_name)
    attributes = apply_attribute_changes(
        current.attributes if current is not None else {},
        config.attributes,
        creating=current is None,
    )
    return msgspec.structs.replace(config, attributes=attributes)


async def _announced(
    context: BrokerContext, request: RemotingCommand, topics: list[str]
) -> RemotingCommand:
    await context.announce(topics)
    return response(request)


def update_topic(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> Answer:
    """UPDATE_AND_CREATE_TOPIC: the response waits until the topic is written and announced."""
    header = decode_header_fields(CreateTopicRequestHeader, request.ext_fields)
    try:
        wanted = TopicConfig(
            topic_name=header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
            order=header.order,
            attributes=parse_attribute_changes(header.attributes or ""),
        )
        reason = reject_reason(context, wanted)
        if reason is not None:
            return response(request, ResponseCode.INVALID_PARAMETER, reason)
        wanted = _with_attributes(context, wanted)
    except ClientError as error:
        return response(request, ResponseCode.SYSTEM_ERROR, error.message)
    if not context.topics.put(wanted):
        return response(request)
    return _announced(context, request, [wanted.topic_name])


async def update_topics(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """UPDATE_AND_CREATE_TOPIC_LIST: all or none.

    Java ignores the whole list when one entry is unchanged; here the other entries are stored.
    The entries are checked in slices and stored at once; entries whose topic changed meanwhile are
    checked again.
    """
    body = await decode_body(CreateTopicListRequestBody.from_bytes, request.body_bytes())
    waiting, ready = body.topic_config_list, dict[str, _Checked]()
    while waiting:
        try:
            checked = await collect_in_slices(_check_each(context, waiting), TOPICS_PER_SLICE)
        except BrokerError as error:
            return response(request, error.code, error.remark)
        ready.update((entry.config.topic_name, entry) for entry in checked)
        waiting = [
            entry.wanted
            for name, entry in ready.items()
            if context.topics.get(name) is not entry.current
        ]
    context.topics.put_all(entry.config for entry in ready.values())
    return await _announced(context, request, list(ready))


class _Checked(NamedTuple):
    """An entry of a topic list: as sent, with its attributes applied to the ``current`` topic."""

    wanted: TopicConfig
    current: TopicConfig | None
    config: TopicConfig


def _check_each(context: BrokerContext, configs: list[TopicConfig]) -> Iterator[_Checked]:
    """Check topics one by one; BrokerError with Java's code for the first that is refused."""
    for wanted in configs:
        reason = reject_reason(context, wanted)
        if reason is not None:
            raise BrokerError(ResponseCode.INVALID_PARAMETER, reason, context.address)
        try:
            config = _with_attributes(context, wanted)
        except ClientError as error:
            raise BrokerError(ResponseCode.SYSTEM_ERROR, error.message, context.address) from None
        yield _Checked(wanted, context.topics.get(wanted.topic_name), config)


def delete_topic(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> Answer:
    """DELETE_TOPIC_IN_BROKER: configuration, all groups' offsets, queues; SUCCESS when unknown.

    The topics for pop retries of the deleted topic are deleted too. Queues are removed after
    topics.json is written: a failed write keeps the messages. So is consumerOffset.json: with an
    offset that a restart brings back, a group would skip messages of the recreated topic.
    """
    topic = decode_header_fields(TopicNameRequestHeader, request.ext_fields).topic
    if not topic.strip():
        remark = "The specified topic is blank."
        return response(request, ResponseCode.INVALID_PARAMETER, remark)
    protected = context.config.validate_system_topic_when_update_topic
    if protected and context.topics.is_system(topic):
        remark = f"The topic[{topic}] is conflict with system topic."
        return response(request, ResponseCode.INVALID_PARAMETER, remark)
    topics = [topic]
    for group in context.offsets.groups_of(topic):
        topics += [
            name
            for name in (
                names.pop_retry_topic(topic, group),
                names.pop_retry_topic(topic, group, version_2=True),
            )
            if name in context.topics
        ]
    for name in topics:
        context.topics.delete(name)
        context.mappings.delete(name)
    return delete_queues(context, request, topics)


async def delete_queues(
    context: BrokerContext, request: RemotingCommand, topics: list[str]
) -> RemotingCommand:
    """Delete offsets and queues of topics that have no configuration; return the response."""
    try:
        await context.mappings.persist()
        await context.topics.persist()
    except (RocketMQError, OSError) as error:
        return not_written(request, error)
    for name in topics:
        context.offsets.remove_topic(name)
    try:
        await context.offsets.persist()
    except (RocketMQError, OSError) as error:
        return offsets_not_written(request, error)
    gone = set(topics)
    context.stats.forget_topics(gone)
    if context.pop is not None:
        context.pop.in_flight.clean(lambda topic, _: topic not in gone)
    context.store.delete_topics(topics)
    for name in topics:
        if context.timers is not None:
            context.timers.timers.metrics.remove(name)
        if context.transactions is not None:
            context.transactions.metrics.counts.remove(name)
    return response(request)


def all_topic_configs(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> Answer:
    """GET_ALL_TOPIC_CONFIG: the whole table."""
    table = context.topics
    mappings = context.mappings
    body = TopicConfigAndMappingSerializeWrapper(
        topic_config_table=dict(table.configs),
        data_version=DataVersion.from_wire(table.data_version.to_wire()),
        topic_queue_mapping_detail_map=dict(mappings.details),
        mapping_data_version=DataVersion.from_wire(mappings.data_version.to_wire()),
    )
    return with_body(request, body, len(table.configs))


def topic_config(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_TOPIC_CONFIG: one configuration, with ``lo`` the mapping of a static topic too."""
    header = decode_header_fields(TopicNameRequestHeader, request.ext_fields)
    topic = header.topic
    found = context.topics.get(topic)
    if found is None:
        remark = f"No topic in this broker. topic: {topic}"
        return response(request, ResponseCode.TOPIC_NOT_EXIST, remark)
    detail = context.mappings.get(topic) if header.lo else None
    body = TopicConfigAndQueueMapping(topic_config=found, mapping_detail=detail)
    return response(request, body=body.to_bytes())


async def topic_stats(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_TOPIC_STATS_INFO: bounds and last store time of every queue."""
    topic = decode_header_fields(TopicNameRequestHeader, request.ext_fields).topic
    config = context.topics.get(topic)
    if config is None:
        return no_topic(request, topic)
    count = max(config.read_queue_nums, config.write_queue_nums)
    table = dict(await collect_in_slices(_queue_bounds(context, topic, count), QUEUES_PER_SLICE))
    counter = context.stats.find(counted.TOPIC_PUT_NUMS, topic)
    tps = counter.rate(context.now_ms()).tps if counter is not None else 0.0
    return await with_body(request, TopicStatsTable(offset_table=table, topic_put_tps=tps), count)


def _queue_bounds(
    context: BrokerContext, topic: str, count: int
) -> Iterator[tuple[MessageQueue, TopicOffset]]:
    store = context.store
    for queue_id in range(count):
        low = max(0, store.get_min_offset(topic, queue_id))
        high = max(0, store.get_max_offset(topic, queue_id))
        last_ms = store.store_timestamp_at(topic, queue_id, high - 1) if high > 0 else 0
        yield (
            MessageQueue(topic, context.config.broker_name, queue_id),
            TopicOffset(min_offset=low, max_offset=high, last_update_timestamp=max(0, last_ms)),
        )


def consumed_by(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """QUERY_TOPIC_CONSUME_BY_WHO: the online subscribers of a topic, and groups with offsets."""
    topic = decode_header_fields(TopicNameRequestHeader, request.ext_fields).topic
    groups = set(context.consumers.groups_of_topic(topic)) | set(context.offsets.groups_of(topic))
    return response(request, body=GroupList(group_list=sorted(groups)).to_bytes())


def system_topics(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_SYSTEM_TOPIC_LIST_FROM_BROKER: all system topics, those of this broker included."""
    found = set(names.SYSTEM_TOPICS) | set(context.topics.system_topics())
    return response(request, body=TopicList(topic_list=sorted(found)).to_bytes())


HANDLERS = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: update_topic,
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: update_topics,
    RequestCode.DELETE_TOPIC_IN_BROKER: delete_topic,
    RequestCode.GET_ALL_TOPIC_CONFIG: all_topic_configs,
    RequestCode.GET_TOPIC_CONFIG: topic_config,
    RequestCode.GET_TOPIC_STATS_INFO: topic_stats,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: consumed_by,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: system_topics,
}
