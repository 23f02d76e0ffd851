"""Requests about features this broker does not have: the responses of a Java broker without them.

Tools query replication state, RocksDB and request modes of every broker;
"not supported" would make the whole command fail.

**Source:** RocketMQ AdminBrokerProcessor (getBrokerHaStatus, getBrokerEpochCache,
setCommitLogReadaheadMode, exportRocksDBConfigToJson),
QueryAssignmentProcessor#setMessageRequestMode.
"""

from typing import TYPE_CHECKING

from broker.common.topic import is_retry_topic
from broker.remoting.protocol.body.ha import HARuntimeInfo
from broker.remoting.protocol.body.lock import (
    MessageRequestModeSerializeWrapper,
    SetMessageRequestModeRequestBody,
)
from broker.remoting.protocol.body.state import CheckRocksdbCqWriteResult
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.server.context import BrokerContext
from broker.server.processor.responses import no_group, no_topic

if TYPE_CHECKING:
    from broker.remoting.server import Connection


def ha_status(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_BROKER_HA_STATUS: a master without slaves."""
    body = HARuntimeInfo(
        master=True, master_commit_log_max_offset=context.store.max_physical_offset
    )
    return response(request, body=body.to_bytes())


def epoch_cache(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_BROKER_EPOCH_CACHE: only brokers in controller mode have one."""
    return response(request, ResponseCode.SYSTEM_ERROR, "this request only for controllerMode ")


def read_ahead_mode(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """SET_COMMITLOG_READ_MODE: accepted, without effect."""
    mode = request.ext_fields.get("READ_AHEAD_MODE", "")
    if mode not in ("0", "1"):
        remark = f"set commitlog readahead mode param value is error: {mode!r}"
        return response(request, ResponseCode.INVALID_PARAMETER, remark)
    return response(request, remark="this broker has no read-ahead mode: nothing was changed")


def no_rocksdb_export(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """EXPORT_ROCKSDB_CONFIG_TO_JSON: configurations are JSON files already."""
    return response(request, remark="this broker keeps its configuration in JSON files")


def no_rocksdb_queue(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """CHECK_ROCKSDB_CQ_WRITE_PROGRESS: this broker has no RocksDB queue."""
    body = CheckRocksdbCqWriteResult(
        check_result="this broker has no RocksDB queues", check_status=0
    )
    return response(request, body=body.to_bytes())


def no_timer(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_TIMER_CHECK_POINT, GET_TIMER_METRICS: this broker does not have a timer wheel."""
    return response(request, ResponseCode.SYSTEM_ERROR, "The timer wheel is not enabled")


def set_request_mode(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """SET_MESSAGE_REQUEST_MODE: PULL, every group's mode, is accepted; POP is not supported."""
    body = SetMessageRequestModeRequestBody.from_bytes(request.body_bytes())
    topic, group = body.topic or "", body.consumer_group or ""
    if is_retry_topic(topic):
        remark = "retry topic is not allowed to set mode"
        return response(request, ResponseCode.NO_PERMISSION, remark)
    if topic not in context.topics:
        return no_topic(request, topic)
    if context.groups.find(group) is None:
        return no_group(request, group)
    if body.mode != "PULL":
        remark = f"message request mode {body.mode} is not supported by this broker"
        return response(request, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)
    return response(request)


def request_modes(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_ALL_MESSAGE_REQUEST_MODE: empty, because every group uses PULL."""
    return response(request, body=MessageRequestModeSerializeWrapper().to_bytes())


HANDLERS = {
    RequestCode.GET_BROKER_HA_STATUS: ha_status,
    RequestCode.GET_BROKER_EPOCH_CACHE: epoch_cache,
    RequestCode.SET_COMMITLOG_READ_MODE: read_ahead_mode,
    RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON: no_rocksdb_export,
    RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: no_rocksdb_queue,
    RequestCode.GET_TIMER_CHECK_POINT: no_timer,
    RequestCode.GET_TIMER_METRICS: no_timer,
    RequestCode.SET_MESSAGE_REQUEST_MODE: set_request_mode,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: request_modes,
}
