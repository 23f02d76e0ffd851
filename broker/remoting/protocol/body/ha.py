"""Replication and controller state; offsets are physical offsets, times in ms."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

from msgspec import field

from broker.remoting.protocol.body.base import Body, ListBody
from broker.remoting.protocol.body.namesrv.cluster import BrokerMemberGroup


class HAConnectionRuntimeInfo(Body, frozen=True, kw_only=True):
    """One slave as reported by its master.

    **Source:** RocketMQ ``HARuntimeInfo.HAConnectionRuntimeInfo``.
    """

    addr: str | None = None
    slave_ack_offset: int = 0
    diff: int = 0
    in_sync: bool = False
    transferred_byte_in_second: int = 0
    transfer_from_where: int = 0


class HAClientRuntimeInfo(Body, frozen=True, kw_only=True):
    """The replication state of a slave.

    **Source:** RocketMQ ``HARuntimeInfo.HAClientRuntimeInfo``.
    """

    master_addr: str | None = None
    transferred_byte_in_second: int = 0
    max_offset: int = 0
    last_read_timestamp: int = 0
    last_write_timestamp: int = 0
    master_flush_offset: int = 0
    is_activated: bool | None = field(name="activated", default=None)


class HARuntimeInfo(Body, frozen=True, kw_only=True):
    """GET_BROKER_HA_STATUS (907).

    **Source:** RocketMQ ``HARuntimeInfo``.
    """

    master: bool = False
    master_commit_log_max_offset: int = 0
    in_sync_slave_nums: int = 0
    ha_connection_info: list[HAConnectionRuntimeInfo] = []
    ha_client_runtime_info: HAClientRuntimeInfo = HAClientRuntimeInfo()


class SyncStateSet(Body, frozen=True, kw_only=True):
    """Broker ids in sync: 1001, 1004, 1008.

    **Source:** RocketMQ ``SyncStateSet``.
    """

    sync_state_set: list[int] = []
    sync_state_set_epoch: int = 0


class ElectMasterResponseBody(Body, frozen=True, kw_only=True):
    """CONTROLLER_ELECT_MASTER (1002).

    **Source:** RocketMQ ``ElectMasterResponseBody``.
    """

    broker_member_group: BrokerMemberGroup | None = None
    sync_state_set: list[int] = []


class BrokerNameList(ListBody, frozen=True, kw_only=True):
    """CONTROLLER_GET_SYNC_STATE_DATA (1006), request: broker names."""

    items: list[str] = []


class ReplicaIdentity(Body, frozen=True, kw_only=True):
    """One replica.

    **Source:** RocketMQ ``BrokerReplicasInfo.ReplicaIdentity``.
    """

    broker_name: str | None = None
    broker_id: int = 0
    broker_address: str | None = None
    alive: bool | None = None


class ReplicasInfo(Body, frozen=True, kw_only=True):
    """The replicas of one broker name.

    **Source:** RocketMQ ``BrokerReplicasInfo.ReplicasInfo``.
    """

    master_broker_id: int | None = None
    master_address: str | None = None
    master_epoch: int | None = None
    sync_state_set_epoch: int | None = None
    in_sync_replicas: list[ReplicaIdentity] = []
    not_in_sync_replicas: list[ReplicaIdentity] = []


class BrokerReplicasInfo(Body, frozen=True, kw_only=True):
    """CONTROLLER_GET_SYNC_STATE_DATA (1006).

    **Source:** RocketMQ ``BrokerReplicasInfo``.
    """

    replicas_info_table: dict[str, ReplicasInfo] = {}


class EpochEntry(Body, frozen=True, kw_only=True):
    """One master term.

    **Source:** RocketMQ ``EpochEntry``.
    """

    epoch: int = 0
    start_offset: int = 0
    end_offset: int = 2**63 - 1


class EpochEntryCache(Body, frozen=True, kw_only=True):
    """GET_BROKER_EPOCH_CACHE (1007).

    **Source:** RocketMQ ``EpochEntryCache``.
    """

    cluster_name: str | None = None
    broker_name: str | None = None
    broker_id: int = 0
    epoch_list: list[EpochEntry] = []
    max_offset: int = 0
