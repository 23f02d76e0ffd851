"""Offsets of queues (29 to 32) and of consumers (14, 15, 43).

**Source:** RocketMQ AdminBrokerProcessor (searchOffset, getMaxOffset, getMinOffset,
getEarliestMsgStoretime), ConsumerManageProcessor (queryConsumerOffset, updateConsumerOffset).
"""

from typing import TYPE_CHECKING

from broker.common import java_json
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.remoting.protocol.header.offset import (
    QueryConsumerOffsetRequestHeader,
    QueueRequestHeader,
    SearchOffsetRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)
from broker.server.context import BrokerContext
from broker.server.processor.answer import no_group, no_topic

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
    """GET_MIN_OFFSET: the first offset that can be read; 0 for an unknown queue."""
    header = decode_header_fields(QueueRequestHeader, request.ext_fields)
    return _offset(request, max(0, context.store.get_min_offset(header.topic, header.queue_id)))


def search_offset(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """SEARCH_OFFSET_BY_TIMESTAMP: first at or after the time (LOWER), last at or before (UPPER)."""
    header = decode_header_fields(SearchOffsetRequestHeader, request.ext_fields)
    boundary = "UPPER" if header.boundary_type == "UPPER" else "LOWER"
    offset = context.store.offset_by_time(header.topic, header.queue_id, header.timestamp, boundary)
    return _offset(request, offset)


def earliest_store_time(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_EARLIEST_MSG_STORETIME: store time of the first message, -1 when there is none."""
    header = decode_header_fields(QueueRequestHeader, request.ext_fields)
    time_ms = context.store.earliest_message_time(header.topic, header.queue_id)
    return response(request, ext={"timestamp": str(time_ms)})


def query_consumer_offset(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """QUERY_CONSUMER_OFFSET: the committed offset; 0 for a new group on a queue still whole.

    **Source:** RocketMQ ConsumerManageProcessor#queryConsumerOffset
    """
    header = decode_header_fields(QueryConsumerOffsetRequestHeader, request.ext_fields)
    offset = context.offsets.query(header.consumer_group, header.topic, header.queue_id)
    if offset >= 0:
        return _offset(request, offset)
    if header.set_zero_if_not_found is not False:
        # Looked at from message 0 on: an empty queue, or one whose start is gone or old, is "not
        # found", and the client decides by its consumeFromWhere.
        first = context.store.get_message(header.topic, header.queue_id, 0, 1)
        if first.message_count and not first.suggest_slave:
            return _offset(request, 0)
    remark = "Not found, maybe this group consumer boot first"
    return response(request, ResponseCode.QUERY_NOT_FOUND, remark)


def update_consumer_offset(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """UPDATE_CONSUMER_OFFSET: the last one wins; ignored while a reset waits to be taken up.

    A group that never sent a heartbeat and was never made is refused, not made: a typing error in
    a tool must not leave a group behind.

    **Source:** RocketMQ ConsumerManageProcessor#updateConsumerOffset
    """
    header = decode_header_fields(UpdateConsumerOffsetRequestHeader, request.ext_fields)
    if header.consumer_group not in context.groups:
        return no_group(request, header.consumer_group)
    if header.topic not in context.topics:
        return no_topic(request, header.topic)
    offsets = context.offsets
    if offsets.reset_pending(header.consumer_group, header.topic, header.queue_id):
        return response(request, remark="Offset has been previously reset, ignore this commit")
    offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
    return response(request)


def all_consumer_offsets(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_ALL_CONSUMER_OFFSET: the whole table, as slaves fetch it."""
    offsets = context.offsets
    body = {"dataVersion": offsets.data_version.to_wire(), "offsetTable": offsets.table}
    return response(request, body=java_json.dumps(body).encode())


HANDLERS = {
    RequestCode.GET_MAX_OFFSET: max_offset,
    RequestCode.GET_MIN_OFFSET: min_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: search_offset,
    RequestCode.GET_EARLIEST_MSG_STORETIME: earliest_store_time,
    RequestCode.QUERY_CONSUMER_OFFSET: query_consumer_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: update_consumer_offset,
    RequestCode.GET_ALL_CONSUMER_OFFSET: all_consumer_offsets,
}
