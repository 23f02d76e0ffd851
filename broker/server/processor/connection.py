"""Online clients: consumer connections (203), producer connections (204), all producers (328).

**Source:** RocketMQ AdminBrokerProcessor#getConsumerConnectionList,
#getProducerConnectionList, #getAllProducerInfo.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from broker.remoting.protocol.body.consumer import connection as bodies
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.client import (
    ConsumerGroupRequestHeader,
    ProducerGroupRequestHeader,
)
from broker.remoting.protocol.header.fields import decode_header_fields
from broker.server.client.clients import ClientChannel
from broker.server.context import BrokerContext
from broker.server.processor.responses import with_body

if TYPE_CHECKING:
    from broker.remoting.server import Connection


def _shown(channel: ClientChannel) -> bodies.Connection:
    return bodies.Connection(
        client_id=channel.client_id,
        client_addr=channel.connection.remote_address,
        language=channel.language,
        version=channel.version,
    )


def consumer_connections(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_CONSUMER_CONNECTION_LIST: members and subscriptions of a group."""
    group = decode_header_fields(ConsumerGroupRequestHeader, request.ext_fields).consumer_group
    online = context.consumers.get(group)
    if online is None:
        remark = f"the consumer group[{group}] not online"
        return response(request, ResponseCode.CONSUMER_NOT_ONLINE, remark)
    body = bodies.ConsumerConnection(
        connection_set=[_shown(channel) for channel in online.channels.values()],
        subscription_table=dict(online.subscriptions),
        consume_type=online.profile.consume_type,
        message_model=online.profile.message_model,
        consume_from_where=online.profile.consume_from_where,
    )
    return response(request, body=body.to_bytes())


def producer_connections(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_PRODUCER_CONNECTION_LIST: members of a producer group."""
    group = decode_header_fields(ProducerGroupRequestHeader, request.ext_fields).producer_group
    members = context.producers.get(group)
    if not members:
        remark = f"the producer group[{group}] not exist"
        return response(request, ResponseCode.SYSTEM_ERROR, remark)
    body = bodies.ProducerConnection(connection_set=[_shown(channel) for channel in members])
    return response(request, body=body.to_bytes())


def all_producers(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> Awaitable[RemotingCommand]:
    """GET_ALL_PRODUCER_INFO: every producer group with its members."""
    producers = context.producers
    data = {
        group: [
            bodies.ProducerInfo(
                client_id=channel.client_id,
                remote_ip=f"/{channel.connection.remote_address}",
                language=channel.language,
                version=channel.version,
                last_update_timestamp=channel.last_update_ms,
            )
            for channel in producers.get(group)
        ]
        for group in producers.groups()
    }
    members = sum(map(len, data.values()))
    return with_body(request, bodies.ProducerTableInfo(data=data), members)


HANDLERS = {
    RequestCode.GET_CONSUMER_CONNECTION_LIST: consumer_connections,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: producer_connections,
    RequestCode.GET_ALL_PRODUCER_INFO: all_producers,
}
