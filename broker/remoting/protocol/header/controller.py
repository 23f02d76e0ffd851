"""The controller (5.x); times in ms."""

from broker.remoting.protocol.header.fields import (
    Int32,
    Int64,
    RequestHeader,
    ResponseHeader,
)


class AlterSyncStateSetRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """CONTROLLER_ALTER_SYNC_STATE_SET (1001).

    **Source:** RocketMQ ``AlterSyncStateSetRequestHeader``.
    """

    broker_name: str
    master_broker_id: Int64
    master_epoch: Int32
    invoke_time: Int64 | None = None


class AlterSyncStateSetResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 1001.

    **Source:** RocketMQ ``AlterSyncStateSetResponseHeader``.
    """

    new_sync_state_set_epoch: Int32


class ElectMasterRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """CONTROLLER_ELECT_MASTER (1002).

    **Source:** RocketMQ ``ElectMasterRequestHeader``.
    """

    cluster_name: str
    broker_name: str
    broker_id: Int64 = -1
    designate_elect: bool = False
    invoke_time: Int64 | None = None


class ElectMasterResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 1002.

    **Source:** RocketMQ ``ElectMasterResponseHeader``.
    """

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class RegisterBrokerToControllerRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """CONTROLLER_REGISTER_BROKER (1003).

    **Source:** RocketMQ ``RegisterBrokerToControllerRequestHeader``.
    """

    cluster_name: str
    broker_name: str
    broker_id: Int64
    broker_address: str
    invoke_time: Int64 | None = None


class RegisterBrokerToControllerResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 1003.

    **Source:** RocketMQ ``RegisterBrokerToControllerResponseHeader``.
    """

    cluster_name: str | None = None
    broker_name: str | None = None
    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None


class GetReplicaInfoRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """CONTROLLER_GET_REPLICA_INFO (1004).

    **Source:** RocketMQ ``GetReplicaInfoRequestHeader``.
    """

    broker_name: str


class GetReplicaInfoResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 1004.

    **Source:** RocketMQ ``GetReplicaInfoResponseHeader``.
    """

    master_broker_id: Int64 | None = None
    master_address: str | None = None
    master_epoch: Int32 | None = None


class GetMetaDataResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to CONTROLLER_GET_METADATA_INFO (1005).

    **Source:** RocketMQ ``GetMetaDataResponseHeader``.
    """

    group: str | None = None
    controller_leader_id: str | None = None
    controller_leader_address: str | None = None
    is_leader: bool | None = None
    peers: str | None = None


class CleanBrokerDataRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """CLEAN_BROKER_DATA (1011); ids separated by ``;``.

    **Source:** RocketMQ ``CleanControllerBrokerDataRequestHeader``.
    """

    cluster_name: str | None = None
    broker_name: str
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    invoke_time: Int64 | None = None


class GetNextBrokerIdRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """CONTROLLER_GET_NEXT_BROKER_ID (1012).

    **Source:** RocketMQ ``GetNextBrokerIdRequestHeader``.
    """

    cluster_name: str
    broker_name: str


class GetNextBrokerIdResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 1012.

    **Source:** RocketMQ ``GetNextBrokerIdResponseHeader``.
    """

    cluster_name: str | None = None
    broker_name: str | None = None
    next_broker_id: Int64 | None = None


class ApplyBrokerIdRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """CONTROLLER_APPLY_BROKER_ID (1013).

    **Source:** RocketMQ ``ApplyBrokerIdRequestHeader``.
    """

    cluster_name: str
    broker_name: str
    applied_broker_id: Int64
    register_check_code: str


class ApplyBrokerIdResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 1013.

    **Source:** RocketMQ ``ApplyBrokerIdResponseHeader``.
    """

    cluster_name: str | None = None
    broker_name: str | None = None
