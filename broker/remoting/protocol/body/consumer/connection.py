"""Connected clients."""

# ruff: noqa: RUF012  (msgspec copies empty defaults per instance)

from msgspec import field

from broker.common.subscription import SubscriptionData
from broker.remoting.protocol.body.base import Body


class Connection(Body, frozen=True, kw_only=True):
    """One client: address ``ip:port``, language name, version ordinal.

    **Source:** RocketMQ ``Connection``.
    """

    client_id: str = ""
    client_addr: str = ""
    language: str | None = None
    version: int = 0


class ConsumerConnection(Body, frozen=True, kw_only=True):
    """GET_CONSUMER_CONNECTION_LIST (203).

    **Source:** RocketMQ ``ConsumerConnection``.
    """

    connection_set: list[Connection] = []
    subscription_table: dict[str, SubscriptionData] = {}
    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None


class ProducerConnection(Body, frozen=True, kw_only=True):
    """GET_PRODUCER_CONNECTION_LIST (204).

    **Source:** RocketMQ ``ProducerConnection``.
    """

    connection_set: list[Connection] = []


class ProducerInfo(Body, frozen=True, kw_only=True):
    """One producer; ``remote_ip`` is ``/ip:port``, ``last_update_timestamp`` ms.

    **Source:** RocketMQ ``ProducerInfo``.
    """

    client_id: str = ""
    remote_ip: str = field(name="remoteIP", default="")
    language: str | None = None
    version: int = 0
    last_update_timestamp: int = 0


class ProducerTableInfo(Body, frozen=True, kw_only=True):
    """GET_ALL_PRODUCER_INFO (328): producer group to its members.

    **Source:** RocketMQ ``ProducerTableInfo``.
    """

    data: dict[str, list[ProducerInfo]] = {}


class GetConsumerListByGroupResponseBody(Body, frozen=True, kw_only=True):
    """GET_CONSUMER_LIST_BY_GROUP (38): client ids.

    **Source:** RocketMQ ``GetConsumerListByGroupResponseBody``.
    """

    consumer_id_list: list[str] = []
