"""QUERY_CONSUME_QUEUE (321): the units of one queue.

**Source:** RocketMQ AdminBrokerProcessor#queryConsumeQueue.
"""

from typing import TYPE_CHECKING

from msgspec import json

from broker.message.record import peek_properties
from broker.remoting.protocol.body.consumer.consume import (
    ConsumeQueueData,
    QueryConsumeQueueResponseBody,
)
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.remoting.protocol.header.query import QueryConsumeQueueRequestHeader
from broker.server.context import BrokerContext
from broker.server.filter.message_filter import EVERYTHING, Matcher, compile_filter
from broker.store.format.consumequeue import is_ext_address
from broker.store.results import ConsumeQueueUnitView

if TYPE_CHECKING:
    from broker.remoting.server import Connection

MAX_UNITS = 10_000  # per response
MAX_RECORDS = 1_000  # per response, if a filter reads the properties of each message


def query_consume_queue(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """QUERY_CONSUME_QUEUE: units from an index on, and whether a group's filter accepts them."""
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
    subscription = filter_data = None
    matcher = EVERYTHING
    if header.consumer_group:
        subscription = context.consumers.subscription(header.consumer_group, header.topic)
        filter_data = f"{header.consumer_group}@{header.topic} is not online!"
        if subscription is not None:
            matcher = compile_filter(subscription)
            filter_data = _filter_data(context, header.topic, header.consumer_group)
    limit = MAX_UNITS if matcher.properties is None else MAX_RECORDS
    units = store.consume_queue_units(
        header.topic, header.queue_id, header.index, max(0, min(header.count, limit))
    )
    data = [
        ConsumeQueueData(
            physic_offset=unit.physical_offset,
            physic_size=unit.size,
            tags_code=unit.tags_code,
            eval=subscription is not None and _accepts(context, matcher, unit),
            msg=_lost_extension(unit.tags_code),
        )
        for unit in units
    ]
    body = QueryConsumeQueueResponseBody(
        subscription_data=subscription,
        filter_data=filter_data,
        queue_data=data,
        max_queue_index=high,
        min_queue_index=low,
    )
    return response(request, body=body.to_bytes())


def _filter_data(context: BrokerContext, topic: str, group: str) -> str:
    """Return the group's entry of consumerFilter.json as JSON; ``null`` without an SQL92 filter."""
    data = context.filters.get(topic, group)
    return json.format(json.encode(data.to_wire() if data is not None else None)).decode()


def _lost_extension(tags_code: int) -> str | None:
    """Return Java's text for a unit whose extension unit cannot be read, None for others."""
    return f"Cq extend not exist!addr: {tags_code}" if is_ext_address(tags_code) else None


def _accepts(context: BrokerContext, matcher: Matcher, unit: ConsumeQueueUnitView) -> bool:
    """Return whether a pull with this filter would return the message of a unit."""
    if matcher.tags is not None and not matcher.tags(unit.tags_code):
        return False
    if matcher.properties is None:
        return True
    record = context.store.get_record_at(unit.physical_offset, unit.size)
    return record is not None and matcher.properties(peek_properties(record))


HANDLERS = {RequestCode.QUERY_CONSUME_QUEUE: query_consume_queue}
