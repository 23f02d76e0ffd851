"""Clients: registration, group members, requests from a broker to a client."""

from msgspec import field

from broker.remoting.protocol.header.fields import Int32, RequestHeader, ResponseHeader


class HeartbeatResponseHeader(ResponseHeader, frozen=True, kw_only=True, gc=False):
    """Response to HEART_BEAT (34) of a 5.x broker; a client without heartbeat v2 ignores it.

    **Source:** RocketMQ ``ClientManageProcessor#heartBeat``, ``MixAll#IS_SUB_CHANGE``.
    """

    support_heartbeat_v2: bool | None = field(name="IS_SUPPORT_HEART_BEAT_V2", default=None)
    subscription_changed: bool | None = field(name="IS_SUB_CHANGE", default=None)


class UnregisterClientRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """UNREGISTER_CLIENT (35).

    **Source:** RocketMQ ``UnregisterClientRequestHeader``.
    """

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerGroupRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """Codes 38, 40 and 203: a consumer group.

    **Source:** RocketMQ ``GetConsumerListByGroupRequestHeader``,
    ``NotifyConsumerIdsChangedRequestHeader``, ``GetConsumerConnectionListRequestHeader``.
    """

    consumer_group: str


class ProducerGroupRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """GET_PRODUCER_CONNECTION_LIST (204).

    **Source:** RocketMQ ``GetProducerConnectionListRequestHeader``.
    """

    producer_group: str


class GetConsumerRunningInfoRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """GET_CONSUMER_RUNNING_INFO (307), forwarded by the broker.

    **Source:** RocketMQ ``GetConsumerRunningInfoRequestHeader``.
    """

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectlyRequestHeader(RequestHeader, frozen=True, kw_only=True, gc=False):
    """CONSUME_MESSAGE_DIRECTLY (309), forwarded by the broker with the record as body.

    ``msg_id`` offset message id; the broker adds ``broker_name`` and the flags.

    **Source:** RocketMQ ``ConsumeMessageDirectlyResultRequestHeader``.
    """

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
    topic_sys_flag: Int32 | None = None
    group_sys_flag: Int32 | None = None
