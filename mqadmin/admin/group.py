"""Subscription groups: create, list, show, update as a patch, delete.

A group is read from the broker's whole table: a 5.x broker creates a group when it is queried by
name, and a query must not change anything.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from broker.common.encoding.java_json import dumps
from broker.common.group import (
    SubscriptionGroupConfig,
    check_group_name,
    group_config_from_wire,
    group_config_to_wire,
    is_system_group,
)
from broker.errors import ClientError, ConfigError, RocketMQError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.change import State, apply_plan, config_change, creation_plan
from mqadmin.admin.connections import consumer_connections
from mqadmin.admin.failure import having, part_errors
from mqadmin.admin.result import Change, Listing, Outcome, Plan, Request, TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

#: The identity of a group, and the fields that only 5.x brokers report: not settable.
_NOT_SETTABLE = frozenset({"groupName", "attributes", "subscriptionDataSet"})


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The configuration of one group on one broker."""

    group: str
    cluster_name: str | None
    broker_name: str | None
    consume_enable: bool
    consume_from_min_enable: bool
    consume_broadcast_enable: bool
    consume_message_orderly: bool
    retry_queue_nums: int
    retry_max_times: int
    broker_id: int
    which_broker_when_consume_slowly: int
    notify_consumer_ids_changed_enable: bool
    group_sys_flag: int
    consume_timeout_minute: int
    group_retry_policy: Mapping[str, Any]
    attributes: Mapping[str, str]


class GroupAdmin:
    """Queries and changes of subscription groups."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def list(
        self, *, cluster: str | None = None, include_system: bool = True
    ) -> Listing[GroupRecord]:
        """Return one record per group and broker, sorted by group and broker name."""
        targets = self._admin.topology.readers(cluster=cluster)
        good, errors = part_errors(targets, group_tables(self._admin, targets))
        records = [
            _record(config, target)
            for target, table in good
            for name, config in table.items()
            if include_system or not is_system_group(name)
        ]
        records.sort(key=lambda record: (record.group, record.broker_name or ""))
        return Listing(items=records, errors=errors)

    def show(self, group: str) -> Listing[GroupRecord]:
        """Return the configuration of one group on each broker that has it."""
        listing = self.list()
        return Listing(
            items=[record for record in listing.items if record.group == group],
            errors=listing.errors,
        )

    def plan_create(
        self,
        group: str,
        *,
        settings: Mapping[str, Any] | None = None,
        cluster: str | None = None,
        broker: str | None = None,
        if_not_exists: bool = False,
    ) -> Plan:
        """Plan a new group; ``settings`` use the wire names (``retryMaxTimes``).

        ClientError if it exists, unless ``if_not_exists``. Targets as for topics.
        """
        _check_name(group)
        wanted = patched(SubscriptionGroupConfig(group_name=group), settings or {})
        targets = self._admin.topology.writers(cluster=cluster, broker=broker)
        good, errors = part_errors(targets, self.configs(targets, group))
        return creation_plan(
            "group",
            group,
            good,
            lambda target, config: (
                group_change(target, None, wanted)
                if config is None
                else group_change(target, config, config)
            ),
            errors=errors,
            if_not_exists=if_not_exists,
        )

    def plan_put(
        self,
        group: str,
        *,
        settings: Mapping[str, Any],
        new: Mapping[str, Any] | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> Plan:
        """Plan to create the group where it is missing and to update it where it exists.

        ``settings`` are set everywhere, ``new`` only in a new group. The Java tool resets the
        settings that are not named; here an existing group keeps them.

        **Source:** RocketMQ ``UpdateSubGroupSubCommand``.
        """
        _check_name(group)
        fresh = patched(SubscriptionGroupConfig(group_name=group), {**(new or {}), **settings})
        targets = self._admin.topology.writers(cluster=cluster, broker=broker)
        good, errors = part_errors(targets, self.configs(targets, group))
        changes = [
            group_change(target, config, fresh if config is None else patched(config, settings))
            for target, config in good
        ]
        return Plan(kind="group.put", subject=group, changes=changes, errors=errors)

    def plan_update(
        self,
        group: str,
        *,
        settings: Mapping[str, Any],
        cluster: str | None = None,
        broker: str | None = None,
    ) -> Plan:
        """Plan a patch of the group on every broker that has it, or on the selected brokers."""
        if not settings:
            raise ConfigError(
                f"nothing to change about group {group}",
                "name a setting: mqadmin group update --help lists them",
            )
        changes: list[Change] = []
        found, errors = self._existing(group, cluster, broker)
        for target, config in found:
            changes.append(group_change(target, config, patched(config, settings)))
        return Plan(kind="group.update", subject=group, changes=changes, errors=errors)

    def plan_delete(
        self,
        group: str,
        *,
        remove_offset: bool = False,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> Plan:
        """Plan to remove the group's configuration; its retry and DLQ topics are kept.

        ``remove_offset`` also removes the committed offsets of the group.
        """
        found, errors = self._existing(group, cluster, broker)
        if is_system_group(group):
            raise ClientError(
                f"group {group} belongs to RocketMQ itself and cannot be deleted",
                "mqadmin group list --user shows the others",
            )
        changes = [
            Change(
                target=target.label,
                address=target.address,
                action="delete",
                before=group_state(config),
                request=Request(
                    address=target.address,
                    code=RequestCode.DELETE_SUBSCRIPTIONGROUP,
                    ext_fields=build_request(
                        RequestCode.DELETE_SUBSCRIPTIONGROUP,
                        # 5.x and 4.9 use different names for this flag
                        {
                            "group_name": group,
                            "clean_offset": remove_offset,
                            "remove_offset": remove_offset,
                        },
                    ).ext_fields,
                ),
            )
            for target, config in found
        ]
        connections = consumer_connections(self._admin, group).connections
        warnings = []
        if connections:
            warnings.append(
                f"{len(connections)} clients of {group} are connected: a broker with "
                "autoCreateSubscriptionGroup makes the group again with their next heartbeat"
            )
        return Plan(
            kind="group.delete", subject=group, changes=changes, errors=errors, warnings=warnings
        )

    def configs(
        self, targets: Sequence[Target], group: str
    ) -> Sequence[SubscriptionGroupConfig | RocketMQError | None]:
        """Return the group's configuration on each target, None where it does not exist."""
        return [
            table if isinstance(table, RocketMQError) else table.get(group)
            for table in group_tables(self._admin, targets)
        ]

    def _existing(
        self, group: str, cluster: str | None, broker: str | None
    ) -> tuple[Sequence[tuple[Target, SubscriptionGroupConfig]], Sequence[TargetError]]:
        """Return the masters that have the group, with its configuration; ClientError if none."""
        asked = self._admin.topology.masters(cluster=cluster, broker=broker)
        missing = ClientError(
            f"group {group} does not exist on {broker or cluster or 'any broker'}",
            "mqadmin group list lists the groups",
        )
        return having(asked, self.configs(asked, group), missing)

    def apply(self, plan: Plan) -> Outcome:
        """Apply a plan of this noun; see :func:`~mqadmin.admin.change.apply_plan`."""
        self._admin.renew()
        return apply_plan(self._admin, plan, self._states)

    def _states(self, plan: Plan) -> Sequence[State | RocketMQError]:
        """Return the present configuration of the group on each target."""
        targets = [Target(address=change.address) for change in plan.changes]
        return [
            group_state(config) if isinstance(config, SubscriptionGroupConfig) else config
            for config in self.configs(targets, plan.subject)
        ]


def group_tables(
    admin: AdminSession, targets: Sequence[Target]
) -> Sequence[Mapping[str, SubscriptionGroupConfig] | RocketMQError]:
    """Return the group table of each target."""
    return [
        answer if isinstance(answer, RocketMQError) else answer.value.subscription_group_table
        for answer in group_replies(admin, targets)
    ]


def known_groups(
    admin: AdminSession, targets: Sequence[Target]
) -> tuple[set[str], list[TargetError]]:
    """Return the groups of the targets that answer, and the errors of the others."""
    good, errors = part_errors(targets, group_tables(admin, targets))
    return {name for _, table in good for name in table}, errors


def group_replies(
    admin: AdminSession, targets: Sequence[Target]
) -> Sequence[Reply | RocketMQError]:
    """Return the response of each target to the request for its group table."""
    return admin.call_all(
        [
            (target.address, build_request(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, {}))
            for target in targets
        ]
    )


def patched(
    config: SubscriptionGroupConfig, settings: Mapping[str, Any]
) -> SubscriptionGroupConfig:
    """Return the configuration with some fields (wire names) replaced; ClientError if unknown."""
    wire = group_config_to_wire(config)
    settable = sorted(set(wire) - _NOT_SETTABLE)
    for name, value in settings.items():
        if name not in settable:
            raise ClientError(
                f"a group has no setting {name}", f"settings are {', '.join(settable)}"
            )
        wire[name] = value
    after = group_config_from_wire(wire)
    if after.retry_queue_nums < 0 or after.retry_max_times < -1:
        raise ClientError("retryQueueNums and retryMaxTimes cannot be negative")
    return after


def _check_name(group: str) -> None:
    reason = check_group_name(group)
    if reason is not None:
        raise ClientError(f"group {group!r}: {reason}")


def _record(config: SubscriptionGroupConfig, target: Target) -> GroupRecord:
    return GroupRecord(
        group=config.group_name,
        cluster_name=target.cluster_name,
        broker_name=target.broker_name,
        consume_enable=config.consume_enable,
        consume_from_min_enable=config.consume_from_min_enable,
        consume_broadcast_enable=config.consume_broadcast_enable,
        consume_message_orderly=config.consume_message_orderly,
        retry_queue_nums=config.retry_queue_nums,
        retry_max_times=config.retry_max_times,
        broker_id=config.broker_id,
        which_broker_when_consume_slowly=config.which_broker_when_consume_slowly,
        notify_consumer_ids_changed_enable=config.notify_consumer_ids_changed_enable,
        group_sys_flag=config.group_sys_flag,
        consume_timeout_minute=config.consume_timeout_minute,
        group_retry_policy=config.group_retry_policy,
        attributes=config.attributes,
    )


def group_state(config: SubscriptionGroupConfig) -> Mapping[str, Any]:
    """Return the fields that can be set, with their wire names."""
    wire = group_config_to_wire(config)
    return {name: value for name, value in wire.items() if name not in _NOT_SETTABLE}


def group_change(
    target: Target, before: SubscriptionGroupConfig | None, after: SubscriptionGroupConfig
) -> Change:
    """Return the change of one target; ``before`` None: the group is created."""
    return config_change(
        target,
        None if before is None else group_state(before),
        group_state(after),
        lambda: Request(
            address=target.address,
            code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
            body=_body(after),
        ),
    )


def _body(config: SubscriptionGroupConfig) -> bytes:
    """Encode the request body. Attributes are sent as signed changes, so {} keeps them."""
    wire = group_config_to_wire(config)
    wire["attributes"] = {}
    return dumps(wire).encode("utf-8")
