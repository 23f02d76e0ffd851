"""SubscriptionTable: the subscriptions of one consumer, and which of them the brokers know.

**Source:** RocketMQ ``RebalanceImpl#subscriptionInner``, ``FilterAPI``.
"""

import msgspec

from broker.client.config import ClientConfig, ConsumerConfig, MessageModel
from broker.client.namespace import wrap_namespace
from broker.common.clock import Clock
from broker.common.subscription import (
    EXPRESSION_SQL92,
    EXPRESSION_TAG,
    SubscriptionData,
    build_subscription,
)
from broker.common.topic import check_topic_name
from broker.errors import ClientError, RemoteProtocolError
from broker.remoting.protocol.body.consumer.heartbeat import ConsumerData


class SubscriptionTable:
    """``by_topic``: topic (name on the wire) to subscription."""

    def __init__(self, client: ClientConfig, clock: Clock) -> None:
        self.by_topic: dict[str, SubscriptionData] = {}
        self._client = client
        self._clock = clock
        self._announced: dict[str, SubscriptionData] = {}

    def subscribe(self, topic: str, tags: str, sql: str | None) -> None:
        """Add or replace a subscription; ClientError for an invalid name or expression."""
        wire_topic = wrap_namespace(self._client.namespace, topic)
        reason = check_topic_name(wire_topic)
        if reason is not None:
            raise ClientError(f"topic {topic!r:.200}: {reason}")
        try:
            self.by_topic[wire_topic] = build_subscription(
                wire_topic,
                tags if sql is None else sql,
                EXPRESSION_TAG if sql is None else EXPRESSION_SQL92,
                self._clock.now_ms(),
            )
        except RemoteProtocolError as error:
            raise ClientError(f"subscription of {topic}: {error.message}", error.hint) from error

    def unsubscribe(self, topic: str) -> None:
        """Remove a topic."""
        self.by_topic.pop(wrap_namespace(self._client.namespace, topic), None)

    def add_all_messages(self, wire_topic: str) -> None:
        """Subscribe to all messages of a topic, unless it is subscribed."""
        if wire_topic not in self.by_topic:
            self.by_topic[wire_topic] = build_subscription(
                wire_topic, "*", sub_version=self._clock.now_ms()
            )

    def renew(self, topic: str) -> None:
        """Give a subscription a new version, so that brokers take it for a change."""
        subscription = self.by_topic.get(topic)
        if subscription is not None:
            self.by_topic[topic] = msgspec.structs.replace(
                subscription, sub_version=self._clock.now_ms()
            )

    def snapshot(self) -> dict[str, SubscriptionData]:
        """Return a copy, for :meth:`announced` after the heartbeat that contains it."""
        return dict(self.by_topic)

    def announced(self, sent: dict[str, SubscriptionData]) -> None:
        """Record the subscriptions that the brokers know now."""
        self._announced = sent

    def known_to_brokers(self, topic: str) -> SubscriptionData | None:
        """Return the subscription of a topic as the brokers know it; None if it is not subscribed.

        A broker refuses a pull whose version is newer than that of the last heartbeat.
        """
        return self._announced.get(topic) if topic in self.by_topic else None

    def consumer_data(
        self,
        group: str,
        consume_type: str,
        config: ConsumerConfig | None = None,
    ) -> ConsumerData:
        """Return the group's part of a heartbeat; without ``config`` that of a simple consumer."""
        model = MessageModel.CLUSTERING if config is None else config.message_model
        where = "CONSUME_FROM_LAST_OFFSET" if config is None else config.consume_from_where.value
        return ConsumerData(
            group_name=group,
            consume_type=consume_type,
            message_model=model.value,
            consume_from_where=where,
            subscription_data_set=[self.by_topic[one] for one in sorted(self.by_topic)],
            unit_mode=self._client.unit_mode,
        )
