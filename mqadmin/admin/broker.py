"""Single brokers: runtime status and configuration."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from mqadmin.admin.result import Listing, Plan

if TYPE_CHECKING:
    from mqadmin.admin.session import MQAdmin


class BrokerStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The runtime information of one broker: RocketMQ's own keys and texts, sorted."""

    cluster_name: str | None
    broker_name: str | None
    broker_id: int | None
    address: str
    runtime: Mapping[str, str]


class BrokerConfigRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The effective configuration of one broker: camelCase key → text, sorted."""

    cluster_name: str | None
    broker_name: str | None
    broker_id: int | None
    address: str
    version: str | None
    config: Mapping[str, str]


class BrokerAdmin:
    """The questions about single brokers."""

    def __init__(self, admin: "MQAdmin") -> None:
        self._admin = admin

    def status(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> Listing[BrokerStatus]:
        """Runtime information of one broker (name or address), a cluster, or all."""
        raise NotImplementedError

    def config(
        self, *, broker: str | None = None, cluster: str | None = None
    ) -> Listing[BrokerConfigRecord]:
        """The effective configuration of one broker (name or address), a cluster, or all."""
        raise NotImplementedError

    def plan_config(
        self,
        settings: Mapping[str, str],
        *,
        broker: str | None = None,
        cluster: str | None = None,
    ) -> Plan:
        """Plan to set configuration keys; keys the broker does not know are refused here."""
        raise NotImplementedError
