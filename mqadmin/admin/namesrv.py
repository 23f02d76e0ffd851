"""Name servers: configuration and key-value entries."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from mqadmin.admin.result import Listing, Plan

if TYPE_CHECKING:
    from mqadmin.admin.session import MQAdmin


class NamesrvConfigRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The configuration of one name server: camelCase key → text, sorted."""

    address: str
    config: Mapping[str, str]


class KvRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One key-value entry as one name server keeps it."""

    address: str
    namespace: str
    key: str
    value: str


class NamesrvAdmin:
    """The questions and changes about name servers."""

    def __init__(self, admin: "MQAdmin") -> None:
        self._admin = admin

    def config(self) -> Listing[NamesrvConfigRecord]:
        """The configuration of every name server of the session."""
        raise NotImplementedError

    def plan_config(self, settings: Mapping[str, str]) -> Plan:
        """Plan to set keys on every name server."""
        raise NotImplementedError

    def kv_list(self, namespace: str) -> Listing[KvRecord]:
        """The entries of a namespace on every name server."""
        raise NotImplementedError

    def kv_get(self, namespace: str, key: str) -> Listing[KvRecord]:
        """One entry on every name server that has it."""
        raise NotImplementedError

    def plan_kv_put(self, namespace: str, key: str, value: str) -> Plan:
        """Plan to set an entry on every name server."""
        raise NotImplementedError

    def plan_kv_delete(self, namespace: str, key: str) -> Plan:
        """Plan to remove an entry from every name server."""
        raise NotImplementedError

    def plan_write_perm(self, broker: str, *, add: bool) -> Plan:
        """Plan to wipe or add the write permission of a broker's topics in the name servers."""
        raise NotImplementedError
