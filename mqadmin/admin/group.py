"""Subscription groups: create, list, show, update as a patch, delete."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from mqadmin.admin.result import Listing, Plan

if TYPE_CHECKING:
    from mqadmin.admin.session import MQAdmin


class GroupRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The configuration of one group on one broker. Fields an old broker lacks are None."""

    group: str
    cluster_name: str | None
    broker_name: str | None
    consume_enable: bool
    consume_from_min_enable: bool
    consume_broadcast_enable: bool
    consume_message_orderly: bool | None
    retry_queue_nums: int
    retry_max_times: int
    broker_id: int
    which_broker_when_consume_slowly: int
    notify_consumer_ids_changed_enable: bool
    group_sys_flag: int | None
    consume_timeout_minute: int | None
    group_retry_policy: Mapping[str, Any] | None
    attributes: Mapping[str, str] | None


class GroupAdmin:
    """The questions and changes about subscription groups."""

    def __init__(self, admin: "MQAdmin") -> None:
        self._admin = admin

    def list(
        self, *, cluster: str | None = None, include_system: bool = True
    ) -> Listing[GroupRecord]:
        """One record per group and broker."""
        raise NotImplementedError

    def show(self, group: str) -> Listing[GroupRecord]:
        """The configuration of one group on each broker that has it."""
        raise NotImplementedError

    def plan_create(
        self,
        group: str,
        *,
        settings: Mapping[str, Any] | None = None,
        cluster: str | None = None,
        broker: str | None = None,
        if_not_exists: bool = False,
    ) -> Plan:
        """Plan a new group; ``settings`` use the wire names (``retryMaxTimes``)."""
        raise NotImplementedError

    def plan_update(
        self,
        group: str,
        *,
        settings: Mapping[str, Any],
        cluster: str | None = None,
        broker: str | None = None,
    ) -> Plan:
        """Plan a patch of the group on every broker that has it."""
        raise NotImplementedError

    def plan_delete(
        self,
        group: str,
        *,
        remove_offset: bool = False,
        cluster: str | None = None,
        broker: str | None = None,
    ) -> Plan:
        """Plan to remove the group's configuration; its retry and DLQ topics are left alone."""
        raise NotImplementedError
