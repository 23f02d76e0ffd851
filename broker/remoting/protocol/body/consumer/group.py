"""Subscription groups on a broker."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

from typing import Self

from broker.common.group import (
    SubscriptionGroupConfig,
    group_config_from_wire,
    group_config_to_wire,
)
from broker.errors import RemoteProtocolError
from broker.remoting.protocol.body.base import Body
from broker.remoting.protocol.body.version import DataVersion


class SubscriptionGroupBody(Body, frozen=True, kw_only=True):
    """One group without wrapper object: UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200), GET_... (352).

    **Source:** RocketMQ ``SubscriptionGroupConfig``.
    """

    config: SubscriptionGroupConfig = SubscriptionGroupConfig()

    @classmethod
    def from_wire(cls, wire: object) -> Self:
        """Build the record from a decoded JSON object. Raises RemoteProtocolError."""
        if not isinstance(wire, dict):
            raise RemoteProtocolError(f"{cls.__name__}: an object is expected, not {wire!r:.60}")
        return cls(config=group_config_from_wire(wire))

    def to_wire(self) -> dict[str, object]:
        """Return the JSON object, fields in alphabetical order."""
        return group_config_to_wire(self.config)


class SubscriptionGroupWrapper(Body, frozen=True, kw_only=True):
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201).

    ``forbidden_table`` (5.x): group to topic to a bit mask, bit index 2 forbids reading.

    **Source:** RocketMQ ``SubscriptionGroupWrapper``.
    """

    subscription_group_table: dict[str, SubscriptionGroupConfig] = {}
    forbidden_table: dict[str, dict[str, int]] = {}
    data_version: DataVersion = DataVersion()


class SubscriptionGroupList(Body, frozen=True, kw_only=True):
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST (225).

    **Source:** RocketMQ ``SubscriptionGroupList``.
    """

    group_config_list: list[SubscriptionGroupConfig] = []


class GroupForbidden(Body, frozen=True, kw_only=True):
    """UPDATE_AND_GET_GROUP_FORBIDDEN (353).

    **Source:** RocketMQ ``GroupForbidden``.
    """

    topic: str | None = None
    group: str | None = None
    readable: bool | None = None


class GroupList(Body, frozen=True, kw_only=True):
    """QUERY_TOPIC_CONSUME_BY_WHO (300).

    **Source:** RocketMQ ``GroupList``.
    """

    group_list: list[str] = []
