"""Requests forwarded to a consumer: running information (307), direct consumption (309).

**Source:** RocketMQ AdminBrokerProcessor#getConsumerRunningInfo, #consumeMessageDirectly,
#callConsumer.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from broker.errors import RemotingError, RequestTimeoutError
from broker.message.message_id import parse_offset_msg_id
from broker.remoting.protocol.codes import RequestCode, ResponseCode, version_name
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.command import request as make_request
from broker.remoting.protocol.header.client import (
    ConsumeMessageDirectlyRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.server.client.clients import ClientChannel
from broker.server.context import BrokerContext

if TYPE_CHECKING:
    from broker.remoting.server import Connection

Answer = RemotingCommand | Awaitable[RemotingCommand]

CLIENT_TIMEOUT_MS = 10_000
VERSION_WITH_RELAY = 62  # V3_1_8_SNAPSHOT


def running_info(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> Answer:
    """GET_CONSUMER_RUNNING_INFO: return the client's response unchanged."""
    header = decode_header_fields(GetConsumerRunningInfoRequestHeader, request.ext_fields)
    return _relay(
        context, request, header.consumer_group, header.client_id, dict(request.ext_fields)
    )


def consume_directly(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> Answer:
    """CONSUME_MESSAGE_DIRECTLY: read the record here and let the client consume it."""
    header = decode_header_fields(ConsumeMessageDirectlyRequestHeader, request.ext_fields)
    ext = {**request.ext_fields, "brokerName": context.config.broker_name}
    topic = context.topics.get(header.topic or "")
    if topic is not None:
        ext["topicSysFlag"] = str(topic.topic_sys_flag)
    group = context.groups.configs.get(header.consumer_group)
    if group is not None:
        ext["groupSysFlag"] = str(group.group_sys_flag)
    body = b""
    if header.msg_id:
        _, _, physical_offset = parse_offset_msg_id(header.msg_id)
        record = context.store.get_record_at(physical_offset)
        if record is None:
            remark = f"no message at offset {physical_offset}"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        body = bytes(record)
    return _relay(context, request, header.consumer_group, header.client_id or "", ext, body=body)


def _relay(
    context: BrokerContext,
    request: RemotingCommand,
    group: str,
    client_id: str,
    ext: dict[str, str],
    *,
    body: bytes = b"",
) -> Answer:
    online = context.consumers.get(group)
    channel = online.channel_of(client_id) if online is not None else None
    if channel is None:
        remark = f"The Consumer <{group}> <{client_id}> not online"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    if channel.version < VERSION_WITH_RELAY:
        remark = (
            f"The Consumer <{client_id}> Version <{version_name(channel.version)}> too low to "
            "finish, please upgrade it to V3_1_8_SNAPSHOT"
        )
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    return _ask(request, channel, ext, body)


async def _ask(
    request: RemotingCommand, channel: ClientChannel, ext: dict[str, str], body: bytes
) -> RemotingCommand:
    try:
        answer = await channel.connection.call(
            make_request(request.code, ext, body), CLIENT_TIMEOUT_MS
        )
    except RequestTimeoutError as error:
        remark = f"consumer <{channel.client_id}> timed out: {error.message}"
        return response(request, ResponseCode.CONSUME_MSG_TIMEOUT, remark)
    except RemotingError as error:
        remark = f"invoke consumer <{channel.client_id}> failed: {error.message}"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    return response(request, answer.code, answer.remark, answer.ext_fields, answer.body)


HANDLERS = {
    RequestCode.GET_CONSUMER_RUNNING_INFO: running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: consume_directly,
}
