"""SEND_REPLY_MESSAGE (324, 325): push a reply to the requester, then store it.

**Source:** RocketMQ ReplyMessageProcessor, Broker2Client#callClient.
"""

import random
import struct
from typing import TYPE_CHECKING, Final

from msgspec import structs

from broker.common.address import IPV6_HOST_SIZE, decode_host
from broker.errors import RemotingError, RocketMQError
from broker.message import message as props
from broker.message.message_id import offset_msg_id
from broker.message.properties import decode_properties, encode_properties
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.command import request as make_request
from broker.remoting.protocol.header.fields import decode_header_fields, encode_header_fields
from broker.remoting.protocol.header.send import (
    ReplyMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
)
from broker.server.context import BrokerContext
from broker.server.processor.responses import bad_field, bad_queue, not_written
from broker.server.processor.send.send_target import SHORT_NAMES, Target, check_topic
from broker.store.results import MessageExtBrokerInner, PutMessageResult, PutMessageStatus

if TYPE_CHECKING:
    from broker.remoting.server import Connection

PUSH_TIMEOUT_MS: Final = 10_000
"""Longest wait for the requester to confirm the reply, as in Java."""


async def send_reply(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """Push the reply and store it; SYSTEM_ERROR if the requester did not get it.

    A reply is stored even if it cannot be pushed; a failed put does not change the response.
    """
    if request.code == RequestCode.SEND_REPLY_MESSAGE:
        ext = request.ext_fields
        request.ext_fields = {SHORT_NAMES.get(name, name): value for name, value in ext.items()}
    answer = await _send_reply(context, connection, request)
    answer.ext_fields = {**_region(context), **answer.ext_fields}
    return answer


def _region(context: BrokerContext) -> dict[str, str]:
    """Return the properties that the broker adds to sent messages and to responses to sends."""
    return {
        props.PROPERTY_MSG_REGION: context.config.region_id,
        props.PROPERTY_TRACE_SWITCH: "true" if context.config.trace_on else "false",
    }


def _with_region(context: BrokerContext, properties: str) -> str:
    return encode_properties({**decode_properties(properties), **_region(context)}).decode()


async def _send_reply(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    header = decode_header_fields(SendMessageRequestHeaderV2, request.ext_fields)
    header = structs.replace(header, properties=_with_region(context, header.properties or ""))
    target = check_topic(context, request, header.topic)
    if isinstance(target, RemotingCommand):
        return target
    try:
        await context.topics.persist()
    except (RocketMQError, OSError) as error:
        return not_written(request, error)
    queue_id = header.queue_id
    if queue_id >= target.queue_limit:
        return bad_queue(request, queue_id, target.config)
    if queue_id < 0:
        queue_id = random.randrange(max(1, target.config.write_queue_nums))
    problem = await _push(context, connection, header, request.body_bytes())
    answer = response(request)
    if problem is None:
        answer.ext_fields = {"msgId": "0", "queueId": str(queue_id), "queueOffset": "0"}
    else:
        answer.code, answer.remark = ResponseCode.SYSTEM_ERROR, problem
    if context.config.store_reply_message_enable:
        try:
            result = await _store(context, connection, header, (queue_id, request.body_bytes()))
        except struct.error as error:  # a number in the header does not fit its field
            return bad_field(request, error)
        if result.status is PutMessageStatus.PUT_OK:
            _count(context, target, result)
            answer.ext_fields = {
                "msgId": offset_msg_id(context.store_host, result.physical_offset),
                "queueId": str(queue_id),
                "queueOffset": str(result.queue_offset),
            }
    return answer


async def _push(
    context: BrokerContext,
    connection: "Connection",
    header: SendMessageRequestHeader,
    body: bytes,
) -> str | None:
    """Push the reply to the requester; return why it was not delivered, None if it was."""
    properties = decode_properties(header.properties or "")
    client_id = properties.get(props.PROPERTY_MESSAGE_REPLY_TO_CLIENT)
    if client_id is None:
        return f"reply message properties[{props.PROPERTY_MESSAGE_REPLY_TO_CLIENT}] is null"
    requester = context.producers.find_connection(client_id)
    if requester is None:
        return f"push reply message fail, channel of <{client_id}> not found."
    now_ms = context.now_ms()
    properties[props.PROPERTY_PUSH_REPLY_TIME] = str(now_ms)
    pushed = ReplyMessageRequestHeader(
        producer_group=header.producer_group,
        topic=header.topic,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        flag=header.flag,
        properties=encode_properties(properties).decode("utf-8", "replace"),
        reconsume_times=header.reconsume_times,
        unit_mode=header.unit_mode,
        born_host=_host(connection.remote_host),
        store_host=_host(context.store_host),
        store_timestamp=now_ms,
    )
    push = make_request(
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, encode_header_fields(pushed), body
    )
    try:
        answer = await requester.call(push, PUSH_TIMEOUT_MS)
    except RemotingError:
        return f"push reply message to {client_id}fail."
    if answer.code != ResponseCode.SUCCESS:
        return f"push reply message to {client_id}fail."
    return None


async def _store(
    context: BrokerContext,
    connection: "Connection",
    header: SendMessageRequestHeader,
    place: tuple[int, bytes],
) -> PutMessageResult:
    """Store the reply (``place``: queue id and body); return once it is flushed and copied.

    Java stores the body of a compressed reply without the flag that marks it as compressed; the
    flags are kept here, so that a consumer of the reply topic can read it.
    """
    queue_id, body = place
    lacking = context.durability.refusal()
    if lacking is not None:
        return PutMessageResult(lacking)
    result = context.store.put_message(
        MessageExtBrokerInner(
            header.topic,
            queue_id,
            body,
            (header.properties or "").encode(),
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            born_host=connection.remote_host,
            store_host=context.store_host,
            reconsume_times=header.reconsume_times or 0,
        )
    )
    if result.status is PutMessageStatus.PUT_OK:
        await context.durability.stored(result.physical_end)
    return result


def _host(raw: bytes) -> str:
    return decode_host(raw, ipv6=len(raw) == IPV6_HOST_SIZE)


def _count(context: BrokerContext, target: Target, result: PutMessageResult) -> None:
    target.put_nums.add(1)
    target.put_size.add(result.store_size)
    context.stats.put.add(1)


HANDLERS = {
    RequestCode.SEND_REPLY_MESSAGE: send_reply,
    RequestCode.SEND_REPLY_MESSAGE_V2: send_reply,
}
