"""Requests about cold data flow control (2001, 2002, 2003).

**Source:** RocketMQ AdminBrokerProcessor (updateColdDataFlowCtrGroupConfig,
removeColdDataFlowCtrGroupConfig, getColdDataFlowCtrInfo).
"""

from typing import TYPE_CHECKING

from broker.common.config.properties import parse_properties
from broker.common.java import parse_number
from broker.errors import ConfigError
from broker.remoting.protocol.body.state import ColdDataFlowInfo
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.server.context import BrokerContext

if TYPE_CHECKING:
    from broker.remoting.server import Connection


def set_limits(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """UPDATE_COLD_DATA_FLOW_CTR_CONFIG: lines ``group=bytes``; all or none.

    Java ignores a line whose value is not a number and answers SUCCESS.
    """
    text = request.body_bytes().decode("utf-8", "replace")
    limits: dict[str, int] = {}
    try:
        lines = parse_properties(text)
    except ConfigError as error:
        return response(request, ResponseCode.SYSTEM_ERROR, error.message)
    for group, value in lines.items():
        limit = parse_number(value)
        if limit is None:
            remark = f"{group}={value:.40}: not a number of bytes"
            return response(request, ResponseCode.SYSTEM_ERROR, remark)
        limits[group] = limit
    try:
        for group, limit in limits.items():
            context.cold_data.set_limit(group, limit)
    except ValueError as error:
        return response(request, ResponseCode.SYSTEM_ERROR, str(error))
    return response(request)


def remove_limit(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """REMOVE_COLD_DATA_FLOW_CTR_CONFIG: the body is the name of a group."""
    context.cold_data.remove_limit(request.body_bytes().decode("utf-8", "replace"))
    return response(request)


def info(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_COLD_DATA_FLOW_CTR_INFO: counters and limits."""
    control = context.cold_data
    body = ColdDataFlowInfo(
        runtime_table={
            group: {"coldAcc": read.size, "lastColdReadTimeMills": read.last_read_ms}
            for group, read in control.reads.items()
        },
        config_table=control.limits,
        cg_cold_read_threshold=control.group_limit,
        global_cold_read_threshold=control.global_limit,
        global_acc=control.total,
    )
    return response(request, body=body.to_bytes())


HANDLERS = {
    RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: set_limits,
    RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: remove_limit,
    RequestCode.GET_COLD_DATA_FLOW_CTR_INFO: info,
}
