"""The name server: registration, routes, permissions."""

from msgspec import field

from broker.remoting.protocol.header.fields import (
    Int32,
    Int64,
    RequestHeader,
    ResponseHeader,
    TopicRequestHeader,
)


class RegisterBrokerRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """REGISTER_BROKER (103).

    ``broker_id`` 0 master; ``body_crc32`` CRC-32 of the body & 0x7FFFFFFF, 0 unchecked;
    ``heartbeat_timeout_millis`` ms without heartbeat until the broker is removed (5.x).

    **Source:** RocketMQ ``RegisterBrokerRequestHeader``.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: Int32 = field(name="bodyCrc32", default=0)
    zone_name: str | None = field(name="__ZONE_NAME", default=None)


class RegisterBrokerResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 103; the fields are set for a slave whose master is registered.

    **Source:** RocketMQ ``RegisterBrokerResponseHeader``.
    """

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBrokerRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """UNREGISTER_BROKER (104).

    **Source:** RocketMQ ``UnRegisterBrokerRequestHeader``.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """QUERY_DATA_VERSION (322).

    **Source:** RocketMQ ``QueryDataVersionRequestHeader``.
    """

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 322.

    **Source:** RocketMQ ``QueryDataVersionResponseHeader``.
    """

    changed: bool


class BrokerHeartbeatRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """BROKER_HEARTBEAT (904); a controller reads the optional fields, a name server does not.

    **Source:** RocketMQ ``BrokerHeartbeatRequestHeader``.
    """

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: Int64 | None = None
    epoch: Int32 | None = None
    max_offset: Int64 | None = None
    confirm_offset: Int64 | None = None
    heartbeat_timeout_mills: Int64 | None = None
    election_priority: Int32 | None = None


class GetBrokerMemberGroupRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """GET_BROKER_MEMBER_GROUP (901).

    **Source:** RocketMQ ``GetBrokerMemberGroupRequestHeader``.
    """

    cluster_name: str
    broker_name: str


class GetRouteInfoRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """GET_ROUTEINFO_BY_TOPIC (105).

    ``accept_standard_json_only`` requests quoted integer keys for any header version,
    ``zone_mode`` the brokers of ``zone_name`` alone.

    **Source:** RocketMQ ``GetRouteInfoRequestHeader``, ``ZoneRouteRPCHook``.
    """

    topic: str
    accept_standard_json_only: bool | None = None
    zone_mode: bool | None = field(name="__ZONE_MODE", default=None)
    zone_name: str | None = field(name="__ZONE_NAME", default=None)


class GetTopicsByClusterRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """GET_TOPICS_BY_CLUSTER (224).

    **Source:** RocketMQ ``GetTopicsByClusterRequestHeader``.
    """

    cluster: str


class BrokerNameRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """WIPE_WRITE_PERM_OF_BROKER (205), ADD_WRITE_PERM_OF_BROKER (327).

    **Source:** RocketMQ ``WipeWritePermOfBrokerRequestHeader``,
    ``AddWritePermOfBrokerRequestHeader``.
    """

    broker_name: str


class WipeWritePermResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 205: number of changed topics.

    **Source:** RocketMQ ``WipeWritePermOfBrokerResponseHeader``.
    """

    wipe_topic_count: Int32


class AddWritePermResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to 327: number of changed topics.

    **Source:** RocketMQ ``AddWritePermOfBrokerResponseHeader``.
    """

    add_topic_count: Int32


class DeleteTopicFromNamesrvRequestHeader(TopicRequestHeader, frozen=True, kw_only=True, gc=False):
    """DELETE_TOPIC_IN_NAMESRV (216); ``cluster_name`` limits it to that cluster's brokers (5.x).

    **Source:** RocketMQ ``DeleteTopicFromNamesrvRequestHeader``.
    """

    topic: str
    cluster_name: str | None = None
