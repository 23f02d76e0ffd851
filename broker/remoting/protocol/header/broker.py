"""A broker's configuration, replicas and containers."""

from msgspec import field

from broker.remoting.protocol.header.fields import (
    Int32,
    Int64,
    RequestHeader,
    ResponseHeader,
)


class GetBrokerConfigResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to GET_BROKER_CONFIG (26); ``version`` is a DataVersion as JSON.

    **Source:** RocketMQ ``GetBrokerConfigResponseHeader``.
    """

    version: str


class SetCommitLogReadModeRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """SET_COMMITLOG_READ_MODE (2004); ``mode`` 0 normal, 1 random.

    **Source:** RocketMQ ``AdminBrokerProcessor#setCommitLogReadaheadMode``.
    """

    mode: str = field(name="READ_AHEAD_MODE")


class ExportRocksdbConfigRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """EXPORT_ROCKSDB_CONFIG_TO_JSON (355); ``config_type`` list separated by ``;``.

    **Source:** RocketMQ ``ExportRocksDBConfigToJsonRequestHeader``.
    """

    config_type: str


class ExchangeHAInfoHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """EXCHANGE_BROKER_HA_INFO (906), request and response.

    A slave of this project names its HA connection: ``replica_connection`` is the connection's
    address at the slave, ``replica_address`` the slave's broker address. Java ignores both.

    **Source:** RocketMQ ``ExchangeHAInfoRequestHeader``, ``ExchangeHAInfoResponseHeader``.
    """

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None
    replica_connection: str | None = None
    replica_address: str | None = None


class ResetMasterFlushOffsetRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """RESET_MASTER_FLUSH_OFFSET (908).

    **Source:** RocketMQ ``ResetMasterFlushOffsetHeader``.
    """

    master_flush_offset: Int64


class NotifyMinBrokerIdChangeRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """NOTIFY_MIN_BROKER_ID_CHANGE (905), name server to broker.

    **Source:** RocketMQ ``NotifyMinBrokerIdChangeRequestHeader``.
    """

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class NotifyBrokerRoleChangedRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """NOTIFY_BROKER_ROLE_CHANGED (1008), controller to broker.

    **Source:** RocketMQ ``NotifyBrokerRoleChangedRequestHeader``.
    """

    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: Int64 | None = None


class AddBrokerRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """ADD_BROKER (902) to a broker container.

    **Source:** RocketMQ ``AddBrokerRequestHeader``.
    """

    config_path: str


class RemoveBrokerRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """REMOVE_BROKER (903) from a broker container.

    **Source:** RocketMQ ``RemoveBrokerRequestHeader``.
    """

    broker_name: str
    broker_cluster_name: str
    broker_id: Int64
