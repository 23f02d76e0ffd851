"""PopParts: the parts of the broker that pop consumption works on, and the timer it needs.

Passed to every service of this package, so that none of them knows the whole broker.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from broker.common.clock import Clock
from broker.server.configuration.config import BrokerConfig
from broker.server.stats import BrokerStats
from broker.server.tables.consumer_offset import ConsumerOffsetManager
from broker.server.tables.subscription_group import SubscriptionGroupManager
from broker.server.tables.topic_config import TopicConfigManager
from broker.store.message_store import MessageStore
from broker.store.results import MessageExtBrokerInner


class PopTimer(Protocol):
    """Delivers check points and acknowledgements to the revive topic when they are due."""

    @property
    def available(self) -> bool:
        """Whether messages can be delivered later; without it no message can be popped."""
        ...

    def defer(self, inner: MessageExtBrokerInner, properties: dict[str, str]) -> str | None:
        """Redirect a message with TIMER_DELIVER_MS to the timer topic, unless it is due.

        Changes ``inner`` and ``properties``. Return the reason if it cannot be delivered later.
        """
        ...

    def delivered_until_ms(self) -> int:
        """Return the time (epoch ms) up to which everything due is in its real topic."""
        ...


class PopParts(NamedTuple):
    """``config`` and ``store_host`` are calls: the settings and the address may change."""

    store: MessageStore
    clock: Clock
    config: Callable[[], BrokerConfig]
    topics: TopicConfigManager
    groups: SubscriptionGroupManager
    offsets: ConsumerOffsetManager
    stats: BrokerStats
    store_host: Callable[[], bytes]
    timer: PopTimer
