"""Clusters and their brokers."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

from broker.remoting.protocol.body.base import Body
from broker.remoting.protocol.body.namesrv.route import BrokerData


class ClusterInfo(Body, frozen=True, kw_only=True):
    """GET_BROKER_CLUSTER_INFO (106); broker ids are always unquoted integers here.

    **Source:** RocketMQ ``ClusterInfo``.
    """

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class BrokerMemberGroup(Body, frozen=True, kw_only=True):
    """The brokers of one name: broker id to address.

    **Source:** RocketMQ ``BrokerMemberGroup``.
    """

    cluster: str | None = None
    broker_name: str | None = None
    broker_addrs: dict[int, str] = {}


class GetBrokerMemberGroupResponseBody(Body, frozen=True, kw_only=True):
    """GET_BROKER_MEMBER_GROUP (901).

    **Source:** RocketMQ ``GetBrokerMemberGroupResponseBody``.
    """

    broker_member_group: BrokerMemberGroup | None = None
