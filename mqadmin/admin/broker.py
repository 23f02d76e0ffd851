"""Single brokers: runtime status and configuration."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from broker.client.caller import Reply, build_request
from broker.common.properties import format_properties
from broker.errors import ClientError, RocketMQError
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.failure import part_errors
from mqadmin.admin.result import Change, Listing, Plan, Request
from mqadmin.admin.topology import Target

if TYPE_CHECKING:
    from mqadmin.admin.session import MQAdmin

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
    """Queries and changes of single brokers."""

    def __init__(self, admin: "MQAdmin") -> None:
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

    def plan_config(
        self,
        settings: Mapping[str, str],
        *,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> Plan:
        """Plan to set configuration keys; ClientError for keys a broker does not know.

        A broker accepts unknown keys with SUCCESS and discards them, so they are refused here.
        """
        listing = self.config(broker=broker, cluster=cluster)
        changes: list[Change] = []
        for record in listing.items:
            label = record.broker_name or record.address
            unknown = sorted(key for key in settings if key not in record.config)
            if unknown:
                raise ClientError(
                    f"broker {label} knows no setting {', '.join(unknown)}",
                    "mqadmin broker config show lists them",
                )
            before = {key: record.config[key] for key in settings}
            after = dict(settings)
            changes.append(
                Change(
                    target=f"{label}:{record.broker_id}" if record.broker_id else label,
                    address=record.address,
                    action="update",
                    before=before,
                    after=after,
                    request=None
                    if before == after
                    else Request(
                        address=record.address,
                        code=RequestCode.UPDATE_BROKER_CONFIG,
                        body=format_properties(after).encode("utf-8"),
                    ),
                )
            )
        return Plan(
            kind="broker.config",
            subject=broker or cluster or "all brokers",
            changes=changes,
            errors=listing.errors,
        )

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


def read_states(admin: "MQAdmin", plan: Plan) -> Sequence[Mapping[str, Any] | RocketMQError | None]:
    """Return the present values of the planned keys on each target."""
    states: list[Mapping[str, Any] | RocketMQError | None] = []
    answers = admin.call_all(
        [
            (change.address, build_request(RequestCode.GET_BROKER_CONFIG, {}))
            for change in plan.changes
        ]
    )
    for change, answer in zip(plan.changes, answers, strict=True):
        if isinstance(answer, RocketMQError):
            states.append(answer)
            continue
        config = answer.properties
        states.append({key: config.get(key) for key in change.after or {}})
    return states
