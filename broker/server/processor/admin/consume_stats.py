"""Consumer progress and broker statistics.

Codes: consumer lag (208, 317), consume time span (303), topics and subscription of a group (343,
345), offset correction (308), broker counters (315).

**Source:** RocketMQ AdminBrokerProcessor (getConsumeStats, fetchAllConsumeStatsInBroker,
queryConsumeTimeSpan, queryTopicsByConsumer, querySubscriptionByConsumer, queryCorrectionOffset,
viewBrokerStatsData).
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.body.consumer import consume as bodies
from broker.remoting.protocol.body.namesrv.route import TopicList
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.consumer import consume as headers
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.server import stats as counted
from broker.server.context import BrokerContext
from broker.server.processor.responses import QUEUES_PER_SLICE, no_topic, with_body
from broker.server.slices import collect_in_slices

if TYPE_CHECKING:
    from broker.remoting.server import Connection

MAX_TIME_SPAN_QUEUES = 10_000  # per response


def _progress(
    context: BrokerContext, group: str, topic: str, queue_id: int, least: int = 0
) -> bodies.OffsetWrapper:
    """Progress in one queue; ``least`` is the consumer offset of a group that has none."""
    store, offsets = context.store, context.offsets
    end = max(0, store.get_max_offset(topic, queue_id))
    consumed = max(least, offsets.query(group, topic, queue_id))
    last_ms = store.store_timestamp_at(topic, queue_id, consumed - 1) if consumed > 0 else 0
    # A pop commits at once: its messages in flight are before the committed offset. Java reports
    # them in a metric only; tools show pullOffset - consumerOffset.
    popped = context.pop.in_flight.get(topic, group, queue_id) if context.pop is not None else 0
    return bodies.OffsetWrapper(
        broker_offset=end,
        consumer_offset=consumed,
        pull_offset=max(consumed + popped, offsets.pulled(group, topic, queue_id)),
        last_timestamp=max(0, last_ms),
    )


def _get_tps(context: BrokerContext, topic: str, group: str) -> float:
    counter = context.stats.find(counted.GROUP_GET_NUMS, f"{topic}@{group}")
    return counter.rate(context.now_ms()).tps if counter is not None else 0.0


Progress = tuple[MessageQueue, bodies.OffsetWrapper]


def _progress_of(
    context: BrokerContext, group: str, topic: str, queues: int, least: int = 0
) -> Iterator[Progress]:
    for queue_id in range(queues):
        queue = MessageQueue(topic, context.config.broker_name, queue_id)
        yield queue, _progress(context, group, topic, queue_id, least)


def _least_offset(context: BrokerContext, topic: str) -> int:
    """The consumer offset of a group that has none in a queue: -1 in a static topic, else 0.

    A tool maps the queues of all brokers to logical ones, and takes the newest segment that has an
    offset: 0 would hide the offset of an earlier segment.

    **Source:** RocketMQ AdminBrokerProcessor#getConsumeStats, MQAdminUtils
    #convertPhysicalConsumeStats.
    """
    return -1 if context.mappings.get(topic) is not None else 0


async def consume_stats(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_CONSUME_STATS: the progress of a group, one entry per read queue.

    Without a topic list, topics that an online group no longer subscribes are left out. Queues and
    offsets of static topics are those of this broker, as in Java: tools convert them.

    **Source:** RocketMQ AdminBrokerProcessor#getConsumeStats
    """
    header = decode_header_fields(headers.GetConsumeStatsRequestHeader, request.ext_fields)
    group = header.consumer_group
    listed = [topic for topic in (header.topic_list or "").split(";") if topic.strip()]
    if listed:
        topics = listed
    else:
        topics = [header.topic] if header.topic else context.offsets.topics_of(group)
        online = context.consumers.get(group)
        if online is not None and online.subscriptions:
            topics = [topic for topic in topics if topic in online.subscriptions]
    known = [config for topic in topics if (config := context.topics.get(topic)) is not None]
    progress = (
        entry
        for config in known
        for entry in _progress_of(
            context,
            group,
            config.topic_name,
            config.read_queue_nums,
            _least_offset(context, config.topic_name),
        )
    )
    table = dict(await collect_in_slices(progress, QUEUES_PER_SLICE))
    tps = sum(_get_tps(context, config.topic_name, group) for config in known)
    body = bodies.ConsumeStats(offset_table=table, consume_tps=tps)
    return await with_body(request, body, len(table))


async def all_consume_stats(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_BROKER_CONSUME_STATS: the progress of every group of the broker."""
    header = decode_header_fields(headers.GetBrokerConsumeStatsRequestHeader, request.ext_fields)
    topics = context.offsets.topics_by_group()
    chosen = [
        (group, config)
        for group in sorted(context.groups.configs)
        for topic in topics.get(group, ())
        if (config := context.topics.get(topic)) is not None
        and (config.order or not header.is_order)
    ]
    progress = (
        (group, config.topic_name, queue, at)
        for group, config in chosen
        for queue, at in _progress_of(context, group, config.topic_name, config.write_queue_nums)
    )
    found: dict[str, dict[str, dict[MessageQueue, bodies.OffsetWrapper]]] = {
        group: {} for group in sorted(context.groups.configs)
    }
    lag = in_flight = entries = 0
    for group, topic, queue, at in await collect_in_slices(progress, QUEUES_PER_SLICE):
        found.setdefault(group, {}).setdefault(topic, {})[queue] = at
        lag += at.broker_offset - at.consumer_offset
        in_flight += at.pull_offset - at.consumer_offset
        entries += 1
    body = bodies.ConsumeStatsList(
        consume_stats_list=[
            {
                group: [
                    bodies.ConsumeStats(
                        offset_table=table, consume_tps=_get_tps(context, topic, group)
                    )
                    for topic, table in tables.items()
                ]
            }
            for group, tables in found.items()
        ],
        broker_addr=context.address,
        total_diff=lag,
        total_inflight_diff=in_flight,
    )
    return await with_body(request, body, entries + len(found))


async def consume_time_span(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """QUERY_CONSUME_TIME_SPAN: store times of each queue's first, last and consumed message."""
    header = decode_header_fields(headers.QueryConsumeTimeSpanRequestHeader, request.ext_fields)
    config = context.topics.get(header.topic)
    if config is None:
        return no_topic(request, header.topic)
    measured = (
        _time_span(context, header.group, header.topic, queue_id)
        for queue_id in range(min(config.write_queue_nums, MAX_TIME_SPAN_QUEUES))
    )
    spans = await collect_in_slices(measured, QUEUES_PER_SLICE)
    body = bodies.QueryConsumeTimeSpanBody(consume_time_span_set=spans)
    return await with_body(request, body, len(spans))


def _time_span(
    context: BrokerContext, group: str, topic: str, queue_id: int
) -> bodies.QueueTimeSpan:
    store = context.store
    first_ms = store.earliest_message_time(topic, queue_id)
    end = store.get_max_offset(topic, queue_id)
    last_ms = store.store_timestamp_at(topic, queue_id, end - 1)
    consumed = context.offsets.query(group, topic, queue_id)
    at_ms = store.store_timestamp_at(topic, queue_id, consumed - 1) if consumed > 0 else first_ms
    delay_ms = 0
    if consumed < end:
        next_ms = store.store_timestamp_at(topic, queue_id, max(0, consumed))
        delay_ms = max(0, context.now_ms() - next_ms) if next_ms > 0 else 0
    return bodies.QueueTimeSpan(
        message_queue=MessageQueue(topic, context.config.broker_name, queue_id),
        min_time_stamp=first_ms,
        max_time_stamp=last_ms,
        consume_time_stamp=at_ms,
        delay_time=delay_ms,
    )


def correction_offset(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """QUERY_CORRECTION_OFFSET: the lowest offset of the groups per queue, except filtered groups.

    If the compared group's offset is below that in any queue, only those queues are returned.
    Java also deletes the offsets of the filtered groups, a bug that is not copied.
    """
    header = decode_header_fields(headers.QueryCorrectionOffsetRequestHeader, request.ext_fields)
    skipped = {name for name in (header.filter_groups or "").split(",") if name}
    lowest: dict[int, int] = {}
    for group in context.offsets.groups_of(header.topic):
        if group in skipped:
            continue
        for queue_id, offset in context.offsets.queues(group, header.topic).items():
            lowest[queue_id] = min(offset, lowest.get(queue_id, offset))
    compared = context.offsets.queues(header.compare_group, header.topic)
    result = {
        queue_id: lowest[queue_id]
        for queue_id, offset in compared.items()
        if lowest.get(queue_id, offset) > offset
    }
    result = result or lowest
    body = bodies.QueryCorrectionOffsetBody(correction_offsets=result)
    return response(request, body=body.to_bytes())


def topics_of_group(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """QUERY_TOPICS_BY_CONSUMER: the topics in which a group has offsets."""
    header = decode_header_fields(headers.QueryTopicsByConsumerRequestHeader, request.ext_fields)
    body = TopicList(
        topic_list=context.offsets.topics_of(header.group), broker_addr=context.address
    )
    return response(request, body=body.to_bytes())


def subscription_of_group(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """QUERY_SUBSCRIPTION_BY_CONSUMER: the subscription of an online group to a topic."""
    header = decode_header_fields(
        headers.QuerySubscriptionByConsumerRequestHeader, request.ext_fields
    )
    body = bodies.QuerySubscriptionResponseBody(
        subscription_data=context.consumers.subscription(header.group, header.topic or ""),
        group=header.group,
        topic=header.topic,
    )
    return response(request, body=body.to_bytes())


def view_stats(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """VIEW_BROKER_STATS_DATA: sum, rate and average of one counter in three windows."""
    header = decode_header_fields(headers.ViewBrokerStatsDataRequestHeader, request.ext_fields)
    counter = _counter(context, header.stats_name, header.stats_key)
    if counter is None:
        remark = f"The stats <{header.stats_name}> <{header.stats_key}> not exist"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    now_ms = context.now_ms()
    windows = [
        window.snapshot(now_ms, counter.value, counter.calls)
        for window in (counter.minute, counter.hour, counter.day)
    ]
    minute, hour, day = (
        bodies.BrokerStatsItem(sum=shot.sum, tps=shot.tps, avgpt=shot.avgpt) for shot in windows
    )
    body = bodies.BrokerStatsData(stats_minute=minute, stats_hour=hour, stats_day=day)
    return response(request, body=body.to_bytes())


def _counter(context: BrokerContext, name: str, key: str) -> counted.Counter | None:
    stats = context.stats
    if key == context.config.broker_cluster_name:
        if name == counted.BROKER_PUT_NUMS:
            return stats.put
        if name == counted.BROKER_GET_NUMS:
            return stats.get_messages
    return stats.find(name, key)


HANDLERS = {
    RequestCode.GET_CONSUME_STATS: consume_stats,
    RequestCode.GET_BROKER_CONSUME_STATS: all_consume_stats,
    RequestCode.QUERY_CONSUME_TIME_SPAN: consume_time_span,
    RequestCode.QUERY_CORRECTION_OFFSET: correction_offset,
    RequestCode.QUERY_TOPICS_BY_CONSUMER: topics_of_group,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: subscription_of_group,
    RequestCode.VIEW_BROKER_STATS_DATA: view_stats,
}
