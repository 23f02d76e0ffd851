"""Settings of running brokers: validated change with read-back, and differences."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from broker.common.config.properties import format_properties
from broker.errors import ConfigError, RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.broker import BrokerAdmin
from mqadmin.admin.change import State, apply_plan
from mqadmin.admin.failure import part_errors
from mqadmin.admin.result import Change, Listing, Outcome, Plan, Request
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

PERMISSIONS = {"2", "4", "6"}
"""Values of brokerPermission. **Source:** RocketMQ ``UpdateBrokerConfigSubCommand``."""

# Numbers as Java reads and prints them: neither "1_000" nor "nan".
_WHOLE: Final = re.compile(r"-?[0-9]+")
_DECIMAL: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:E-?[0-9]+)?")

#: Settings that identify one process, so that they differ between any two.
IDENTITY = frozenset(
    {
        *("brokerName", "brokerId", "brokerIP1", "brokerIP2", "brokerRole", "listenPort"),
        *("haListenPort", "bindAddress", "brokerConfigPath", "rocketmqHome", "namesrvAddr"),
        *("haMasterAddress", "metricsPromExporterPort", "containerPort"),
    }
)


class ConfigDifference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One setting that differs: broker (name and id, or address) → value, None: not reported."""

    key: str
    values: Mapping[str, str | None]


class BrokerSettings:
    """Changes and comparison of the settings of brokers."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def plan_set(
        self,
        values: Mapping[str, str],
        *,
        broker: str | None = None,
        cluster: str | None = None,
        replicas: bool = False,
    ) -> Plan:
        """Plan to change settings of one broker (name or address) or of the masters of a cluster.

        ``replicas`` adds the slaves. ConfigError for a key that a broker does not report (Java
        brokers drop it and report success) or a value of another type than the present one.

        **Source:** RocketMQ ``UpdateBrokerConfigSubCommand``.
        """
        targets = self._targets(broker, cluster, replicas=replicas)
        good, errors = part_errors(targets, self._configs(targets))
        body = format_properties(values).encode()
        changes: list[Change] = []
        for target, config in good:
            for key, value in values.items():
                check_setting(key, value, config, target.label)
            before = {key: config[key] for key in values}
            after = dict(values)
            changes.append(
                Change(
                    target=target.label,
                    address=target.address,
                    action="update",
                    before=before,
                    after=after,
                    request=None
                    if before == after
                    else Request(
                        address=target.address, code=RequestCode.UPDATE_BROKER_CONFIG, body=body
                    ),
                )
            )
        return Plan(kind="broker.config", subject=", ".join(values), changes=changes, errors=errors)

    def apply(self, plan: Plan) -> Outcome:
        """Apply a plan of this noun; see :func:`~mqadmin.admin.change.apply_plan`."""
        self._admin.renew()
        return apply_plan(self._admin, plan, self._states)

    def differences(
        self, *, broker: str | None = None, cluster: str | None = None, everything: bool = False
    ) -> Listing[ConfigDifference]:
        """Return the settings that differ between the brokers.

        Without ``everything`` settings that identify one process, and paths, are left out.
        """
        listing = BrokerAdmin(self._admin).config(broker=broker, cluster=cluster)
        configs = {
            f"{item.broker_name}:{item.broker_id}" if item.broker_name else item.address: (
                item.config
            )
            for item in listing.items
        }
        rows: list[ConfigDifference] = []
        for key in sorted({key for config in configs.values() for key in config}):
            if not everything and (key in IDENTITY or "path" in key.lower()):
                continue
            values = {name: config.get(key) for name, config in configs.items()}
            if len(set(values.values())) > 1:
                rows.append(ConfigDifference(key=key, values=values))
        return Listing(items=rows, errors=listing.errors)

    def _targets(
        self, broker: str | None, cluster: str | None, *, replicas: bool
    ) -> Sequence[Target]:
        topology = self._admin.topology
        if broker is not None:
            return topology.all(cluster=cluster, broker=broker)
        if replicas:
            return topology.all(cluster=cluster or topology.only_cluster())
        return topology.writers(cluster=cluster)

    def _configs(self, targets: Sequence[Target]) -> list[Mapping[str, str] | RocketMQError]:
        answers = self._admin.call_all(
            [
                (target.address, build_request(RequestCode.GET_BROKER_CONFIG, {}))
                for target in targets
            ]
        )
        return [answer.properties if isinstance(answer, Reply) else answer for answer in answers]

    def _states(self, plan: Plan) -> Sequence[State | RocketMQError]:
        targets = [Target(address=change.address) for change in plan.changes]
        return [
            found
            if isinstance(found, RocketMQError)
            else {key: found.get(key) for key in change.after or {}}
            for change, found in zip(plan.changes, self._configs(targets), strict=True)
        ]


def check_setting(
    key: str,
    value: str,
    config: Mapping[str, str],
    place: str,
    show: str = "mqadmin broker config show",
) -> None:
    """Compare a new value with the present ones; ConfigError if the peer would drop it.

    ``show`` is the command that lists the settings of the peer.
    """
    present = config.get(key)
    if present is None:
        near = [name for name in config if key.lower() in name.lower()][:5]
        raise ConfigError(
            f"{place} has no setting {key}",
            "similar: " + ", ".join(near) if near else f"{show} lists the settings",
        )
    if present in ("true", "false") and value not in ("true", "false"):
        raise ConfigError(f"{key}: {value!r} is not true or false", f"it is {present} now")
    if _WHOLE.fullmatch(present) and not _WHOLE.fullmatch(value):
        raise ConfigError(f"{key}: {value!r} is not a whole number", f"it is {present} now")
    if _DECIMAL.fullmatch(present) and not _DECIMAL.fullmatch(value):
        raise ConfigError(f"{key}: {value!r} is not a number", f"it is {present} now")
    if key == "brokerPermission" and value not in PERMISSIONS:
        raise ConfigError(f"{key}: {value!r} is not 2, 4 or 6", "2 write, 4 read, 6 both")
