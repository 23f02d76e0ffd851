"""Single brokers: runtime status, configuration, replication."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from broker.errors import RocketMQError
from broker.remoting.protocol.body.ha import HARuntimeInfo
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.failure import part_errors
from mqadmin.admin.result import Listing
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

R = TypeVar("R")


class BrokerStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The runtime information of one broker: RocketMQ's own keys and values, sorted by key."""

    cluster_name: str | None
    broker_name: str | None
    broker_id: int | None
    address: str
    runtime: Mapping[str, str]


class BrokerConfigRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The effective configuration of one broker: camelCase key → value, sorted by key."""

    cluster_name: str | None
    broker_name: str | None
    broker_id: int | None
    address: str
    version: str | None
    config: Mapping[str, str]


class ReplicationRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One HA connection as one of its brokers reports it; offsets are physical offsets.

    ``role`` is MASTER or SLAVE; a master reports one record per slave, and one with ``peer`` None
    without slaves. ``end_offset`` is the end of the master's log as that broker knows it (None if
    a slave does not), ``ack_offset`` the end of the slave's, ``gap_bytes`` their difference.
    ``in_sync``: a master counts the slave as in sync (gap below haMaxGapNotInSync); a slave is
    connected to its master.
    """

    cluster_name: str | None
    broker_name: str | None
    broker_id: int | None
    address: str
    role: str
    peer: str | None
    end_offset: int | None
    ack_offset: int | None
    gap_bytes: int | None
    in_sync: bool | None
    bytes_per_second: int | None


class BrokerAdmin:
    """Queries about single brokers."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def status(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> Listing[BrokerStatus]:
        """Return the runtime information of one broker (name or address), a cluster, or all."""

        def record(target: Target, reply: Reply) -> BrokerStatus:
            return BrokerStatus(
                cluster_name=target.cluster_name,
                broker_name=target.broker_name,
                broker_id=target.broker_id,
                address=target.address,
                runtime=dict(sorted(reply.value.table.items())),
            )

        return self._each(RequestCode.GET_BROKER_RUNTIME_INFO, broker, cluster, record)

    def config(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> Listing[BrokerConfigRecord]:
        """Return the effective configuration of one broker (name or address), a cluster, or all."""

        def record(target: Target, reply: Reply) -> BrokerConfigRecord:
            return BrokerConfigRecord(
                cluster_name=target.cluster_name,
                broker_name=target.broker_name,
                broker_id=target.broker_id,
                address=target.address,
                version=reply.command.ext_fields.get("version"),
                config=dict(sorted(reply.properties.items())),
            )

        return self._each(RequestCode.GET_BROKER_CONFIG, broker, cluster, record)

    def ha(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> Listing[ReplicationRecord]:
        """Return the replication of one broker (name or address), a cluster, or all.

        A broker before 5.0 does not know the request: it is one of the errors.
        """
        links = self._each(
            RequestCode.GET_BROKER_HA_STATUS,
            broker,
            cluster,
            lambda target, reply: _links(target, reply.value),
        )
        return Listing(items=[link for item in links.items for link in item], errors=links.errors)

    def _each(
        self,
        code: int,
        broker: str | None,
        cluster: str | None,
        record: Callable[[Target, Reply], R],
    ) -> Listing[R]:
        """Send every target the same request; a failed target does not affect the others."""
        targets = self._targets(broker, cluster)
        answers = self._admin.call_all(
            [(target.address, build_request(code, {})) for target in targets]
        )
        good, errors = part_errors(targets, answers)
        return Listing(items=[record(target, answer) for target, answer in good], errors=errors)

    def _targets(self, broker: str | None, cluster: str | None) -> Sequence[Target]:
        if broker is not None and ":" in broker and cluster is None:
            # an address needs no name server: this must work while the name servers are down
            return self._named_or_all(broker)
        return self._admin.topology.all(cluster=cluster, broker=broker)

    def _named_or_all(self, address: str) -> Sequence[Target]:
        try:
            return self._admin.topology.named(address)
        except RocketMQError:
            return [Target(address=address)]


def _links(target: Target, status: HARuntimeInfo) -> list[ReplicationRecord]:
    """Return the replication that a broker reports about itself."""
    if not status.master:
        slave = status.ha_client_runtime_info
        # Only a slave that has received something knows the end of the master's log.
        end = max(slave.master_flush_offset, slave.max_offset) or None
        known = slave.master_flush_offset > 0
        return [
            _link(
                target,
                role="SLAVE",
                peer=_address(slave.master_addr),
                end_offset=end if known else None,
                ack_offset=slave.max_offset,
                gap_bytes=end - slave.max_offset if known and end else None,
                in_sync=bool(slave.is_activated),
                bytes_per_second=slave.transferred_byte_in_second,
            )
        ]
    end = status.master_commit_log_max_offset
    return [
        _link(
            target,
            role="MASTER",
            peer=_address(slave.addr),
            end_offset=end,
            ack_offset=slave.slave_ack_offset,
            gap_bytes=slave.diff,
            in_sync=slave.in_sync,
            bytes_per_second=slave.transferred_byte_in_second,
        )
        for slave in status.ha_connection_info
    ] or [_link(target, role="MASTER", end_offset=end)]


def _link(
    target: Target,
    *,
    role: str,
    end_offset: int | None,
    peer: str | None = None,
    ack_offset: int | None = None,
    gap_bytes: int | None = None,
    in_sync: bool | None = None,
    bytes_per_second: int | None = None,
) -> ReplicationRecord:
    return ReplicationRecord(
        cluster_name=target.cluster_name,
        broker_name=target.broker_name,
        broker_id=target.broker_id,
        address=target.address,
        role=role,
        peer=peer,
        end_offset=end_offset,
        ack_offset=ack_offset,
        gap_bytes=gap_bytes,
        in_sync=in_sync,
        bytes_per_second=bytes_per_second,
    )


def _address(text: str | None) -> str | None:
    """Return an address without the slash that Java writes before it; None for an empty one."""
    return (text or "").removeprefix("/") or None
