"""Client registration: heartbeat (34), unregister (35), configuration check (46), members (38).

**Source:** RocketMQ ClientManageProcessor, ConsumerManageProcessor#getConsumerListByGroup.
"""

from collections.abc import Awaitable, Iterator
from typing import TYPE_CHECKING, Final

from broker.common import sysflag
from broker.common.subscription import is_tag_type
from broker.common.topic import retry_topic
from broker.errors import RocketMQError
from broker.remoting.protocol.body.consumer.connection import GetConsumerListByGroupResponseBody
from broker.remoting.protocol.body.consumer.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
)
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.client import (
    ConsumerGroupRequestHeader,
    UnregisterClientRequestHeader,
)
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.server.client.clients import ClientChannel, ConsumerProfile
from broker.server.client.notifications import notify_members
from broker.server.context import BrokerContext
from broker.server.filter.message_filter import compile_filter
from broker.server.slices import DECODED_AT_ONCE_BYTES, collect_in_slices, decode_body

if TYPE_CHECKING:
    from broker.remoting.server import Connection

MAX_GROUPS_OF_CLIENT: Final = 10_000
"""Limit on the groups of one connection over all its heartbeats: each takes memory, and when the
connection closes the other members of each group are notified."""

GROUPS_PER_SLICE: Final = 200
"""Groups of a heartbeat registered per slice; a new group costs about 50 µs."""


def heartbeat(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand | Awaitable[RemotingCommand]:
    """HEART_BEAT: register the client's groups; announce the retry topics of new groups first.

    Members are notified, and the client gets its response, after that announcement (bounded wait):
    a client that rebalances before its retry topic has a route retries only 20 s later.
    """
    if connection.closed:  # one-way, served after the close: nothing would remove the client
        return response(request)
    body = request.body_bytes()
    if len(body) > DECODED_AT_ONCE_BYTES:
        return _large_heartbeat(context, connection, request, body)
    return _heartbeat(context, connection, request, HeartbeatData.from_bytes(body))


async def _large_heartbeat(
    context: BrokerContext, connection: "Connection", request: RemotingCommand, body: bytes
) -> RemotingCommand:
    """Decode a long heartbeat in a thread, then register it."""
    data = await decode_body(HeartbeatData.from_bytes, body)
    answer = _heartbeat(context, connection, request, data)
    return answer if isinstance(answer, RemotingCommand) else await answer


def _heartbeat(
    context: BrokerContext, connection: "Connection", request: RemotingCommand, data: HeartbeatData
) -> RemotingCommand | Awaitable[RemotingCommand]:
    groups = _groups_after(context, connection, data)
    if groups > MAX_GROUPS_OF_CLIENT:
        remark = f"a client with {groups} groups is above the limit of {MAX_GROUPS_OF_CLIENT}"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    if groups > GROUPS_PER_SLICE:
        return _heartbeat_in_slices(context, connection, request, data)
    made = list(_make_retry_topics(context, data))
    if made:
        return _remember_after_announcing(context, connection, request, data, made)
    return _answer(request, data, list(_remember(context, connection, request, data)))


def _groups_after(context: BrokerContext, connection: "Connection", data: HeartbeatData) -> int:
    """Return the number of groups of a connection after its heartbeat is registered."""
    consumers = {entry.group_name for entry in data.consumer_data_set}
    producers = {entry.group_name for entry in data.producer_data_set}
    consumers.update(context.consumers.groups_of_connection(connection))
    producers.update(context.producers.groups_of_connection(connection))
    return len(consumers) + len(producers)


async def _heartbeat_in_slices(
    context: BrokerContext, connection: "Connection", request: RemotingCommand, data: HeartbeatData
) -> RemotingCommand:
    """Register a client with many groups; other requests are served between the slices."""
    made = await collect_in_slices(_make_retry_topics(context, data), GROUPS_PER_SLICE)
    if made:
        await context.announce(made)
    remembering = _remember(context, connection, request, data)
    return _answer(request, data, await collect_in_slices(remembering, GROUPS_PER_SLICE))


async def _remember_after_announcing(
    context: BrokerContext,
    connection: "Connection",
    request: RemotingCommand,
    data: HeartbeatData,
    topics: list[str],
) -> RemotingCommand:
    await context.announce(topics)
    return _answer(request, data, list(_remember(context, connection, request, data)))


def _make_retry_topics(context: BrokerContext, data: HeartbeatData) -> Iterator[str]:
    """Create unknown groups and their retry topics; yield the names of the created retry topics."""
    for entry in data.consumer_data_set:
        config = context.groups.find(entry.group_name)
        if config is None:
            continue  # Java skips it silently too: the pull reports the error
        flag = sysflag.TOPIC_UNIT_SUB if entry.unit_mode else 0
        if context.ensure_retry_topic(entry.group_name, config.retry_queue_nums, flag):
            yield retry_topic(entry.group_name)


def _remember(
    context: BrokerContext,
    connection: "Connection",
    request: RemotingCommand,
    data: HeartbeatData,
) -> Iterator[bool]:
    """Register the client in its groups and notify the other members.

    Yield for each whether it changed, or the last heartbeat of the group had another fingerprint.

    Stop when the connection has closed: registrations made after that would never be removed.
    """
    for entry in data.consumer_data_set:
        if connection.closed:
            return
        if context.groups.find(entry.group_name) is None:
            continue
        channel = _channel(context, connection, request, data.client_id)
        changed = _register(context, channel, entry, data.without_sub)
        if changed:
            notify_members(context, entry.group_name)
        # Another member may have replaced this client's subscriptions by its own since.
        yield (
            context.consumers.note_fingerprint(entry.group_name, data.heartbeat_fingerprint)
            or changed
        )
    for producer in data.producer_data_set:
        if connection.closed:
            return
        context.producers.register(
            producer.group_name, _channel(context, connection, request, data.client_id)
        )
        yield False


def _answer(request: RemotingCommand, data: HeartbeatData, changes: list[bool]) -> RemotingCommand:
    first = data.heartbeat_fingerprint == 0
    return response(
        request,
        ext={
            "IS_SUPPORT_HEART_BEAT_V2": "true",
            "IS_SUB_CHANGE": "true" if first or any(changes) else "false",
        },
    )


def _channel(
    context: BrokerContext, connection: "Connection", request: RemotingCommand, client_id: str
) -> ClientChannel:
    language = request.language if isinstance(request.language, str) else "OTHER"
    return ClientChannel(connection, client_id, language, request.version, context.now_ms())


def _register(
    context: BrokerContext, channel: ClientChannel, entry: ConsumerData, without_sub: bool
) -> bool:
    known = context.consumers.get(entry.group_name)
    if without_sub and known is None:
        # The broker was restarted: "changed" makes the client send its full heartbeat.
        return True
    profile = ConsumerProfile(
        entry.consume_type or "CONSUME_PASSIVELY",
        entry.message_model or "CLUSTERING",
        entry.consume_from_where or "CONSUME_FROM_LAST_OFFSET",
    )
    subscriptions = None if without_sub else entry.subscription_data_set
    if subscriptions is not None:
        context.filters.register(entry.group_name, subscriptions)
    return context.consumers.register(entry.group_name, channel, profile, subscriptions)


def unregister(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """UNREGISTER_CLIENT: remove this connection from its groups; always SUCCESS."""
    header = decode_header_fields(UnregisterClientRequestHeader, request.ext_fields)
    if header.producer_group:
        context.producers.unregister(header.producer_group, connection)
    group = header.consumer_group
    if group and context.consumers.unregister(group, connection):
        notify_members(context, group)
    return response(request)


def check_client_config(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """CHECK_CLIENT_CONFIG: check that SQL92 filters are enabled and this subscription compiles."""
    data = CheckClientRequestBody.from_bytes(request.body_bytes()).subscription_data
    if data is None or is_tag_type(data.expression_type):
        return response(request)
    if not context.config.enable_property_filter:
        remark = f"The broker does not support consumer to filter message by {data.expression_type}"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    try:
        compile_filter(data)
    except RocketMQError as error:
        return response(request, ResponseCode.SUBSCRIPTION_PARSE_FAILED, error.message)
    return response(request)


def consumer_list(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_CONSUMER_LIST_BY_GROUP: the client ids that a rebalance distributes the queues to."""
    group = decode_header_fields(ConsumerGroupRequestHeader, request.ext_fields).consumer_group
    online = context.consumers.get(group)
    if online is None:
        return response(request, ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {group}")
    body = GetConsumerListByGroupResponseBody(consumer_id_list=online.client_ids())
    return response(request, body=body.to_bytes())


HANDLERS = {
    RequestCode.HEART_BEAT: heartbeat,
    RequestCode.UNREGISTER_CLIENT: unregister,
    RequestCode.CHECK_CLIENT_CONFIG: check_client_config,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: consumer_list,
}
