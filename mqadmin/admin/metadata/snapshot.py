"""Reading the metadata of brokers and name servers: one request per kind and peer."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.common.group import SubscriptionGroupConfig, is_system_group
from broker.common.topic import DLQ_PREFIX, RETRY_PREFIX, TopicConfig, is_system_topic
from broker.errors import BrokerError, RocketMQError
from broker.remoting.protocol.body.auth import AclInfo, PolicyEntryInfo, PolicyInfo
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.access.acls import CUSTOM
from mqadmin.admin.access.replies import found_values
from mqadmin.admin.brokers.settings import IDENTITY
from mqadmin.admin.failure import describe
from mqadmin.admin.group import group_state
from mqadmin.admin.metadata.metadata_file import (
    ACL,
    GROUP,
    KV,
    SECRET,
    SETTING,
    SETTINGS_NAME,
    TOPIC,
    USER,
)
from mqadmin.admin.result import TargetError
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topic import topic_state
from mqadmin.admin.topology import Target

Key = tuple[str, str, str]
"""Address, kind and name of one object."""

_TABLES = {
    TOPIC: RequestCode.GET_ALL_TOPIC_CONFIG,
    GROUP: RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    SETTING: RequestCode.GET_BROKER_CONFIG,
}
_ACCESS = {USER: RequestCode.AUTH_LIST_USER, ACL: RequestCode.AUTH_LIST_ACL}

#: Codes that mean "no permission", so that they are not an absence of ACL 2.0.
_DENIED = frozenset({ResponseCode.NO_PERMISSION})


@dataclass
class Snapshot:
    """The objects found: ``states`` are their fields, ``configs`` topics and groups as decoded.

    ``failed`` are (address, kind) that could not be read, ``errors`` their reasons, ``notes``
    sentences for users.
    """

    states: dict[Key, Mapping[str, Any]] = field(default_factory=dict)
    configs: dict[Key, TopicConfig | SubscriptionGroupConfig] = field(default_factory=dict)
    failed: set[tuple[str, str]] = field(default_factory=set)
    errors: list[TargetError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def fail(self, target: Target, kind: str, error: RocketMQError) -> None:
        """Record that the objects of a kind could not be read from a peer."""
        self.failed.add((target.address, kind))
        found = describe(error, address=target.address, target=target.label)
        if found not in self.errors:
            self.errors.append(found)


def read_snapshot(
    admin: AdminSession,
    kinds: Iterable[str],
    *,
    masters: Sequence[Target],
    processes: Sequence[Target],
    namespaces: Iterable[str],
) -> Snapshot:
    """Read the objects of ``kinds``: topics, groups and settings of ``masters`` in parallel.

    Users and access rules are read from ``processes``, because each process stores its own; KV
    entries of ``namespaces`` from every name server. Objects of RocketMQ itself are left out, and
    retry and DLQ topics, which brokers create when they are needed.
    """
    wanted = set(kinds)
    found = Snapshot()
    asked = [(target, kind) for kind in _TABLES if kind in wanted for target in masters]
    answers = admin.call_all(
        [(target.address, build_request(_TABLES[kind], {})) for target, kind in asked]
    )
    own = _own_topics(masters)
    for (target, kind), answer in zip(asked, answers, strict=True):
        if isinstance(answer, RocketMQError):
            found.fail(target, kind, answer)
        elif kind == TOPIC:
            _add_topics(found, target, answer, own)
        elif kind == GROUP:
            for name, config in answer.value.subscription_group_table.items():
                if not is_system_group(name):
                    found.configs[target.address, GROUP, name] = config
                    found.states[target.address, GROUP, name] = group_state(config)
        else:
            found.states[target.address, SETTING, SETTINGS_NAME] = portable(answer.properties)
    for kind in (USER, ACL):
        if kind in wanted:
            _add_access(admin, found, processes, kind)
    if KV in wanted:
        _add_kv(admin, found, namespaces)
    return found


def portable(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that may apply to another broker: no identity, path, host or secret."""
    return {
        key: value
        for key, value in sorted(config.items())
        if key not in IDENTITY and "path" not in key.lower() and not SECRET.search(key)
    }


def acl_fields(info: AclInfo) -> dict[str, Any]:
    """Return resource → rule; the resources of the policy type Default are preceded by it."""
    fields: dict[str, Any] = {}
    for policy in info.policies or ():
        for entry in policy.entries or ():
            kind = policy.policy_type or CUSTOM
            name = entry.resource or ""
            fields[name if kind == CUSTOM else f"{kind} {name}"] = {
                "actions": sorted(entry.actions or ()),
                "sourceIps": sorted(entry.source_ips or ()),
                "decision": entry.decision,
            }
    return fields


def acl_info(subject: str, fields: Mapping[str, Any]) -> AclInfo:
    """Return the rules of a subject; the reverse of :func:`acl_fields`."""
    policies: dict[str, list[PolicyEntryInfo]] = {}
    for name, rule in fields.items():
        kind, separator, resource = name.rpartition(" ")
        policies.setdefault(kind if separator else CUSTOM, []).append(
            PolicyEntryInfo(
                resource=resource,
                actions=list(rule["actions"]),
                source_ips=list(rule["sourceIps"]) or None,
                decision=rule["decision"],
            )
        )
    return AclInfo(
        subject=subject,
        policies=[PolicyInfo(policy_type=kind, entries=rules) for kind, rules in policies.items()],
    )


def _own_topics(masters: Sequence[Target]) -> set[str]:
    """Return topics that brokers create for themselves under names no fixed list contains."""
    own: set[str] = set()
    for target in masters:
        cluster = target.cluster_name or ""
        own |= {target.broker_name or "", cluster, f"{cluster}_REPLY_TOPIC"}
    return own


def _add_topics(found: Snapshot, target: Target, reply: Reply, own: set[str]) -> None:
    for name, value in reply.value.topic_config_table.items():
        config = getattr(value, "topic_config", value)  # static topics have a mapping
        if is_system_topic(name) or name in own or name.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            continue
        found.configs[target.address, TOPIC, name] = config
        found.states[target.address, TOPIC, name] = topic_state(config)


def _add_access(
    admin: AdminSession, found: Snapshot, processes: Sequence[Target], kind: str
) -> None:
    """Add users or rules; a broker without ACL 2.0 refuses the request and has none of them."""
    answers = found_values(admin, processes, _ACCESS[kind])
    for target, answer in zip(processes, answers, strict=True):
        if isinstance(answer, BrokerError) and answer.code not in _DENIED:
            found.notes.append(f"{target.label} has no ACL 2.0: no {kind} of it")
        elif isinstance(answer, RocketMQError):
            found.fail(target, kind, answer)
        else:
            for info in answer.items if answer is not None else ():
                if kind == USER:
                    fields = {"userType": info.user_type, "userStatus": info.user_status}
                    found.states[target.address, USER, info.username or ""] = fields
                else:
                    found.states[target.address, ACL, info.subject or ""] = acl_fields(info)


def _add_kv(admin: AdminSession, found: Snapshot, namespaces: Iterable[str]) -> None:
    accept = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
    for namespace in namespaces:
        answers = admin.ask_every_namesrv(
            RequestCode.GET_KVLIST_BY_NAMESPACE, accept=accept, namespace=namespace
        )
        for address, answer in zip(admin.namesrv_addresses, answers, strict=True):
            if isinstance(answer, RocketMQError):
                found.fail(Target(address=address), KV, answer)
            elif answer.code == ResponseCode.SUCCESS:
                for key, value in answer.value.table.items():
                    found.states[address, KV, f"{namespace}/{key}"] = {"value": value}
