"""Queue offsets (29 to 32) and consumer offsets (14, 15, 43).

**Source:** RocketMQ AdminBrokerProcessor (searchOffset, getMaxOffset, getMinOffset,
getEarliestMsgStoretime), ConsumerManageProcessor (queryConsumerOffset, updateConsumerOffset).
"""

import asyncio
from typing import TYPE_CHECKING

from broker.common.encoding import java_json
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.consumer.offset import (
    QueryConsumerOffsetRequestHeader,
    QueueRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.server.context import BrokerContext
from broker.server.processor.responses import no_group, no_topic
from broker.server.processor.send.batch_records import is_batch_topic
from broker.server.tables.consumer_offset import NOT_FOUND

if TYPE_CHECKING:
    from broker.remoting.server import Connection


def _offset(request: RemotingCommand, offset: int) -> RemotingCommand:
    return response(request, ext={"offset": str(offset)})


def max_offset(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_MAX_OFFSET: the next offset that will be written; 0 for an unknown queue."""
    header = decode_header_fields(QueueRequestHeader, request.ext_fields)
    return _offset(request, context.store.get_max_offset(header.topic, header.queue_id))


def min_offset(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_MIN_OFFSET: the first offset that can be read; 0 for an unknown queue.

    An inner-batch queue has no min offset before its first message: -1.

    **Source:** RocketMQ AdminBrokerProcessor#getMinOffset, BatchConsumeQueue#getMinOffsetInQueue.
    """
    header = decode_header_fields(QueueRequestHeader, request.ext_fields)
    topic, queue_id = header.topic, header.queue_id
    if not context.store.get_max_offset(topic, queue_id):
        config = context.topics.get(topic)
        if config is not None and is_batch_topic(config):
            return _offset(request, -1)
    return _offset(request, max(0, context.store.get_min_offset(topic, queue_id)))


def search_offset(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """SEARCH_OFFSET_BY_TIMESTAMP: the offset of a store time.

    LOWER: the first offset stored at or after it. UPPER: the last one stored at or before it.
    """
    header = decode_header_fields(SearchOffsetRequestHeader, request.ext_fields)
    boundary = "UPPER" if (header.boundary_type or "").upper() == "UPPER" else "LOWER"
    offset = context.store.offset_by_time(header.topic, header.queue_id, header.timestamp, boundary)
    return _offset(request, offset)


def earliest_store_time(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_EARLIEST_MSG_STORETIME: store time of the first message, -1 if the queue is empty."""
    header = decode_header_fields(QueueRequestHeader, request.ext_fields)
    time_ms = context.store.earliest_message_time(header.topic, header.queue_id)
    return response(request, ext={"timestamp": str(time_ms)})


def query_consumer_offset(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """QUERY_CONSUMER_OFFSET: the committed offset; 0 for a new group if the queue is complete.

    A queue is complete while message 0 is readable and near enough to the end of the log to be
    expected in memory, and before it has its first message. Java answers "not found" for a new
    queue: the client then asks for the maximum offset, and a message that is stored in between is
    never delivered to the group.

    **Source:** RocketMQ ConsumerManageProcessor#queryConsumerOffset
    """
    header = decode_header_fields(QueryConsumerOffsetRequestHeader, request.ext_fields)
    offset = context.offsets.query(header.consumer_group, header.topic, header.queue_id)
    if offset >= 0:
        return _offset(request, offset)
    if header.set_zero_if_not_found is not False:
        # Read at offset 0: if the first messages are deleted or old, the response is "not found"
        # and the client decides by its consumeFromWhere.
        first = context.store.get_message(header.topic, header.queue_id, 0, 1)
        if first.message_count and not first.suggest_slave:
            return _offset(request, 0)
        topic = context.topics.get(header.topic)
        if not first.max_offset and topic and 0 <= header.queue_id < topic.read_queue_nums:
            return _offset(request, 0)
    remark = "Not found, maybe this group consumer boot first"
    return response(request, ResponseCode.QUERY_NOT_FOUND, remark)


def update_consumer_offset(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """UPDATE_CONSUMER_OFFSET: the last commit wins; ignored while a reset is pending.

    -1 removes the committed offset of a group without connected members: Java stores -1 and
    answers queries as if nothing was committed. ``mqadmin offset reset --to file:F`` undoes a
    group's first reset this way.

    Refused, where Java stores the offset: an unknown group (a typing error in a tool must not
    create a group), a queue that the topic does not have (unless it still holds messages from
    before the topic was shrunk), and an offset below -1. The table is therefore bounded by groups,
    topics and their queues. An offset past the end is stored: after a broker lost the end of its
    log, the offsets of its consumers are past the end.

    **Source:** RocketMQ ConsumerManageProcessor#updateConsumerOffset
    """
    for name in ("queueId", "commitOffset"):
        if name not in request.ext_fields:
            return response(request, ResponseCode.INVALID_PARAMETER, f"{name} is missing")
    header = decode_header_fields(UpdateConsumerOffsetRequestHeader, request.ext_fields)
    if header.consumer_group not in context.groups:
        return no_group(request, header.consumer_group)
    topic = context.topics.get(header.topic)
    if topic is None:
        return no_topic(request, header.topic)
    queues = max(topic.read_queue_nums, topic.write_queue_nums)
    if not 0 <= header.queue_id < queues and not context.store.get_max_offset(
        header.topic, header.queue_id
    ):
        remark = f"topic {header.topic} has {queues} queues, not queue {header.queue_id}"
        return response(request, ResponseCode.INVALID_PARAMETER, remark)
    offsets = context.offsets
    if header.commit_offset == NOT_FOUND:
        # The Node.js client commits -1 for a queue it has not consumed from. That commit is
        # ignored: it would remove the offset that another member committed. If the group has no
        # members, the request comes from an administrator.
        if context.consumers.get(header.consumer_group) is None:
            offsets.forget(header.consumer_group, header.topic, header.queue_id)
        return response(request)
    if header.commit_offset < 0:
        remark = f"offset {header.commit_offset} of {header.topic}:{header.queue_id} is negative"
        return response(request, ResponseCode.INVALID_PARAMETER, remark)
    if offsets.reset_pending(header.consumer_group, header.topic, header.queue_id):
        return response(request, remark="Offset has been previously reset, ignore this commit")
    offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
    return response(request)


async def all_consumer_offsets(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_ALL_CONSUMER_OFFSET: the whole table, as slaves fetch it."""
    offsets = context.offsets
    body = {"dataVersion": offsets.data_version.to_wire(), "offsetTable": offsets.snapshot()}
    data = await asyncio.get_running_loop().run_in_executor(None, java_json.dump_bytes, body)
    return response(request, body=data)


HANDLERS = {
    RequestCode.GET_MAX_OFFSET: max_offset,
    RequestCode.GET_MIN_OFFSET: min_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: search_offset,
    RequestCode.GET_EARLIEST_MSG_STORETIME: earliest_store_time,
    RequestCode.QUERY_CONSUMER_OFFSET: query_consumer_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: update_consumer_offset,
    RequestCode.GET_ALL_CONSUMER_OFFSET: all_consumer_offsets,
}
