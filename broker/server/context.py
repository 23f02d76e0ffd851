"""BrokerContext: the state that all processors share, and the hooks to the parts around it.

Tests replace three hooks: ``soon`` (run at the end of this event-loop iteration), ``announce``
(announce topics to the name servers) and ``clock``.

**Source:** RocketMQ BrokerController, its state only.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from broker.common.address import encode_host, format_address
from broker.common.clock import Clock
from broker.common.topic import retry_topic
from broker.remoting.budget import MemoryBudget
from broker.remoting.endpoint import peer_memory
from broker.remoting.limits import ServerLimits
from broker.remoting.server import host_address
from broker.server.clients import ConsumerManager, ProducerManager
from broker.server.config import BrokerConfig
from broker.server.consumer_offset import ConsumerOffsetManager
from broker.server.long_polling import PullRequestHold, SuspendedPull
from broker.server.message_filter import MatcherCache
from broker.server.rebalance_lock import RebalanceLockManager
from broker.server.settings import Settings
from broker.server.stats import BrokerStats
from broker.server.subscription_group import SubscriptionGroupManager
from broker.server.topic_config import TopicConfigManager

if TYPE_CHECKING:
    from broker.remoting.server import Connection, RemotingServer
    from broker.server.persistence import ConfigStore
    from broker.server.schedule import ScheduleMessageService
    from broker.store.message_store import MessageStore

Announce = Callable[[Iterable[str]], Awaitable[None]]
CallSoon = Callable[[Callable[[], None]], object]


async def _announce_nowhere(topics: Iterable[str]) -> None:
    """Do nothing; used until a registrar is wired."""


def _at_once(call: Callable[[], None]) -> None:
    call()


class BrokerContext:
    """The state of one broker; only the controller and the processors change it.

    ``address`` is the announced ``host:port``, ``store_host`` its binary form in records;
    ``memory`` counts the bytes kept for each connection, by these tables and by the server.
    """

    __slots__ = (
        "address",
        "announce",
        "boot_ms",
        "clock",
        "config",
        "consumers",
        "delays",
        "files",
        "groups",
        "holds",
        "locks",
        "matchers",
        "memory",
        "offsets",
        "on_config_change",
        "on_suspend",
        "on_wake",
        "producers",
        "server",
        "settings",
        "soon",
        "stats",
        "store",
        "store_host",
        "topics",
    )

    def __init__(self, settings: Settings, store: "MessageStore", clock: Clock) -> None:
        config = settings.broker
        self.settings = settings
        self.config = config
        self.clock = clock
        self.store = store
        self.boot_ms = clock.now_ms()
        self.topics = TopicConfigManager(config, clock)
        self.groups = SubscriptionGroupManager(config, clock)
        self.offsets = ConsumerOffsetManager(clock)
        self.memory: MemoryBudget[Connection] = peer_memory(ServerLimits())
        self.consumers = ConsumerManager(self.memory)
        self.producers = ProducerManager(self.memory)
        self.locks = RebalanceLockManager()
        self.holds = PullRequestHold(config.max_held_pulls, self.memory)
        self.matchers = MatcherCache()
        self.stats = BrokerStats(self.boot_ms)
        self.announce: Announce = _announce_nowhere
        self.soon: CallSoon = _at_once
        self.delays: ScheduleMessageService | None = None
        self.files: ConfigStore | None = None
        self.server: RemotingServer | None = None
        self.on_config_change: list[Callable[[], None]] = []
        self.on_suspend: Callable[[], None] | None = None
        self.on_wake: Callable[[list[SuspendedPull]], None] | None = None
        self.address = ""
        self.store_host = b""
        self.set_address(config.broker_ip1 or "127.0.0.1", config.listen_port)
        self.topics.on_change.append(self._update_batch_topics)

    def set_address(self, host: str, port: int) -> None:
        """Announce ``host:port`` from now on; records stored from now on carry its IP address.

        ConfigError when the name ``host`` cannot be resolved.
        """
        self.store_host = encode_host(host_address(host), port)
        self.address = format_address(host, port)

    def set_config(self, config: BrokerConfig) -> None:
        """Apply changed settings to every table that keeps them, and notify the listeners."""
        self.config = config
        self.topics.config = config
        self.groups.config = config
        for listener in self.on_config_change:
            listener()

    def ensure_retry_topic(self, group: str, queues: int, sys_flag: int = 0) -> bool:
        """Create the group's retry topic; True if it did not exist."""
        topic = retry_topic(group)
        if topic in self.topics:
            return False
        self.topics.ensure(topic, max(1, queues), sys_flag=sys_flag)
        return True

    def _update_batch_topics(self, topics: list[str]) -> None:
        """Notify the store of the BatchCQ topics, whose ConsumeQueues have another unit layout."""
        self.store.queue_table.set_batch_topics(
            name
            for name in topics
            if (config := self.topics.get(name)) is not None
            and config.attributes.get("queue.type") == "BatchCQ"
        )

    def now_ms(self) -> int:
        """Return the wall-clock time in ms."""
        return self.clock.now_ms()
