"""Heartbeats: the groups and subscriptions of a client."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

from msgspec import field

from broker.common.subscription import SubscriptionData
from broker.remoting.protocol.body.base import Body


class ConsumerData(Body, frozen=True, kw_only=True):
    """One consumer group of a client.

    ``consume_type`` CONSUME_ACTIVELY, CONSUME_PASSIVELY or CONSUME_POP; ``message_model``
    CLUSTERING or BROADCASTING.

    **Source:** RocketMQ ``ConsumerData``.
    """

    group_name: str = ""
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None
    subscription_data_set: list[SubscriptionData] = []
    unit_mode: bool = False


class ProducerData(Body, frozen=True, kw_only=True):
    """One producer group of a client.

    **Source:** RocketMQ ``ProducerData``.
    """

    group_name: str = ""


class HeartbeatData(Body, frozen=True, kw_only=True):
    """HEART_BEAT (34).

    ``heartbeat_fingerprint`` not 0: heartbeat v2 (5.x); ``without_sub``: subscriptions are omitted
    because the broker already has them.

    **Source:** RocketMQ ``HeartbeatData``.
    """

    client_id: str = field(name="clientID", default="")
    producer_data_set: list[ProducerData] = []
    consumer_data_set: list[ConsumerData] = []
    heartbeat_fingerprint: int = 0
    without_sub: bool = False


class CheckClientRequestBody(Body, frozen=True, kw_only=True):
    """CHECK_CLIENT_CONFIG (46).

    **Source:** RocketMQ ``CheckClientRequestBody``.
    """

    client_id: str | None = None
    group: str | None = None
    subscription_data: SubscriptionData | None = None
    namespace: str | None = None
