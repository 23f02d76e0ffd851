"""Requests about features this broker does not have: the responses of a Java broker without them.

Tools query replication state and RocksDB of every broker; "not supported" would make the whole
command fail.

**Source:** RocketMQ AdminBrokerProcessor (getBrokerHaStatus, setCommitLogReadaheadMode,
 exportRocksDBConfigToJson).
"""

from typing import TYPE_CHECKING

from broker.remoting.protocol.body.state import CheckRocksdbCqWriteResult
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, response
from broker.server.context import BrokerContext

if TYPE_CHECKING:
    from broker.remoting.server import Connection


def ha_status(
    context: BrokerContext, connection: "Connection", request: RemotingCommand
) -> RemotingCommand:
    """GET_BROKER_HA_STATUS: the slaves of a master, or the state of a slave."""
    return response(request, body=context.ha_status().to_bytes())


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


HANDLERS = {
    RequestCode.GET_BROKER_HA_STATUS: ha_status,
    RequestCode.SET_COMMITLOG_READ_MODE: read_ahead_mode,
    RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON: no_rocksdb_export,
    RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: no_rocksdb_queue,
}
