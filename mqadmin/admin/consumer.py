"""Consumers: which groups there are, how far behind they are, who is connected."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from mqadmin.admin.result import Listing, TargetError

if TYPE_CHECKING:
    from mqadmin.admin.session import MQAdmin


class ConsumerRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One consumer group over all brokers. ``clients`` 0 means nobody is online."""

    group: str
    clients: int
    consume_type: str | None
    message_model: str | None
    version: str | None
    consume_tps: float | None
    lag: int | None


class LagRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One queue of one group.

    ``state``: ``ok``; ``noOffset`` (nothing committed, ``consumerOffset`` and ``lag`` are None);
    ``ahead`` (committed beyond the end); ``belowMin`` (committed below the oldest kept);
    ``unknown`` (the broker did not tell). ``lagSeconds`` is the age of the oldest message not yet
    consumed, 0 without lag, None when nobody tells. ``lastTimestamp`` is the store time (ms) of
    the last consumed message.
    """

    group: str
    topic: str
    broker_name: str
    queue_id: int
    broker_offset: int | None
    consumer_offset: int | None
    lag: int | None
    lag_seconds: float | None
    inflight: int | None
    last_timestamp: int | None
    client_id: str | None
    state: str


class Connection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One client of a group; ``brokers`` are those that see it."""

    client_id: str
    client_addr: str
    language: str
    version: str
    brokers: Sequence[str]


class Subscription(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a group subscribes to."""

    topic: str
    sub_string: str
    expression_type: str
    sub_version: int


class ConsumerConnections(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Who is connected for a group, over all brokers; no connections: nobody is online."""

    group: str
    consume_type: str | None
    message_model: str | None
    consume_from_where: str | None
    connections: Sequence[Connection]
    subscriptions: Sequence[Subscription]
    errors: Sequence[TargetError] = ()


class ConsumerAdmin:
    """The questions about consumers."""

    def __init__(self, admin: "MQAdmin") -> None:
        self._admin = admin

    def list(self, *, include_system: bool = False, lag: bool = True) -> Listing[ConsumerRecord]:
        """One record per group any broker knows; ``lag`` false saves one request per broker."""
        raise NotImplementedError

    def lag(
        self, group: str, *, topic: str | None = None, clients: bool = False
    ) -> Listing[LagRecord]:
        """One record per queue; ``clients`` also asks every client which queues it holds."""
        raise NotImplementedError

    def connections(self, group: str) -> ConsumerConnections:
        """Clients and subscriptions of a group."""
        raise NotImplementedError
