"""QUERY_CONSUME_QUEUE (321): the units of one queue.

**Source:** RocketMQ AdminBrokerProcessor#queryConsumeQueue.
"""

from typing import TYPE_CHECKING

from broker.remoting.protocol.body.consume import ConsumeQueueData, QueryConsumeQueueResponseBody
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.remoting.protocol.header.query import QueryConsumeQueueRequestHeader
from broker.server.context import BrokerContext
from broker.server.filters import compile_filter

if TYPE_CHECKING:
    from broker.remoting.server import Connection

MAX_UNITS = 10_000  # of one answer


def query_consume_queue(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """QUERY_CONSUME_QUEUE: units from an index on, and whether a group's filter takes them."""
    header = decode_header_fields(QueryConsumeQueueRequestHeader, request.ext_fields)
    store = context.store
    if header.queue_id not in store.queues().get(header.topic, ()):
        remark = f"{header.queue_id}@{header.topic} is not exist!"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    low = store.get_min_offset(header.topic, header.queue_id)
    high = store.get_max_offset(header.topic, header.queue_id)
    if not low <= header.index < high:
        remark = f"Index {header.index} of {header.queue_id}@{header.topic} is not exist!"
        return response(request, remark=remark)
    subscription = None
    accepts = None
    if header.consumer_group:
        subscription = context.consumers.subscription(header.consumer_group, header.topic)
        if subscription is not None:
            accepts = compile_filter(subscription).tags
    units = store.consume_queue_units(
        header.topic, header.queue_id, header.index, max(0, min(header.count, MAX_UNITS))
    )
    data = [
        ConsumeQueueData(
            physic_offset=unit.physical_offset,
            physic_size=unit.size,
            tags_code=unit.tags_code,
            eval=subscription is not None and (accepts is None or accepts(unit.tags_code)),
        )
        for unit in units
    ]
    body = QueryConsumeQueueResponseBody(
        subscription_data=subscription,
        queue_data=data,
        max_queue_index=high,
        min_queue_index=low,
    )
    return response(request, body=body.to_bytes())


HANDLERS = {RequestCode.QUERY_CONSUME_QUEUE: query_consume_queue}
