"""Name servers: configuration, key-value entries, write permission of brokers.

Name servers share no state: every query and every change goes to each of them.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from broker.client.caller import Reply, build_request
from broker.common.properties import format_properties
from broker.errors import BrokerError, ClientError, RocketMQError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.failure import describe
from mqadmin.admin.result import Change, Listing, Plan, Request, TargetError

if TYPE_CHECKING:
    from mqadmin.admin.session import MQAdmin

State = Mapping[str, Any] | None


class NamesrvConfigRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The configuration of one name server: camelCase key → value, sorted by key."""

    address: str
    config: Mapping[str, str]


class KvRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One key-value entry of one name server."""

    address: str
    namespace: str
    key: str
    value: str


class NamesrvAdmin:
    """Queries and changes of name servers."""

    def __init__(self, admin: "MQAdmin") -> None:
        self._admin = admin

    def config(self) -> Listing[NamesrvConfigRecord]:
        """Return the configuration of every name server of the session."""
        items: list[NamesrvConfigRecord] = []
        errors: list[TargetError] = []
        for address, config in zip(self._admin.namesrv_addresses, self.configs(), strict=True):
            if isinstance(config, RocketMQError):
                errors.append(describe(config, address=address, target=address))
            else:
                items.append(NamesrvConfigRecord(address=address, config=config))
        return Listing(items=items, errors=errors)

    def configs(self) -> Sequence[Mapping[str, str] | RocketMQError]:
        """Return the configuration of each name server, in the session's order."""
        return [
            answer if isinstance(answer, RocketMQError) else dict(sorted(answer.properties.items()))
            for answer in self._admin.ask_every_namesrv(RequestCode.GET_NAMESRV_CONFIG)
        ]

    def plan_config(self, settings: Mapping[str, str]) -> Plan:
        """Plan to set keys on every name server; ClientError for keys one does not know."""
        changes: list[Change] = []
        listing = self.config()
        for record in listing.items:
            unknown = sorted(key for key in settings if key not in record.config)
            if unknown:
                raise ClientError(
                    f"name server {record.address} knows no setting {', '.join(unknown)}",
                    "settings are " + ", ".join(sorted(record.config)),
                )
            before = {key: record.config[key] for key in settings}
            changes.append(
                _change(
                    record.address,
                    before,
                    dict(settings),
                    Request(
                        address=record.address,
                        code=RequestCode.UPDATE_NAMESRV_CONFIG,
                        body=format_properties(dict(settings)).encode("utf-8"),
                    ),
                )
            )
        return Plan(
            kind="namesrv.config",
            subject=", ".join(settings),
            changes=changes,
            errors=listing.errors,
        )

    def kv_list(self, namespace: str) -> Listing[KvRecord]:
        """Return the entries of a namespace on every name server, sorted by key."""
        items: list[KvRecord] = []
        errors: list[TargetError] = []
        answers = self._admin.ask_every_namesrv(
            RequestCode.GET_KVLIST_BY_NAMESPACE, namespace=namespace
        )
        for address, answer in zip(self._admin.namesrv_addresses, answers, strict=True):
            if isinstance(answer, Reply):
                items += [
                    KvRecord(address=address, namespace=namespace, key=key, value=value)
                    for key, value in sorted(answer.value.table.items())
                ]
            elif not _not_found(answer):
                errors.append(describe(answer, address=address, target=address))
        return Listing(items=items, errors=errors)

    def kv_get(self, namespace: str, key: str) -> Listing[KvRecord]:
        """Return one entry from every name server that has it."""
        items: list[KvRecord] = []
        errors: list[TargetError] = []
        for address, state in zip(
            self._admin.namesrv_addresses, self.kv_states(namespace, key), strict=True
        ):
            if isinstance(state, RocketMQError):
                errors.append(describe(state, address=address, target=address))
            elif state is not None:
                items.append(
                    KvRecord(address=address, namespace=namespace, key=key, value=state["value"])
                )
        return Listing(items=items, errors=errors)

    def kv_states(self, namespace: str, key: str) -> Sequence[State | RocketMQError]:
        """Return the entry on each name server, in the session's order; None if missing."""
        states: list[State | RocketMQError] = []
        for answer in self._admin.ask_every_namesrv(
            RequestCode.GET_KV_CONFIG, namespace=namespace, key=key
        ):
            if isinstance(answer, Reply):
                value = answer.header.value
                states.append(None if value is None else {"value": value})
            else:
                states.append(None if _not_found(answer) else answer)
        return states

    def plan_kv_put(self, namespace: str, key: str, value: str) -> Plan:
        """Plan to set an entry on every name server."""
        return self._plan_kv("namesrv.kvput", namespace, key, {"value": value})

    def plan_kv_delete(self, namespace: str, key: str) -> Plan:
        """Plan to remove an entry from every name server."""
        return self._plan_kv("namesrv.kvdelete", namespace, key, None)

    def _plan_kv(self, kind: str, namespace: str, key: str, after: State) -> Plan:
        code = RequestCode.DELETE_KV_CONFIG if after is None else RequestCode.PUT_KV_CONFIG
        fields = {"namespace": namespace, "key": key, **(after or {})}
        changes: list[Change] = []
        errors: list[TargetError] = []
        for address, before in zip(
            self._admin.namesrv_addresses, self.kv_states(namespace, key), strict=True
        ):
            if isinstance(before, RocketMQError):
                errors.append(describe(before, address=address, target=address))
                continue
            wanted = Request(
                address=address, code=code, ext_fields=build_request(code, fields).ext_fields
            )
            changes.append(_change(address, before, after, wanted))
        return Plan(kind=kind, subject=f"{namespace}/{key}", changes=changes, errors=errors)

    def plan_write_perm(self, broker: str, *, add: bool) -> Plan:
        """Plan to wipe or add the write permission of a broker's topics in the name servers.

        It lasts until the broker registers with changed topics. The name servers report only the
        number of topics, so the state cannot be read back and every name server is a change.
        """
        self._admin.topology.named(broker)
        code = (
            RequestCode.ADD_WRITE_PERM_OF_BROKER if add else RequestCode.WIPE_WRITE_PERM_OF_BROKER
        )
        ext = build_request(code, {"broker_name": broker}).ext_fields
        changes = [
            Change(
                target=address,
                address=address,
                action="update",
                after={},
                before={},
                request=Request(address=address, code=code, ext_fields=ext),
                note="until the broker registers again",
            )
            for address in self._admin.namesrv_addresses
        ]
        return Plan(kind="namesrv.writeperm", subject=broker, changes=changes)


def read_states(admin: "MQAdmin", plan: Plan) -> Sequence[State | RocketMQError]:
    """Return the present state of each name server of a plan."""
    by_address: dict[str, State | RocketMQError]
    if plan.kind == "namesrv.config":
        by_address = dict(zip(admin.namesrv_addresses, admin.namesrv.configs(), strict=True))
    elif plan.kind == "namesrv.writeperm":
        by_address = {address: {} for address in admin.namesrv_addresses}
    else:
        namespace, _, key = plan.subject.partition("/")
        states = admin.namesrv.kv_states(namespace, key)
        by_address = dict(zip(admin.namesrv_addresses, states, strict=True))
    return [by_address[change.address] for change in plan.changes]


def _change(address: str, before: State, after: State, wanted: Request) -> Change:
    action = "delete" if after is None else "create" if before is None else "update"
    return Change(
        target=address,
        address=address,
        action=action,
        before=before,
        after=after,
        request=None if before == after else wanted,
    )


def _not_found(error: RocketMQError) -> bool:
    return isinstance(error, BrokerError) and error.code == ResponseCode.QUERY_NOT_FOUND
