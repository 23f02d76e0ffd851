"""Metadata of a cluster: export, differences to a file, and the plan that applies a file.

Nothing is deleted: objects that only the cluster has are reported and kept.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from broker.common.clock import Clock, SystemClock
from broker.common.config.properties import format_properties
from broker.common.group import SubscriptionGroupConfig
from broker.common.topic import TopicConfig, topic_config_from_wire, topic_config_to_wire
from broker.errors import ClientError, RocketMQError
from broker.remoting.protocol.body.auth import UserInfo
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.brokers.settings import check_setting
from mqadmin.admin.change import State, apply_plan
from mqadmin.admin.failure import describe
from mqadmin.admin.group import group_change, patched
from mqadmin.admin.metadata.metadata_file import (
    ACL,
    GROUP,
    KINDS,
    KV,
    SETTING,
    TOPIC,
    USER,
    MetadataFile,
    MetadataItem,
    merged_items,
)
from mqadmin.admin.metadata.passwords import Passwords, password_of
from mqadmin.admin.metadata.snapshot import Key, Snapshot, acl_info, read_snapshot
from mqadmin.admin.namesrv.library import NAMESRV_STEP, ORDER_TOPIC_CONFIG
from mqadmin.admin.result import Change, Listing, Outcome, Plan, Request, TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topic import check_config, topic_change
from mqadmin.admin.topology import Target

USER_STEP: Final = -1
"""Step of users: brokers refuse the rules of a user that they do not have."""

MISSING, DIFFERS, EXTRA = "missing", "differs", "extra"


class MetadataDifference(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One object that differs on one peer.

    ``status`` is missing (only the file has it), differs, or extra (only the cluster has it).
    ``file`` and ``cluster`` are the fields that differ, null where there is no object.
    """

    kind: str
    name: str
    target: str
    address: str
    status: str
    file: Mapping[str, Any] | None
    cluster: Mapping[str, Any] | None


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """The selection: objects of ``kinds``, without the fields ``ignored``, in one ``cluster``."""

    kinds: Sequence[str]
    ignored: frozenset[str] = frozenset()
    cluster: str | None = None
    namespaces: Sequence[str] = (ORDER_TOPIC_CONFIG,)


def scope_of(
    only: Sequence[str] | None,
    ignored: Sequence[str] | None,
    *,
    cluster: str | None,
    namespaces: Sequence[str] | None,
    settings: bool,
) -> Scope:
    """Return the scope of a command line; ``settings`` False leaves out those of brokers."""
    kinds = only or [kind for kind in KINDS if settings or kind != SETTING]
    return Scope(
        kinds=kinds,
        ignored=frozenset(ignored or ()),
        cluster=cluster,
        namespaces=namespaces or (ORDER_TOPIC_CONFIG,),
    )


class MetadataAdmin:
    """Export, comparison and plans of metadata."""

    def __init__(self, admin: AdminSession, clock: Clock | None = None) -> None:
        self._admin = admin
        self._clock = clock or SystemClock()

    def export(self, scope: Scope) -> tuple[MetadataFile, Listing[MetadataItem]]:
        """Return the content of a file and the same items with the errors of peers."""
        cluster = scope.cluster or self._admin.topology.only_cluster()
        found, labels = self._read(msgspec.structs.replace(scope, cluster=cluster))
        objects: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = {}
        for (address, kind, name), fields in found.states.items():
            # The processes of one broker have the same name: the first one, its master, counts.
            objects.setdefault((kind, name), {}).setdefault(labels[address], fields)
        brokers = sorted({one.label for one in self._masters(cluster)})
        items: list[MetadataItem] = []
        for (kind, name), states in sorted(objects.items()):
            peers = sorted(self._admin.namesrv_addresses) if kind == KV else brokers
            merged = merged_items(kind, name, states, peers)
            if kind == KV:  # name servers of another cluster have other addresses
                merged = [msgspec.structs.replace(merged[0], broker_name=None)]
            items += merged
        content = MetadataFile(
            cluster=cluster, exported_timestamp=self._clock.now_ms(), items=items
        )
        return content, Listing(items=items, errors=found.errors, notes=found.notes)

    def diff(self, content: MetadataFile, scope: Scope) -> Listing[MetadataDifference]:
        """Compare a file with the cluster, object by object and peer by peer."""
        scope = self._with_namespaces(content, scope)
        found, labels = self._read(scope)
        wanted, errors = self._wanted(content, scope)
        rows: list[MetadataDifference] = []
        for key, fields in wanted.items():
            address, kind, name = key
            if (address, kind) in found.failed:
                continue
            present = found.states.get(key)
            before, after = _differing(present, fields, scope.ignored)
            if present is not None and not after:
                continue
            rows.append(
                MetadataDifference(
                    kind=kind,
                    name=name,
                    target=labels.get(address, address),
                    address=address,
                    status=MISSING if present is None else DIFFERS,
                    file=after,
                    cluster=None if present is None else before,
                )
            )
        rows += [
            MetadataDifference(
                kind=kind,
                name=name,
                target=labels.get(address, address),
                address=address,
                status=EXTRA,
                file=None,
                cluster=fields,
            )
            for (address, kind, name), fields in found.states.items()
            if (address, kind, name) not in wanted and kind != SETTING
        ]
        rows.sort(key=lambda row: (row.kind, row.name, row.target))
        return Listing(items=rows, errors=[*found.errors, *errors], notes=found.notes)

    def plan(self, content: MetadataFile, scope: Scope, passwords: Passwords | None = None) -> Plan:
        """Plan the objects that the file has and the cluster lacks or has with other fields.

        A user that a broker lacks is created with its password in ``passwords``; without one the
        plan has an error that names the user.
        """
        scope = self._with_namespaces(content, scope)
        found, labels = self._read(scope)
        wanted, errors = self._wanted(content, scope)
        changes: list[Change] = []
        warnings = list(found.notes)
        for key, fields in wanted.items():
            if key[:2] in found.failed:
                continue
            present = found.states.get(key)
            before, after = _differing(present, fields, scope.ignored)
            if present is not None and not after:
                continue
            target = Target(address=key[0], broker_name=labels.get(key[0]))
            try:
                change = _change(key, target, found, before, after, warnings, passwords=passwords)
                changes.append(change)
            except RocketMQError as error:
                errors.append(describe(error, address=target.address, target=target.label))
        changes = [one for one in changes if not one.unchanged]
        return Plan(
            kind="metadata.apply",
            subject="metadata",
            changes=changes,
            errors=[*found.errors, *errors],
            warnings=warnings,
        )

    def apply(self, plan: Plan) -> Outcome:
        """Apply a plan; see :func:`~mqadmin.admin.change.apply_plan`."""
        self._admin.renew()
        return apply_plan(self._admin, plan, self._states)

    # --- reading --------------------------------------------------------------------------

    def _masters(self, cluster: str | None) -> Sequence[Target]:
        return self._admin.topology.writers(cluster=cluster)

    def _read(self, scope: Scope) -> tuple[Snapshot, Mapping[str, str]]:
        """Return the objects of the cluster, and the name of each peer by address."""
        cluster = scope.cluster or self._admin.topology.only_cluster()
        processes = self._admin.topology.all(cluster=cluster)
        found = read_snapshot(
            self._admin,
            scope.kinds,
            masters=self._masters(cluster),
            processes=processes,
            namespaces=scope.namespaces,
        )
        labels = {one.address: one.label for one in processes}
        labels |= {address: address for address in self._admin.namesrv_addresses}
        return found, labels

    @staticmethod
    def _with_namespaces(content: MetadataFile, scope: Scope) -> Scope:
        names = {item.name.partition("/")[0] for item in content.items if item.kind == KV}
        return msgspec.structs.replace(scope, namespaces=sorted(names | set(scope.namespaces)))

    def _wanted(
        self, content: MetadataFile, scope: Scope
    ) -> tuple[dict[Key, dict[str, Any]], list[TargetError]]:
        """Return the wanted fields per object and peer; an absent broker is an error."""
        cluster = scope.cluster or self._admin.topology.only_cluster()
        masters, processes = self._masters(cluster), self._admin.topology.all(cluster=cluster)
        wanted: dict[Key, dict[str, Any]] = {}
        errors: list[TargetError] = []
        for item in content.items:
            if item.kind not in scope.kinds:
                continue
            if item.kind == KV:
                addresses = list(self._admin.namesrv_addresses)
            else:
                peers = processes if item.kind in (USER, ACL) else masters
                addresses = [
                    one.address for one in peers if item.broker_name in (None, one.broker_name)
                ]
            if not addresses:
                errors.append(_no_broker(item, cluster))
            for address in addresses:
                wanted.setdefault((address, item.kind, item.name), {}).update(item.fields)
        return wanted, errors

    def _states(self, plan: Plan) -> Sequence[State | RocketMQError]:
        """Return the present fields of each object of a plan; each table is read once."""
        keys = [(one.address, *_kind_and_name(one.subject)) for one in plan.changes]
        kinds = {kind for _, kind, _ in keys}
        brokers = {address for address, kind, _ in keys if kind != KV}
        targets = [Target(address=address) for address in sorted(brokers)]
        found = read_snapshot(
            self._admin,
            kinds,
            masters=targets,
            processes=targets,
            namespaces=sorted({name.partition("/")[0] for _, kind, name in keys if kind == KV}),
        )
        failed = {error.address: error for error in found.errors}
        return [
            ClientError(failed[key[0]].message)
            if key[:2] in found.failed
            else found.states.get(key)
            for key in keys
        ]


def _kind_and_name(subject: str) -> tuple[str, str]:
    kind, _, name = subject.partition(" ")
    return kind, name


def _no_broker(item: MetadataItem, cluster: str) -> TargetError:
    return TargetError(
        kind="client",
        message=f"{item.kind} {item.name}: cluster {cluster} has no broker {item.broker_name}",
        hint="the file has other fields for each broker: edit its brokerName",
        target=item.broker_name,
    )


def _differing(
    present: Mapping[str, Any] | None, wanted: Mapping[str, Any], ignored: frozenset[str]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the fields that differ, of the cluster and of the file; all of a missing object."""
    if present is None:
        return {}, wanted
    names = [
        name for name, value in wanted.items() if name not in ignored and present.get(name) != value
    ]
    return {name: present.get(name) for name in names}, {name: wanted[name] for name in names}


def _change(
    key: Key,
    target: Target,
    found: Snapshot,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    warnings: list[str],
    *,
    passwords: Passwords | None,
) -> Change:
    """Return the change of one object; ClientError or ConfigError where it cannot be made."""
    address, kind, name = key
    if kind in (TOPIC, GROUP):
        make = _topic_change if kind == TOPIC else _group_change
        return msgspec.structs.replace(make(key, target, found, after), subject=f"{kind} {name}")
    present = found.states.get(key)
    if kind == SETTING:
        after = _known_settings(target, present or {}, after, warnings)
        before = {name: before[name] for name in after}
    return Change(
        target=target.label,
        address=address,
        action="create" if present is None else "update",
        before=None if present is None else before,
        after=after,
        step={KV: NAMESRV_STEP, USER: USER_STEP}.get(kind, 0),
        request=_request(key, present is None, after, passwords) if after else None,
        subject=f"{kind} {name}",
    )


def _topic_change(key: Key, target: Target, found: Snapshot, fields: Mapping[str, Any]) -> Change:
    present = found.configs.get(key)
    old = present if isinstance(present, TopicConfig) else None
    base = old or TopicConfig(topic_name=key[2])
    new = topic_config_from_wire({**topic_config_to_wire(base), **fields})
    check_config(new)
    words = [f"+{name}={value}" for name, value in new.attributes.items()]
    words += [f"-{name}" for name in base.attributes if name not in new.attributes]
    return topic_change(target, old, new, words)


def _group_change(key: Key, target: Target, found: Snapshot, fields: Mapping[str, Any]) -> Change:
    present = found.configs.get(key)
    old = present if isinstance(present, SubscriptionGroupConfig) else None
    base = old or SubscriptionGroupConfig(group_name=key[2])
    return group_change(target, old, patched(base, fields))


def _known_settings(
    target: Target, present: Mapping[str, str], wanted: Mapping[str, str], warnings: list[str]
) -> Mapping[str, str]:
    """Return the settings that a broker has; one of another release is a warning."""
    for name in wanted:
        if name in present:
            check_setting(name, wanted[name], present, target.label)
        else:
            warnings.append(f"{target.label} has no setting {name}: left out")
    return {name: value for name, value in wanted.items() if name in present}


def _request(key: Key, new: bool, after: Mapping[str, Any], passwords: Passwords | None) -> Request:
    """Return the request that sets a KV entry, user, subject or the settings of a broker."""
    address, kind, name = key
    body = b""
    fields: dict[str, Any] = {}
    if kind == KV:
        code = RequestCode.PUT_KV_CONFIG
        namespace, _, entry = name.partition("/")
        fields = {"namespace": namespace, "key": entry, "value": after["value"]}
    elif kind == SETTING:
        code = RequestCode.UPDATE_BROKER_CONFIG
        body = format_properties(after).encode()
    elif kind == ACL:
        code = RequestCode.AUTH_CREATE_ACL if new else RequestCode.AUTH_UPDATE_ACL
        fields = {"subject": name}
        body = acl_info(name, after).to_bytes()
    else:
        code = RequestCode.AUTH_CREATE_USER if new else RequestCode.AUTH_UPDATE_USER
        fields = {"username": name}
        body = UserInfo(
            username=name,
            password=password_of(name, passwords) if new else None,
            user_type=after.get("userType"),
            user_status=after.get("userStatus"),
        ).to_bytes()
    command = build_request(code, fields)
    return Request(address=address, code=code, ext_fields=command.ext_fields, body=body)
