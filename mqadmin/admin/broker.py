"""Single brokers: runtime status and configuration."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from broker.errors import RocketMQError
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
        if broker is not None and ":" in broker:
            # an address needs no name server: this must work while the name servers are down
            return self._named_or_all(broker)
        return self._admin.topology.all(cluster=cluster, broker=broker)

    def _named_or_all(self, address: str) -> Sequence[Target]:
        try:
            return self._admin.topology.named(address)
        except RocketMQError:
            return [Target(address=address)]
