"""BrokerContext: the state that all processors share, and the hooks to the parts around it.

Tests replace three hooks: ``soon`` (run at the end of this event-loop iteration), ``announce``
(announce topics to the name servers) and ``clock``.

**Source:** RocketMQ BrokerController, its state only.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from broker.common.address import encode_host, format_address
from broker.common.clock import Clock
from broker.common.topic import retry_topic
from broker.filter.bloom import bloom_shape
from broker.remoting.budget import MemoryBudget
from broker.remoting.endpoint import peer_memory
from broker.remoting.limits import ServerLimits
from broker.remoting.protocol.body.ha import HARuntimeInfo
from broker.remoting.protocol.header.broker import NotifyMinBrokerIdChangeRequestHeader
from broker.remoting.server import host_address
from broker.server.client.clients import ConsumerManager, ProducerManager
from broker.server.client.rebalance_lock import RebalanceLockManager
from broker.server.cold_data.control import ColdDataControl
from broker.server.cold_data.slow_consumers import SlowConsumers
from broker.server.configuration.config import BrokerConfig
from broker.server.configuration.settings import Settings
from broker.server.filter.consumer_filter import ConsumerFilterManager
from broker.server.filter.message_filter import MatcherCache
from broker.server.ha.durability import PutDurability
from broker.server.ha.replica_policy import ReplicaPolicy
from broker.server.ingest.figures import IngestFigures
from broker.server.longpolling.long_polling import PullRequestHold, SuspendedPull
from broker.server.static_topic.mapping_table import TopicQueueMappingManager
from broker.server.stats import BrokerStats
from broker.server.tables.consumer_offset import ConsumerOffsetManager
from broker.server.tables.subscription_group import SubscriptionGroupManager
from broker.server.tables.topic_config import TopicConfigManager

if TYPE_CHECKING:
    from broker.remoting.server import Connection, RemotingServer
    from broker.server.pop.service import PopService
    from broker.server.role.broker_role import BrokerRole
    from broker.server.schedule import ScheduleMessageService
    from broker.server.tables.persistence import ConfigStore
    from broker.server.timer.timer_service import TimerService
    from broker.server.transaction.service import TransactionalMessageService
    from broker.store.message_store import MessageStore

Announce = Callable[[Iterable[str]], Awaitable[None]]
CallSoon = Callable[[Callable[[], None]], object]


async def _announce_nowhere(topics: Iterable[str]) -> None:
    """Do nothing; used until a registrar is wired."""


def _at_once(call: Callable[[], None]) -> None:
    call()


class GroupReplication(Protocol):
    """The part of Replication that requests of other members of the group reach."""

    def member_changed(self, change: NotifyMinBrokerIdChangeRequestHeader) -> None:
        """Note the lowest id of the group."""
        ...

    def timer_copy(self, code: int) -> bytes | None:
        """Return the master's last response to a request about timers; None without one."""
        ...

    def ha_address(self) -> str:
        """Return the address at which this master listens for slaves."""
        ...

    def adopt_master(self, address: str, ha_address: str) -> None:
        """Slave: follow the master at these addresses."""
        ...

    def name_replica(self, connection: str, address: str) -> None:
        """Master: note the broker address of the slave at the other end of an HA connection."""
        ...


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
        "cold_data",
        "config",
        "consumers",
        "delays",
        "durability",
        "files",
        "filters",
        "groups",
        "ha_status",
        "holds",
        "ingest",
        "locks",
        "mappings",
        "matchers",
        "memory",
        "offsets",
        "on_config_change",
        "on_suspend",
        "on_wake",
        "pop",
        "producers",
        "replication",
        "role",
        "server",
        "settings",
        "slow_consumers",
        "soon",
        "stats",
        "store",
        "store_host",
        "timers",
        "topics",
        "transactions",
    )

    def __init__(self, settings: Settings, store: "MessageStore", clock: Clock) -> None:
        config = settings.broker
        self.settings = settings
        self.config = config
        self.clock = clock
        self.store = store
        self.ingest = IngestFigures()
        self.durability = PutDurability(store, None, ReplicaPolicy())
        self.boot_ms = clock.now_ms()
        lmq = settings.store.enable_lmq
        self.topics = TopicConfigManager(config, clock, lmq_enabled=lmq)
        self.mappings = TopicQueueMappingManager(config, clock)
        self.groups = SubscriptionGroupManager(config, clock, lmq_enabled=lmq)
        self.offsets = ConsumerOffsetManager(clock)
        self.memory: MemoryBudget[Connection] = peer_memory(ServerLimits())
        self.consumers = ConsumerManager(self.memory)
        self.producers = ProducerManager(self.memory)
        self.locks = RebalanceLockManager()
        self.holds = PullRequestHold(config.max_held_pulls, self.memory)
        self.matchers = MatcherCache()
        self.filters = ConsumerFilterManager(
            clock,
            bloom_shape(
                config.max_error_rate_of_bloom_filter, config.expect_consumer_num_use_filter
            ),
            config.filter_data_clean_time_span,
        )
        self.consumers.on_group_gone = self.filters.unregister
        self.cold_data = ColdDataControl(
            self.boot_ms, config.cg_cold_read_threshold, config.global_cold_read_threshold
        )
        self.stats = BrokerStats(self.boot_ms)
        self.slow_consumers = SlowConsumers(self.groups)
        self.announce: Announce = _announce_nowhere
        self.soon: CallSoon = _at_once
        self.delays: ScheduleMessageService | None = None
        self.transactions: TransactionalMessageService | None = None
        self.timers: TimerService | None = None
        self.files: ConfigStore | None = None
        self.pop: PopService | None = None
        self.server: RemotingServer | None = None
        self.replication: GroupReplication | None = None
        self.role: BrokerRole | None = None
        # The state of replication, as GET_BROKER_HA_STATUS answers it.
        self.ha_status: Callable[[], HARuntimeInfo] = self._without_slaves
        self.on_config_change: list[Callable[[], None]] = []
        self.on_suspend: Callable[[], None] | None = None
        self.on_wake: Callable[[list[SuspendedPull]], None] | None = None
        self.address = ""
        self.store_host = b""
        self.set_address(config.broker_ip1 or "127.0.0.1", config.listen_port)
        self.topics.on_change.append(self._update_batch_topics)
        self._calculate_bit_maps()

    def _calculate_bit_maps(self) -> None:
        enabled = self.config.enable_calc_filter_bit_map
        self.store.reput.calculate_bit_map = self.filters.calculate_bit_map if enabled else None

    def set_address(self, host: str, port: int) -> None:
        """Announce ``host:port`` from now on; records stored from now on carry its IP address.

        ConfigError when the name ``host`` cannot be resolved.
        """
        self.store_host = encode_host(host_address(host), port)
        self.address = format_address(host, port)

    def _without_slaves(self) -> HARuntimeInfo:
        end = self.store.max_physical_offset
        return HARuntimeInfo(master=True, master_commit_log_max_offset=end)

    def set_config(self, config: BrokerConfig) -> None:
        """Apply changed settings to every table that keeps them, and notify the listeners."""
        self.config = config
        self.topics.config = config
        self.groups.config = config
        self.cold_data.group_limit = config.cg_cold_read_threshold
        self.cold_data.global_limit = config.global_cold_read_threshold
        self._calculate_bit_maps()
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
