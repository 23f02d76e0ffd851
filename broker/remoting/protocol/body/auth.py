"""Users and access rules (ACL 2.0, 5.3.0)."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

from broker.remoting.protocol.body.base import Body, ListBody


class UserInfo(Body, frozen=True, kw_only=True):
    """A user: type Super or Normal, status enable or disable; the password is sent in clear.

    **Source:** RocketMQ ``UserInfo``.
    """

    username: str | None = None
    password: str | None = None
    user_type: str | None = None
    user_status: str | None = None


class UserList(ListBody, frozen=True, kw_only=True):
    """AUTH_LIST_USER (3005): a bare array."""

    items: list[UserInfo] = []


class PolicyEntryInfo(Body, frozen=True, kw_only=True):
    """The allowed or denied actions on a resource by source address; decision Allow or Deny.

    **Source:** RocketMQ ``AclInfo.PolicyEntryInfo``.
    """

    resource: str | None = None
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    decision: str | None = None


class PolicyInfo(Body, frozen=True, kw_only=True):
    """Rules of one type: Custom (also if absent) or Default.

    **Source:** RocketMQ ``AclInfo.PolicyInfo``.
    """

    policy_type: str | None = None
    entries: list[PolicyEntryInfo] | None = None


class AclInfo(Body, frozen=True, kw_only=True):
    """The rules of one subject, e.g. ``User:alice``.

    **Source:** RocketMQ ``AclInfo``.
    """

    subject: str | None = None
    policies: list[PolicyInfo] | None = None


class AclList(ListBody, frozen=True, kw_only=True):
    """AUTH_LIST_ACL (3010): a bare array."""

    items: list[AclInfo] = []
