"""Name servers: they share no state, so that each is asked and changed by itself."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from broker.common.config.properties import format_properties
from broker.errors import BrokerError, RocketMQError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.rpc.caller import Reply, build_request
from mqadmin.admin.brokers.one_shot import send_plan
from mqadmin.admin.brokers.settings import check_setting
from mqadmin.admin.change import State, apply_plan
from mqadmin.admin.failure import part_errors
from mqadmin.admin.result import Change, Listing, Outcome, Plan, Request
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topology import Target

ORDER_TOPIC_CONFIG = "ORDER_TOPIC_CONFIG"
"""The namespace of the order configuration of topics."""

NAMESRV_STEP = 1
"""Step of changes on name servers; the addresses of step 0 are brokers."""


class NamesrvConfigRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The configuration of one name server: camelCase key → value, sorted by key."""

    address: str
    config: Mapping[str, str]


class KvRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One entry of the KV configuration of one name server."""

    address: str
    namespace: str
    key: str
    value: str


class NamesrvAdmin:
    """Queries and changes of name servers."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin

    def config(self) -> Listing[NamesrvConfigRecord]:
        """Return the configuration of every name server."""
        good, errors = part_errors(self._servers(), self._configs())
        items = [
            NamesrvConfigRecord(address=target.address, config=dict(sorted(found.items())))
            for target, found in good
        ]
        return Listing(items=items, errors=errors)

    def kv_list(self, namespace: str) -> Listing[KvRecord]:
        """Return the entries of a namespace on every name server, sorted by key."""
        answers = self._ask(RequestCode.GET_KVLIST_BY_NAMESPACE, namespace=namespace)
        good, errors = part_errors(self._servers(), answers)
        items = [
            KvRecord(address=target.address, namespace=namespace, key=key, value=value)
            for target, reply in good
            if reply.code == ResponseCode.SUCCESS
            for key, value in sorted(reply.value.table.items())
        ]
        return Listing(items=items, errors=errors)

    def kv_get(self, namespace: str, key: str) -> Listing[KvRecord]:
        """Return one entry on every name server that has it."""
        good, errors = part_errors(self._servers(), self._values(namespace, key))
        items = [
            KvRecord(address=target.address, namespace=namespace, key=key, value=value)
            for target, value in good
            if value is not None
        ]
        return Listing(items=items, errors=errors)

    def plan_config_set(self, values: Mapping[str, str]) -> Plan:
        """Plan to change settings on every name server.

        ConfigError for a key that a name server does not report (it would drop it), or a value of
        another type.
        """
        body = format_properties(values).encode()
        good, errors = part_errors(self._servers(), self._configs())
        changes: list[Change] = []
        for target, found in good:
            for key, value in values.items():
                place = f"name server {target.address}"
                check_setting(key, value, found, place, "mqadmin namesrv config show")
            before = {key: found[key] for key in values}
            changes.append(
                _change(
                    target.address,
                    "update",
                    before,
                    dict(values),
                    Request(
                        address=target.address, code=RequestCode.UPDATE_NAMESRV_CONFIG, body=body
                    ),
                )
            )
        return Plan(kind="namesrv.config", subject=";".join(values), changes=changes, errors=errors)

    def plan_kv_put(self, namespace: str, key: str, value: str) -> Plan:
        """Plan one entry with this value on every name server."""
        code = RequestCode.PUT_KV_CONFIG
        return self._kv_plan(
            code, {"namespace": namespace, "key": key, "value": value}, {"value": value}
        )

    def plan_kv_delete(self, namespace: str, key: str) -> Plan:
        """Plan to remove one entry from every name server that has it."""
        return self._kv_plan(
            RequestCode.DELETE_KV_CONFIG, {"namespace": namespace, "key": key}, None
        )

    def plan_write_perm(self, broker: str, *, allow: bool) -> Plan:
        """Plan to remove or restore the write permission of a broker's topics.

        It lasts until the name server restarts or the broker registers a changed topic table; the
        setting brokerPermission of the broker is permanent.

        **Source:** RocketMQ ``WipeWritePermSubCommand``, ``AddWritePermSubCommand``.
        """
        self._admin.topology.named(broker)  # ClientError for a name that is not registered
        code = RequestCode.ADD_WRITE_PERM_OF_BROKER
        if not allow:
            code = RequestCode.WIPE_WRITE_PERM_OF_BROKER
        action = f"{'add' if allow else 'wipe'} write permission"
        command = build_request(code, {"broker_name": broker})
        return Plan(
            kind="namesrv.write-perm",
            subject=broker,
            changes=[
                _change(
                    address,
                    action,
                    None,
                    None,
                    Request(address=address, code=code, ext_fields=command.ext_fields),
                )
                for address in self._admin.namesrv_addresses
            ],
        )

    def apply(self, plan: Plan) -> Outcome:
        """Apply a plan of this noun; of a write permission the read-back counts the topics."""
        if plan.kind == "namesrv.write-perm":
            return send_plan(self._admin, plan, lambda reply: {"topics": _topic_count(reply)})
        self._admin.renew()
        return apply_plan(self._admin, plan, self._states)

    # --- requests -------------------------------------------------------------------------

    def _servers(self) -> list[Target]:
        return [Target(address=address) for address in self._admin.namesrv_addresses]

    def _ask(self, code: int, **fields: Any) -> list[Reply | RocketMQError]:
        accept = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        return self._admin.ask_every_namesrv(code, accept=accept, **fields)

    def _configs(self) -> list[Mapping[str, str] | RocketMQError]:
        answers = self._admin.ask_every_namesrv(RequestCode.GET_NAMESRV_CONFIG)
        return [answer.properties if isinstance(answer, Reply) else answer for answer in answers]

    def _values(self, namespace: str, key: str) -> list[str | RocketMQError | None]:
        values: list[str | RocketMQError | None] = []
        for answer in self._ask(RequestCode.GET_KV_CONFIG, namespace=namespace, key=key):
            if isinstance(answer, BrokerError) or not isinstance(answer, Reply):
                values.append(answer)
            elif answer.code == ResponseCode.QUERY_NOT_FOUND:
                values.append(None)
            else:
                values.append(answer.header.value)
        return values

    def _kv_plan(
        self, code: int, fields: Mapping[str, str], after: Mapping[str, Any] | None
    ) -> Plan:
        namespace, key = fields["namespace"], fields["key"]
        command = build_request(code, fields)
        good, errors = part_errors(self._servers(), self._values(namespace, key))
        changes: list[Change] = []
        for target, value in good:
            action = "delete" if after is None else "create" if value is None else "update"
            request = Request(address=target.address, code=code, ext_fields=command.ext_fields)
            before = None if value is None else {"value": value}
            changes.append(_change(target.address, action, before, after, request))
        return Plan(kind="namesrv.kv", subject=f"{namespace}/{key}", changes=changes, errors=errors)

    def _states(self, plan: Plan) -> Sequence[State | RocketMQError]:
        """Return the present state per change; the plan has one change per name server."""
        found: dict[str, State | RocketMQError] = {}
        if plan.kind == "namesrv.kv":
            namespace, _, key = plan.subject.partition("/")
            for target, value in zip(self._servers(), self._values(namespace, key), strict=True):
                state = value if isinstance(value, RocketMQError) else _value_state(value)
                found[target.address] = state
        else:
            keys = plan.subject.split(";")
            for target, config in zip(self._servers(), self._configs(), strict=True):
                found[target.address] = (
                    config
                    if isinstance(config, RocketMQError)
                    else {key: config.get(key) for key in keys}
                )
        return [found[change.address] for change in plan.changes]


def _value_state(value: str | None) -> State:
    return None if value is None else {"value": value}


def _topic_count(reply: Reply) -> int:
    header = reply.header
    if reply.request_code == RequestCode.ADD_WRITE_PERM_OF_BROKER:
        return int(header.add_topic_count)
    return int(header.wipe_topic_count)


def _change(
    address: str,
    action: str,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    request: Request,
) -> Change:
    same = before == after and action not in ("wipe write permission", "add write permission")
    return Change(
        target=f"namesrv {address}",
        address=address,
        action=action,
        before=before,
        after=after,
        step=NAMESRV_STEP,
        request=None if same else request,
    )
