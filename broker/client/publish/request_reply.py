"""Request-reply: a message whose consumer answers to its producer.

The broker pushes the reply to the client that is named in the request; it is matched by its
correlation id.

**Source:** RocketMQ ``DefaultMQProducerImpl#request``, ``RequestFutureHolder``, ``MessageUtil``,
``ClientRemotingProcessor#receiveReplyMessage``.
"""

import asyncio
import logging
import uuid
from weakref import WeakKeyDictionary

from broker.client.instance.client_instance import MQClientInstance
from broker.common.address import encode_address
from broker.common.topic import reply_topic
from broker.errors import ClientError, LocalProtocolError, RequestTimeoutError
from broker.message.message import (
    PROPERTY_CLUSTER,
    PROPERTY_CORRELATION_ID,
    PROPERTY_MESSAGE_REPLY_TO_CLIENT,
    PROPERTY_MESSAGE_TTL,
    PROPERTY_MESSAGE_TYPE,
    Message,
    MessageExt,
)
from broker.message.properties import decode_properties
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.remoting.protocol.header.send import ReplyMessageRequestHeader
from broker.remoting.rpc.message_encoder import REPLY_TYPE

log = logging.getLogger("broker.client")


class ReplyFutures:
    """The requests of one client instance that wait for their reply, by correlation id."""

    def __init__(self, instance: MQClientInstance) -> None:
        self._client_id = instance.client_id
        self.waiting: dict[str, asyncio.Future[MessageExt]] = {}
        instance.add_handler(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, self.receive)

    def open(self, message: Message, timeout_ms: int) -> str:
        """Mark a message as a request of this client; returns its correlation id."""
        correlation_id = str(uuid.uuid4())
        message.properties[PROPERTY_CORRELATION_ID] = correlation_id
        message.properties[PROPERTY_MESSAGE_REPLY_TO_CLIENT] = self._client_id
        message.properties[PROPERTY_MESSAGE_TTL] = str(timeout_ms)
        loop = asyncio.get_running_loop()
        self.waiting[correlation_id] = loop.create_future()
        return correlation_id

    async def wait(self, correlation_id: str, timeout_ms: float) -> MessageExt:
        """Wait for the reply; RequestTimeoutError (Java's code 10006) if none comes in time."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self.waiting[correlation_id]
        except TimeoutError:
            raise RequestTimeoutError(
                f"no reply to request {correlation_id} in time",
                "is a consumer of the topic running, and does it reply?",
            ) from None

    def close(self, correlation_id: str) -> None:
        """Forget a request; a reply that comes later is logged."""
        self.waiting.pop(correlation_id, None)

    async def receive(self, address: str, command: RemotingCommand) -> RemotingCommand:
        """Match a reply that a broker pushes."""
        header = decode_header_fields(ReplyMessageRequestHeader, command.ext_fields)
        reply = MessageExt(
            header.topic,
            command.body_bytes(),
            queue_id=header.queue_id,
            flag=header.flag,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            born_host_raw=_host(header.born_host),
            store_timestamp=header.store_timestamp,
            store_host_raw=_host(header.store_host),
            reconsume_times=header.reconsume_times or 0,
        )
        reply.properties = decode_properties(header.properties or "")
        reply.body = reply.payload()
        future = self.waiting.get(reply.properties.get(PROPERTY_CORRELATION_ID, ""))
        if future is None or future.done():
            log.info("%s: a reply that no request waits for", address)
        else:
            future.set_result(reply)
        return response(command)


_of_instance: WeakKeyDictionary[MQClientInstance, ReplyFutures] = WeakKeyDictionary()


def replies_of(instance: MQClientInstance) -> ReplyFutures:
    """Return the waiting requests of an instance, which all its producers share."""
    found = _of_instance.get(instance)
    if found is None:
        found = _of_instance[instance] = ReplyFutures(instance)
    return found


def _host(text: str) -> bytes:
    try:
        return encode_address(text)
    except LocalProtocolError:
        return b"\0" * 8


def reply_to(request: MessageExt, body: bytes) -> Message:
    """Create the reply to a request; send it with any producer.

    Raises ClientError if the message is not a request.

    **Source:** RocketMQ ``MessageUtil#createReplyMessage``.
    """
    properties = request.properties
    cluster = properties.get(PROPERTY_CLUSTER)
    correlation_id = properties.get(PROPERTY_CORRELATION_ID)
    client_id = properties.get(PROPERTY_MESSAGE_REPLY_TO_CLIENT)
    if not cluster or not correlation_id or not client_id:
        raise ClientError(
            "the message is not a request: it has no cluster, correlation id or client",
            "only messages sent with request() can be answered",
        )
    return Message(
        reply_topic(cluster),
        body,
        properties={
            PROPERTY_MESSAGE_TYPE: REPLY_TYPE,
            PROPERTY_CORRELATION_ID: correlation_id,
            PROPERTY_MESSAGE_REPLY_TO_CLIENT: client_id,
            PROPERTY_MESSAGE_TTL: properties.get(PROPERTY_MESSAGE_TTL, "0"),
        },
    )
