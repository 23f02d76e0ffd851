"""Requests to controllers and broker containers; a peer of another kind refuses them.

A controller that is not the leader knows the leader: requests about replicas are sent to it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from broker.common.config.properties import format_properties
from broker.errors import ClientError
from broker.remoting.protocol.body.ha import (
    BrokerNameList,
    ElectMasterResponseBody,
    ReplicaIdentity,
)
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.session import AdminSession


class ControllerMetadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A group of controllers as one member reports it; ``peers`` as ``id-host:port;…``."""

    group: str | None
    leader_id: str | None
    leader_address: str | None
    peers: str | None


class Election(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The result of an election."""

    broker_name: str
    master_broker_id: int | None
    master_address: str | None
    master_epoch: int | None
    sync_state_set_epoch: int | None
    members: Mapping[int, str]


class ReplicaRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One replica; ``alive`` None: not reported."""

    broker_name: str | None
    broker_id: int
    broker_address: str | None
    alive: bool | None


class SyncStateRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The replicas of one broker name, those in sync with the master and the others."""

    broker_name: str
    master_broker_id: int | None
    master_address: str | None
    master_epoch: int | None
    sync_state_set_epoch: int | None
    in_sync: Sequence[ReplicaRecord]
    not_in_sync: Sequence[ReplicaRecord]


class ControllerAdmin:
    """Queries and changes of one group of controllers; ``address`` is any member."""

    def __init__(self, admin: AdminSession, address: str) -> None:
        self._admin = admin
        self.address = address.partition(";")[0].strip()

    def metadata(self) -> ControllerMetadata:
        """Return group, leader and members.

        **Source:** RocketMQ ``GetControllerMetaDataSubCommand``.
        """
        header = self._admin.call(self.address, RequestCode.CONTROLLER_GET_METADATA_INFO).header
        return ControllerMetadata(
            group=header.group,
            leader_id=header.controller_leader_id,
            leader_address=header.controller_leader_address,
            peers=header.peers,
        )

    def config(self) -> Mapping[str, str]:
        """Return the settings of the member at ``address``."""
        reply = self._admin.call(self.address, RequestCode.GET_CONTROLLER_CONFIG)
        return dict(sorted(reply.properties.items()))

    def set_config(self, values: Mapping[str, str]) -> None:
        """Change settings of the member at ``address``."""
        body = format_properties(values).encode()
        self._admin.call(self.address, RequestCode.UPDATE_CONTROLLER_CONFIG, body)

    def sync_states(self, broker_names: Sequence[str]) -> list[SyncStateRecord]:
        """Return the replicas of each broker name, in sync or not.

        **Source:** RocketMQ ``GetSyncStateSetSubCommand``.
        """
        body = BrokerNameList(items=list(broker_names)).to_bytes()
        code = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA
        table = self._admin.call(self._leader(), code, body).value.replicas_info_table
        return [
            SyncStateRecord(
                broker_name=name,
                master_broker_id=info.master_broker_id,
                master_address=info.master_address,
                master_epoch=info.master_epoch,
                sync_state_set_epoch=info.sync_state_set_epoch,
                in_sync=[_replica(one) for one in info.in_sync_replicas],
                not_in_sync=[_replica(one) for one in info.not_in_sync_replicas],
            )
            for name, info in sorted(table.items())
        ]

    def elect(self, cluster: str, broker_name: str, broker_id: int) -> Election:
        """Make the broker with this id the master of its name.

        **Source:** RocketMQ ``ReElectMasterSubCommand``.
        """
        reply = self._admin.call(
            self._leader(),
            RequestCode.CONTROLLER_ELECT_MASTER,
            cluster_name=cluster,
            broker_name=broker_name,
            broker_id=broker_id,
            designate_elect=True,
        )
        header, body = reply.header, reply.value
        group = body.broker_member_group if isinstance(body, ElectMasterResponseBody) else None
        return Election(
            broker_name=broker_name,
            master_broker_id=header.master_broker_id,
            master_address=header.master_address,
            master_epoch=header.master_epoch,
            sync_state_set_epoch=header.sync_state_set_epoch,
            members=dict(sorted(group.broker_addrs.items())) if group else {},
        )

    def clean_broker(
        self, broker_name: str, *, cluster: str | None, ids: Sequence[int], living: bool
    ) -> None:
        """Remove brokers from the metadata: those with ``ids``, all of the name without any.

        **Source:** RocketMQ ``CleanControllerBrokerMetaSubCommand``.
        """
        self._admin.call(
            self._leader(),
            RequestCode.CLEAN_BROKER_DATA,
            cluster_name=cluster,
            broker_name=broker_name,
            broker_controller_ids_to_clean=";".join(map(str, ids)) or None,
            is_clean_living_broker=living,
        )

    def _leader(self) -> str:
        leader = self.metadata().leader_address
        if not leader:
            raise ClientError(
                f"controller {self.address} knows no leader",
                "wait for the election, or name another member",
            )
        return leader


def _replica(one: ReplicaIdentity) -> ReplicaRecord:
    return ReplicaRecord(
        broker_name=one.broker_name,
        broker_id=one.broker_id,
        broker_address=one.broker_address,
        alive=one.alive,
    )


def add_broker(admin: AdminSession, container: str, config_path: str) -> None:
    """Start a broker in the container; ``config_path`` is a file on the container's host."""
    admin.call(container, RequestCode.ADD_BROKER, config_path=config_path)


def remove_broker(admin: AdminSession, container: str, identity: str) -> None:
    """Stop a broker of the container; ``identity`` is ``cluster:name:id``."""
    parts: list[Any] = identity.split(":")
    if len(parts) != 3 or not parts[2].isdecimal():
        raise ClientError(f"not a broker of a container: {identity!r}", "write CLUSTER:NAME:ID")
    admin.call(
        container,
        RequestCode.REMOVE_BROKER,
        broker_cluster_name=parts[0],
        broker_name=parts[1],
        broker_id=int(parts[2]),
    )
