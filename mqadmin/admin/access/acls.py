"""Access rules of brokers: list, get, create, update, delete.

A subject (``User:alice``) has policies of type Custom or Default, each with one entry per resource
(``Topic:orders``, ``Group:*``, ``Topic:pre*``): actions, source addresses, Allow or Deny. Brokers
merge new rules into the policies of the subject. Each broker process stores its rules.

**Source:** RocketMQ ``CreateAclSubCommand``, ``AuthorizationMetadataManagerImpl``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from broker.errors import ClientError, ConfigError, RocketMQError
from broker.remoting.protocol.body.auth import AclInfo, PolicyEntryInfo, PolicyInfo
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.rpc.caller import build_request
from mqadmin.admin.access.replies import EntryReader, found_values
from mqadmin.admin.change import State, apply_plan
from mqadmin.admin.failure import part_errors
from mqadmin.admin.result import Change, Listing, Outcome, Plan, Request
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

CUSTOM = "Custom"

#: **Source:** RocketMQ ``Action``; Unknown and Any, which brokers refuse in a rule, are left out.
ACTIONS = ("All", "Pub", "Sub", "Create", "Update", "Delete", "Get", "List")

#: **Source:** RocketMQ ``ResourceType``.
RESOURCE_TYPES = ("Any", "Cluster", "Namespace", "Topic", "Group")


class AclRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One rule of a subject on one broker process; no ``sourceIps``: any address."""

    subject: str
    policy_type: str
    resource: str
    actions: Sequence[str]
    source_ips: Sequence[str]
    decision: str | None
    cluster_name: str | None
    broker_name: str | None
    address: str


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule to set: ``resources`` as ``Topic:orders``, ``decision`` Allow or Deny."""

    subject: str
    resources: Sequence[str]
    actions: Sequence[str]
    decision: str
    source_ips: Sequence[str] = ()


class AclAdmin:
    """Queries and changes of access rules."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin
        self._rules = EntryReader(
            admin,
            get_code=RequestCode.AUTH_GET_ACL,
            list_code=RequestCode.AUTH_LIST_ACL,
            name_field="subject",
            missing=_no_rules,
        )

    def list(
        self,
        *,
        subject: str | None = None,
        resource: str | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> Listing[AclRecord]:
        """Return one record per rule and broker process; the filters are parts of the names."""
        targets = self._admin.topology.processes(cluster=cluster, broker=broker)
        answers = found_values(
            self._admin,
            targets,
            RequestCode.AUTH_LIST_ACL,
            subject_filter=subject,
            resource_filter=resource,
        )
        good, errors = part_errors(targets, answers)
        items = [
            record
            for target, found in good
            for info in (found.items if found is not None else ())
            for record in _records(info, target)
        ]
        return Listing(items=items, errors=errors)

    def get(
        self, subject: str, *, cluster: str | None = None, broker: str | None = None
    ) -> Listing[AclRecord]:
        """Return the rules of a subject on each broker process that has some."""
        targets = self._admin.topology.processes(cluster=cluster, broker=broker)
        good, errors = part_errors(targets, self._rules.named(targets, subject))
        items = [record for target, info in good if info for record in _records(info, target)]
        return Listing(items=items, errors=errors)

    def plan_create(
        self, rule: Rule, *, cluster: str | None = None, broker: str | None = None
    ) -> Plan:
        """Plan new rules; ClientError if the subject has a rule for one of the resources."""
        _check(rule)
        targets = self._rules.targets(cluster, broker)
        good, errors = part_errors(targets, self._rules.named(targets, rule.subject))
        changes = []
        for target, info in good:
            before = None if info is None else _state(info)
            there = [name for name in rule.resources if before and _name(CUSTOM, name) in before]
            if there:
                raise ClientError(
                    f"{rule.subject} has a rule for {', '.join(there)} on {target.label}",
                    "mqadmin acl update changes it",
                )
            changes.append(_set(target, "create", before, rule))
        return Plan(kind="acl.create", subject=rule.subject, changes=changes, errors=errors)

    def plan_update(
        self, rule: Rule, *, cluster: str | None = None, broker: str | None = None
    ) -> Plan:
        """Plan a change of a subject's rules; rules for other resources are kept."""
        _check(rule)
        found, errors = self._rules.existing(rule.subject, cluster, broker)
        changes = [_set(target, "update", _state(info), rule) for target, info in found]
        return Plan(kind="acl.update", subject=rule.subject, changes=changes, errors=errors)

    def plan_delete(
        self,
        subject: str,
        *,
        resource: str | None = None,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> Plan:
        """Plan to remove the rule for ``resource``, or all rules of a subject."""
        found, errors = self._rules.existing(subject, cluster, broker)
        changes = []
        for target, info in found:
            before = _state(info)
            after = _without(before, resource)
            if after == before:
                raise ClientError(
                    f"{subject} has no rule for {resource} on {target.label}",
                    "mqadmin acl get shows the rules of a subject",
                )
            fields = {"subject": subject, "resource": resource}
            changes.append(
                Change(
                    target=target.label,
                    address=target.address,
                    action="delete",
                    before=before,
                    after=after,
                    request=_request(target, RequestCode.AUTH_DELETE_ACL, fields),
                )
            )
        return Plan(kind="acl.delete", subject=subject, changes=changes, errors=errors)

    def copy_plans(self, source: str, target: str, subjects: Sequence[str] = ()) -> Iterator[Plan]:
        """Yield the plan of each subject whose rules are copied from one broker to another.

        ClientError for a subject that the source does not have.

        **Source:** RocketMQ ``CopyAclsSubCommand``.
        """
        (place,) = self._admin.topology.named(target)[:1]
        for name, info in self._rules.to_copy(source, subjects):
            good, errors = part_errors([place], self._rules.named([place], name))
            changes = [
                _put(there, None if one is None else _state(one), info, _state(info))
                for there, one in good
            ]
            yield Plan(kind="acl.copy", subject=name, changes=changes, errors=errors)

    def apply(self, plan: Plan) -> Outcome:
        """Apply a plan of this noun; see :func:`~mqadmin.admin.change.apply_plan`."""
        self._admin.renew()
        return apply_plan(self._admin, plan, self._states)

    def _states(self, plan: Plan) -> Sequence[State | RocketMQError]:
        return self._rules.states(plan, _state)


def _no_rules(subject: str, place: str) -> ClientError:
    return ClientError(f"{subject} has no rules on {place}", "mqadmin acl list lists the rules")


def _check(rule: Rule) -> None:
    """ConfigError for a rule that brokers refuse or misread."""
    kind, _, name = rule.subject.partition(":")
    if kind != "User" or not name:
        raise ConfigError(f"subject {rule.subject!r} is not User:NAME", "example: User:alice")
    if not rule.resources or not rule.actions:
        raise ConfigError("a rule needs a resource and an action")
    for resource in rule.resources:
        kind, separator, name = resource.partition(":")
        plain = resource == "*"
        if not plain and (kind not in RESOURCE_TYPES or not separator or not name):
            raise ConfigError(
                f"resource {resource!r} is not TYPE:NAME",
                f"types: {', '.join(RESOURCE_TYPES)}; example: Topic:orders, Group:*",
            )
    for action in rule.actions:
        if action not in ACTIONS:
            raise ConfigError(f"{action!r} is not an action", "one of " + ", ".join(ACTIONS))


def _records(info: Any, target: Target) -> Iterator[AclRecord]:
    for policy in info.policies or ():
        for entry in policy.entries or ():
            yield AclRecord(
                subject=info.subject or "",
                policy_type=policy.policy_type or CUSTOM,
                resource=entry.resource or "",
                actions=entry.actions or [],
                source_ips=entry.source_ips or [],
                decision=entry.decision,
                cluster_name=target.cluster_name,
                broker_name=target.broker_name,
                address=target.address,
            )


def _name(policy_type: str, resource: str) -> str:
    return resource if policy_type == CUSTOM else f"{policy_type} {resource}"


def _rule_text(actions: Sequence[str], source_ips: Sequence[str], decision: str | None) -> str:
    """Return a rule as one word per part; the order of actions and addresses does not matter."""
    source = f" from {','.join(sorted(source_ips))}" if source_ips else ""
    return f"{decision} {','.join(sorted(actions))}{source}"


def _state(info: Any) -> Mapping[str, Any]:
    """Return resource → rule; resources of the policy type Default are preceded by it."""
    return {
        _name(policy.policy_type or CUSTOM, entry.resource or ""): _rule_text(
            entry.actions or (), entry.source_ips or (), entry.decision
        )
        for policy in info.policies or ()
        for entry in policy.entries or ()
    }


def _without(before: Mapping[str, Any], resource: str | None) -> Mapping[str, Any] | None:
    """Return the state after a removal; None marks the removed rule, no state is left without any.

    Brokers remove the rule of the resource from every policy of the subject.
    """
    if resource is None:
        return None
    gone = {name for name in before if name.split(" ")[-1] == resource}
    if gone == set(before):
        return None
    return {name: None if name in gone else rule for name, rule in before.items()}


def _set(target: Target, action: str, before: Mapping[str, Any] | None, rule: Rule) -> Change:
    text = _rule_text(rule.actions, rule.source_ips, rule.decision)
    after = {**(before or {}), **dict.fromkeys(rule.resources, text)}
    info = AclInfo(
        subject=rule.subject,
        policies=[
            PolicyInfo(
                policy_type=CUSTOM,
                entries=[
                    PolicyEntryInfo(
                        resource=resource,
                        actions=list(rule.actions),
                        source_ips=list(rule.source_ips) or None,
                        decision=rule.decision,
                    )
                    for resource in rule.resources
                ],
            )
        ],
    )
    return _put(target, before, info, after, action)


def _put(
    target: Target,
    before: Mapping[str, Any] | None,
    info: Any,
    after: Mapping[str, Any],
    action: str = "",
) -> Change:
    """Plan to send the rules of a subject: created if it has none, else merged by the broker."""
    code = RequestCode.AUTH_CREATE_ACL if before is None else RequestCode.AUTH_UPDATE_ACL
    return Change(
        target=target.label,
        address=target.address,
        action=action or ("create" if before is None else "update"),
        before=before,
        after=after,
        request=None
        if before == after
        else _request(target, code, {"subject": info.subject}, info.to_bytes()),
    )


def _request(target: Target, code: int, fields: Mapping[str, Any], body: bytes = b"") -> Request:
    return Request(
        address=target.address,
        code=code,
        ext_fields=build_request(code, fields).ext_fields,
        body=body,
    )
