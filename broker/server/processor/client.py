"""Clients come and go: heartbeat (34), unregister (35), configuration check (46), members (38).

**Source:** RocketMQ ClientManageProcessor, ConsumerManageProcessor#getConsumerListByGroup.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final

from broker.common import sysflag
from broker.common.subscription import is_tag_type
from broker.common.topic import retry_topic
from broker.errors import RocketMQError
from broker.remoting.protocol.body.connection import GetConsumerListByGroupResponseBody
from broker.remoting.protocol.body.heartbeat import (
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
from broker.server.clients import ClientChannel, ConsumerProfile
from broker.server.context import BrokerContext
from broker.server.filters import compile_filter
from broker.server.notices import notify_members

if TYPE_CHECKING:
    from broker.remoting.server import Connection

MAX_GROUPS_OF_CLIENT: Final = 10_000  # of one heartbeat; each is remembered


def heartbeat(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand | Awaitable[RemotingCommand]:
    """HEART_BEAT: remember the client's groups; a new group's retry topic is announced first.

    Members are told, and the client is answered, after that announcement (a bounded time): a
    client that rebalances before its retry topic has a route tries again only 20 s later.
    """
    data = HeartbeatData.from_bytes(request.body_bytes())
    groups = len(data.consumer_data_set) + len(data.producer_data_set)
    if groups > MAX_GROUPS_OF_CLIENT:
        remark = f"a heartbeat with {groups} groups is above the limit of {MAX_GROUPS_OF_CLIENT}"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    made = []
    for entry in data.consumer_data_set:
        config = context.groups.find(entry.group_name)
        if config is None:
            continue  # Java skips it silently too: the pull will say what is wrong
        flag = sysflag.TOPIC_UNIT_SUB if entry.unit_mode else 0
        if context.ensure_retry_topic(entry.group_name, config.retry_queue_nums, flag):
            made.append(retry_topic(entry.group_name))
    if made:
        return _remember_after_announcing(context, connection, request, data, made)
    return _remember(context, connection, request, data)


async def _remember_after_announcing(
    context: BrokerContext,
    connection: "Connection",
    request: RemotingCommand,
    data: HeartbeatData,
    topics: list[str],
) -> RemotingCommand:
    await context.announce(topics)
    if connection.closed:
        return response(request)
    return _remember(context, connection, request, data)


def _remember(
    context: BrokerContext,
    connection: "Connection",
    request: RemotingCommand,
    data: HeartbeatData,
) -> RemotingCommand:
    changed = False
    for entry in data.consumer_data_set:
        if context.groups.find(entry.group_name) is None:
            continue
        channel = _channel(context, connection, request, data.client_id)
        if _register(context, channel, entry, data.without_sub):
            changed = True
            notify_members(context, entry.group_name)
    for producer in data.producer_data_set:
        context.producers.register(
            producer.group_name, _channel(context, connection, request, data.client_id)
        )
    first = data.heartbeat_fingerprint == 0
    return response(
        request,
        ext={
            "IS_SUPPORT_HEART_BEAT_V2": "true",
            "IS_SUB_CHANGE": "true" if changed or first else "false",
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
        # The broker was restarted: "changed" asks the client for the whole heartbeat.
        return True
    profile = ConsumerProfile(
        entry.consume_type or "CONSUME_PASSIVELY",
        entry.message_model or "CLUSTERING",
        entry.consume_from_where or "CONSUME_FROM_LAST_OFFSET",
    )
    subscriptions = None if without_sub else entry.subscription_data_set
    return context.consumers.register(entry.group_name, channel, profile, subscriptions)


def unregister(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """UNREGISTER_CLIENT: forget this connection's membership; always SUCCESS."""
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
    """CHECK_CLIENT_CONFIG: does this SQL92 subscription compile, and is the filter switched on?"""
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
    """GET_CONSUMER_LIST_BY_GROUP: the client ids clients share queues among."""
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
