"""What every processor sees: settings, tables, the store, and three seams to the outside.

The seams are ``soon`` (run at the end of this turn of the loop), ``announce`` (tell the name
servers about topics) and ``clock``. Tests put lists and manual clocks there.

**Source:** RocketMQ BrokerController, the part that is state.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from broker.common.address import encode_host, format_address
from broker.common.clock import Clock
from broker.common.topic import retry_topic
from broker.remoting.server import host_address
from broker.server.clients import ConsumerManager, ProducerManager
from broker.server.config import BrokerConfig
from broker.server.filters import MatcherCache
from broker.server.group import GroupTable
from broker.server.locks import QueueLocks
from broker.server.long_polling import HeldPull, PullHold
from broker.server.offset import ConsumerOffsets
from broker.server.settings import Settings
from broker.server.stats import BrokerStats
from broker.server.topic import TopicTable

if TYPE_CHECKING:
    from broker.remoting.server import RemotingServer
    from broker.server.persistence import ConfigStore
    from broker.server.schedule import DelayQueues
    from broker.store.message_store import MessageStore

Announce = Callable[[Iterable[str]], Awaitable[None]]
Soon = Callable[[Callable[[], None]], object]


async def _announce_nowhere(topics: Iterable[str]) -> None:
    """Stand-in until a registrar is wired: a broker without name servers tells nobody."""


def _at_once(call: Callable[[], None]) -> None:
    call()


class BrokerContext:
    """The state of one broker; processors read and change it, nobody else does.

    ``address`` is the announced ``host:port``, ``store_host`` its binary form in records.
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
        "offsets",
        "on_config_change",
        "on_park",
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
        self.topics = TopicTable(config, clock)
        self.groups = GroupTable(config, clock)
        self.offsets = ConsumerOffsets(clock)
        self.consumers = ConsumerManager()
        self.producers = ProducerManager()
        self.locks = QueueLocks()
        self.holds = PullHold(config.max_held_pulls)
        self.matchers = MatcherCache()
        self.stats = BrokerStats(self.boot_ms)
        self.announce: Announce = _announce_nowhere
        self.soon: Soon = _at_once
        self.delays: DelayQueues | None = None
        self.files: ConfigStore | None = None
        self.server: RemotingServer | None = None
        self.on_config_change: list[Callable[[], None]] = []
        self.on_park: Callable[[], None] | None = None
        self.on_wake: Callable[[list[HeldPull]], None] | None = None
        self.address = ""
        self.store_host = b""
        self.set_address(config.broker_ip1 or "127.0.0.1", config.listen_port)
        self.topics.on_change.append(self._tell_batch_topics)

    def set_address(self, host: str, port: int) -> None:
        """Announce ``host:port`` from now on; records stored from now on carry its IP address.

        ConfigError when ``host`` is a name that nobody knows.
        """
        self.store_host = encode_host(host_address(host), port)
        self.address = format_address(host, port)

    def set_config(self, config: BrokerConfig) -> None:
        """Take over changed settings everywhere they are kept."""
        self.config = config
        self.topics.config = config
        self.groups.config = config
        for listener in self.on_config_change:
            listener()

    def ensure_retry_topic(self, group: str, queues: int, sys_flag: int = 0) -> bool:
        """Make the group's retry topic; True when it was not there."""
        topic = retry_topic(group)
        if topic in self.topics:
            return False
        self.topics.ensure(topic, max(1, queues), sys_flag=sys_flag)
        return True

    def _tell_batch_topics(self, topics: list[str]) -> None:
        """The store lays the queues of some topics out for whole batches."""
        self.store.queue_table.set_batch_topics(
            name
            for name in topics
            if (config := self.topics.get(name)) is not None
            and config.attributes.get("queue.type") == "BatchCQ"
        )

    def now_ms(self) -> int:
        """Wall-clock time in ms."""
        return self.clock.now_ms()
