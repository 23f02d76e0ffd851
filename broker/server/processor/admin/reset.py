"""Offset reset (222), consumer status (223) and offset cloning (314).

Reset on the broker (default): the committed offset is set immediately and the next pull of the
queue is moved to it, whether the group is online or not. Queue ids and offsets of static topics are
those of this broker, as in Java. Reset by the clients (``useServerSideResetOffset=false``, as in
4.9): online members are notified, and the table changes when they commit.

**Source:** RocketMQ AdminBrokerProcessor#resetOffset, Broker2Client#resetOffset,
#getConsumeStatus, AdminBrokerProcessor#cloneGroupOffset.
"""

import asyncio
from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING

from broker.common.message_queue import MessageQueue
from broker.errors import RocketMQError
from broker.remoting.protocol.body.consumer.offset import (
    GetConsumerStatusBody,
    MessageQueueForC,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.command import request as make_request
from broker.remoting.protocol.header.consumer.offset import (
    CloneGroupOffsetRequestHeader,
    GetConsumerStatusRequestHeader,
    ResetOffsetRequestHeader,
)
from broker.remoting.protocol.header.fields import decode_header_fields, encode_header_fields
from broker.server.client.clients import ConsumerGroup
from broker.server.context import BrokerContext
from broker.server.processor.responses import no_group, no_topic, with_body
from broker.server.slices import collect_in_slices

if TYPE_CHECKING:
    from broker.remoting.server import Connection

Answer = RemotingCommand | Awaitable[RemotingCommand]

ASK_CLIENT_MS = 5_000
QUEUES_PER_SLICE = 64  # a search by time reads about 20 store times per queue
VERSION_WITH_RESET = 28  # V3_0_7: clients from this version on support the reset


async def reset_offset(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """INVOKE_BROKER_TO_RESET_OFFSET: reset one queue or all read queues, to an offset or a time.

    The offsets of many queues are searched in slices, then set in slices.
    """
    header = decode_header_fields(ResetOffsetRequestHeader, request.ext_fields)
    if context.config.is_slave:
        remark = f"the broker[{context.address}] is a slave: ask its master to reset offsets"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    if not context.config.use_server_side_reset_offset:
        return await _reset_by_clients(context, request, header)
    config = context.topics.get(header.topic)
    if config is None:
        return no_topic(request, header.topic)
    if header.queue_id >= config.read_queue_nums and not context.store.get_max_offset(
        header.topic, header.queue_id
    ):
        remark = f"queueId {header.queue_id}: the topic has {config.read_queue_nums} read queues"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    if header.group not in context.groups:
        return no_group(request, header.group)
    targets: dict[int, int] = {}
    if header.queue_id >= 0 and header.offset is not None and header.offset != -1:
        low = context.store.get_min_offset(header.topic, header.queue_id)
        high = context.store.get_max_offset(header.topic, header.queue_id)
        if not low <= header.offset <= high + 1:
            remark = f"Target offset {header.offset} not in consume queue range [{low}-{high}]"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        targets[header.queue_id] = header.offset
    elif header.queue_id >= 0:
        targets[header.queue_id] = _offset_at(context, header, header.queue_id)
    else:
        found = _offsets_at(context, header, config.read_queue_nums)
        targets = dict(await collect_in_slices(found, QUEUES_PER_SLICE))
    await collect_in_slices(_set_offsets(context, header, targets), QUEUES_PER_SLICE)
    return await with_body(request, _table(context, header.topic, targets), len(targets))


def _set_offsets(
    context: BrokerContext, header: ResetOffsetRequestHeader, targets: dict[int, int]
) -> Iterator[None]:
    """Reset one queue per step."""
    for queue_id, offset in targets.items():
        context.offsets.reset(header.group, header.topic, queue_id, offset)
        _wake_pulls(context, header.topic, queue_id)
        yield


def _offsets_at(
    context: BrokerContext, header: ResetOffsetRequestHeader, queues: int
) -> Iterator[tuple[int, int]]:
    for queue_id in range(queues):
        yield queue_id, _offset_at(context, header, queue_id)


def _offset_at(context: BrokerContext, header: ResetOffsetRequestHeader, queue_id: int) -> int:
    store = context.store
    if header.timestamp < 0:
        return store.get_max_offset(header.topic, queue_id)
    return store.offset_by_time(header.topic, queue_id, header.timestamp, "LOWER")


def _wake_pulls(context: BrokerContext, topic: str, queue_id: int) -> None:
    """Execute the suspended pulls of a queue again: the reset applies to the next pull.

    Java leaves them suspended until a message arrives or their deadline is reached.
    """
    if context.on_wake is None or topic not in context.holds.topics:
        return
    # The largest offset, without a tags code, wakes every pull of the queue.
    woken = context.holds.arrived(topic, queue_id, 2**63 - 1)
    if woken:
        context.on_wake(woken)


def _table(context: BrokerContext, topic: str, targets: dict[int, int]) -> ResetOffsetBody:
    name = context.config.broker_name
    return ResetOffsetBody(
        offset_table={
            MessageQueue(topic, name, queue_id): offset for queue_id, offset in targets.items()
        }
    )


async def _reset_by_clients(
    context: BrokerContext, request: RemotingCommand, header: ResetOffsetRequestHeader
) -> RemotingCommand:
    config = context.topics.get(header.topic)
    if config is None:
        remark = (
            f"[reset-offset] reset offset failed, no topic in this broker. topic={header.topic}"
        )
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    found = _forced_or_earlier(context, header, config.write_queue_nums)
    targets = dict(await collect_in_slices(found, QUEUES_PER_SLICE))
    if len(targets) < config.write_queue_nums:
        remark = f"THe consumer group <{header.group}> not exist"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    online = context.consumers.get(header.group)
    if online is None:
        remark = (
            f"Consumer not online, so can not reset offset, Group: {header.group} "
            f"Topic: {header.topic} Timestamp: {header.timestamp}"
        )
        return response(request, ResponseCode.CONSUMER_NOT_ONLINE, remark)
    table = _table(context, header.topic, targets)
    refusal = _too_old(request, online)
    if refusal is not None:
        return refusal
    body = answer = (await with_body(request, table, len(targets))).body_bytes()
    if request.language == "CPP":
        listed = _list_form(table)
        body = (await with_body(request, listed, len(targets))).body_bytes()
    for channel in online.channels.values():
        ext = encode_header_fields(header)
        channel.connection.oneway(make_request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext, body))
    return response(request, body=answer)


def _forced_or_earlier(
    context: BrokerContext, header: ResetOffsetRequestHeader, queues: int
) -> Iterator[tuple[int, int]]:
    """Yield (queue, new offset); end at a queue without a committed offset."""
    for queue_id in range(queues):
        current = context.offsets.query(header.group, header.topic, queue_id)
        if current < 0:
            return
        wanted = _offset_at(context, header, queue_id)
        yield queue_id, wanted if header.is_force or wanted < current else current


def _list_form(table: ResetOffsetBody) -> ResetOffsetBodyForC:
    return ResetOffsetBodyForC(
        offset_table=[
            MessageQueueForC(
                topic=queue.topic,
                broker_name=queue.broker_name,
                queue_id=queue.queue_id,
                offset=offset,
            )
            for queue, offset in table.offset_table.items()
        ]
    )


def _too_old(request: RemotingCommand, online: ConsumerGroup) -> RemotingCommand | None:
    for channel in online.channels.values():
        if channel.version < VERSION_WITH_RESET:
            remark = "the client does not support this feature. version=" + str(channel.version)
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
    return None


def consumer_status(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> Answer:
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS: collect the members' current offsets."""
    header = decode_header_fields(GetConsumerStatusRequestHeader, request.ext_fields)
    online = context.consumers.get(header.group)
    if online is None:
        remark = f"No Any Consumer online in the consumer group: [{header.group}]"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    refusal = _too_old(request, online)
    if refusal is not None:
        return refusal
    return _ask_members(request, header, online)


async def _ask_members(
    request: RemotingCommand, header: GetConsumerStatusRequestHeader, online: ConsumerGroup
) -> RemotingCommand:
    wanted = {
        channel.client_id: channel.connection
        for channel in online.channels.values()
        if not header.client_addr or header.client_addr == channel.client_id
    }
    ext = {"topic": header.topic, "group": header.group}
    answers = await asyncio.gather(
        *(
            peer.call(
                make_request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, dict(ext)),
                ASK_CLIENT_MS,
            )
            for peer in wanted.values()
        ),
        return_exceptions=True,
    )
    table = {}
    for client_id, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, RemotingCommand) and answer.code == 0:
            try:
                found = GetConsumerStatusBody.from_bytes(answer.body_bytes())
            except RocketMQError:
                continue
            table[client_id] = found.message_queue_table
    body = GetConsumerStatusBody(consumer_table=table)
    return response(request, body=body.to_bytes())


def clone_offsets(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """CLONE_GROUP_OFFSET: one topic, or every topic of the source group if none is given."""
    header = decode_header_fields(CloneGroupOffsetRequestHeader, request.ext_fields)
    topics = [header.topic] if header.topic else context.offsets.topics_of(header.src_group)
    for topic in topics:
        if topic in context.topics:
            context.offsets.clone(header.src_group, header.dest_group, topic)
    return response(request)


HANDLERS = {
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: reset_offset,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: consumer_status,
    RequestCode.CLONE_GROUP_OFFSET: clone_offsets,
}
