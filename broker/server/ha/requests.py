"""NOTIFY_MIN_BROKER_ID_CHANGE (905) and EXCHANGE_BROKER_HA_INFO (906).

**Source:** RocketMQ AdminBrokerProcessor#notifyMinBrokerIdChange, #updateBrokerHaInfo.
"""

from typing import TYPE_CHECKING

from broker.common.address import parse_address
from broker.errors import LocalProtocolError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.remoting.protocol.header.broker import (
    ExchangeHAInfoHeader,
    NotifyMinBrokerIdChangeRequestHeader,
)
from broker.remoting.protocol.header.fields import decode_header_fields, encode_header_fields
from broker.server.context import BrokerContext

if TYPE_CHECKING:
    from broker.remoting.server import Connection


def notify_min_broker_id(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """NOTIFY_MIN_BROKER_ID_CHANGE: a member of the group came or went."""
    header = decode_header_fields(NotifyMinBrokerIdChangeRequestHeader, request.ext_fields)
    if context.replication is not None:
        context.replication.member_changed(header)
    return response(request)


def exchange_ha_info(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """EXCHANGE_BROKER_HA_INFO: a slave adopts its master's addresses, a master returns them."""
    header = decode_header_fields(ExchangeHAInfoHeader, request.ext_fields)
    replication = context.replication
    if replication is None:
        return response(request)
    if header.master_ha_address is None:
        if context.config.is_slave:
            return response(request)
        if header.replica_connection and header.replica_address:
            replication.name_replica(header.replica_connection, header.replica_address)
        ours = ExchangeHAInfoHeader(
            master_ha_address=replication.ha_address(),
            master_flush_offset=context.store.flushed_where,
            master_address=context.address,
        )
        return response(request, ext=encode_header_fields(ours))
    try:
        for address in (header.master_ha_address, header.master_address):
            if address:
                parse_address(address)
    except LocalProtocolError as error:
        return response(request, ResponseCode.INVALID_PARAMETER, error.message)
    if context.config.is_slave:
        replication.adopt_master(header.master_address or "", header.master_ha_address)
    return response(request)


HANDLERS = {
    RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE: notify_min_broker_id,
    RequestCode.EXCHANGE_BROKER_HA_INFO: exchange_ha_info,
}
