"""The topics of this broker: configurations, automatic creation, attributes, data version.

Every change bumps the data version, is passed to the ``writer`` of topics.json, and calls
``on_change`` with the changed names.

**Source:** RocketMQ TopicConfigManager, TopicAttributes, AttributeUtil.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from broker.common import topic as names
from broker.common.clock import Clock
from broker.common.java import INT64_MAX, parse_number
from broker.common.topic import PERM_INHERIT, PERM_READ, PERM_WRITE, TopicConfig
from broker.errors import ClientError
from broker.server.configuration.config import BrokerConfig
from broker.server.tables.data_version import DataVersion
from broker.server.tables.table_writer import WrittenTable
from broker.store.format.config import DataVersion as VersionOfFile

log = logging.getLogger("broker.server")

READ_WRITE: Final = PERM_READ | PERM_WRITE
SCHEDULE_QUEUES: Final = 18
BENCHMARK_QUEUES: Final = 1024
CLUSTER_TOPIC_QUEUES: Final = 16
REVIVE_QUEUES: Final = 8
MAX_QUEUES: Final = 65_536  # per topic; each used queue costs files and table entries
MAX_TOPICS: Final = 100_000  # limit of automatic creation: names come from the network

MESSAGE_TYPE: Final = "message.type"
QUEUE_TYPE: Final = "queue.type"
ATTRIBUTE_VALUES: Final[dict[str, frozenset[str] | None]] = {
    MESSAGE_TYPE: frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"}),
    QUEUE_TYPE: frozenset({"SimpleCQ", "BatchCQ"}),
    "cleanup.policy": frozenset({"DELETE", "COMPACTION"}),
    "reserve.time": None,
}
FIXED_ATTRIBUTES: Final = frozenset({QUEUE_TYPE, "cleanup.policy"})
UNSUPPORTED_ATTRIBUTES: Final = {("cleanup.policy", "COMPACTION")}


class TopicConfigManager(WrittenTable[TopicConfig | None]):
    """topic → configuration; ``on_change`` receives the names that were added, removed or changed.

    An empty list means that every topic changed.
    """

    def __init__(self, config: BrokerConfig, clock: Clock, *, lmq_enabled: bool = False) -> None:
        super().__init__()
        self._clock = clock
        self._lmq_enabled = lmq_enabled
        self.config = config
        self.configs: dict[str, TopicConfig] = {}
        self.data_version = DataVersion()
        self.on_change: list[Callable[[list[str]], None]] = []

    def __contains__(self, topic: object) -> bool:
        return topic in self.configs or (isinstance(topic, str) and self._is_lmq(topic))

    def get(self, topic: str) -> TopicConfig | None:
        """Return the configuration of a topic, None if it is unknown.

        Every LMQ has the same one, which is never stored (enableLmq).

        **Source:** RocketMQ LmqTopicConfigManager#selectTopicConfig.
        """
        found = self.configs.get(topic)
        return _topic(topic, 1) if found is None and self._is_lmq(topic) else found

    def _is_lmq(self, topic: str) -> bool:
        return self._lmq_enabled and names.is_lmq_topic(topic)

    def is_system(self, topic: str) -> bool:
        """Return True for the fixed system topics and those named after this cluster and broker."""
        return (
            names.is_system_topic(topic)
            or topic == self.config.broker_cluster_name
            or topic == self.config.broker_name
            or topic == names.reply_topic(self.config.broker_cluster_name)
        )

    def system_topics(self) -> list[str]:
        """Return the system topics of the table, sorted."""
        return sorted(topic for topic in self.configs if self.is_system(topic))

    def load(self, configs: Mapping[str, TopicConfig], version: VersionOfFile | None) -> None:
        """Load the content of topics.json."""
        self.configs = dict(configs)
        self.data_version.assign(version)

    def add_system_topics(self) -> None:
        """Create the topics that every broker has; existing ones are not changed, except TBW102.

        TBW102 loses its inherit permission when automatic creation is disabled.
        """
        config = self.config
        missing = [
            topic for topic in self._system_configs() if topic.topic_name not in self.configs
        ]
        for topic in missing:
            self.configs[topic.topic_name] = topic
        template = self.configs.get(names.TBW102)
        if template is not None and not config.auto_create_topic_enable:
            self.configs[names.TBW102] = msgspec.structs.replace(template, perm=READ_WRITE)
        if self.data_version.timestamp == 0:
            self.data_version.timestamp = self._clock.now_ms()
        if missing:
            # Not rolled back if they cannot be written: each start creates them again.
            self._changed([topic.topic_name for topic in missing], {})

    def _system_configs(self) -> list[TopicConfig]:
        config = self.config
        queues = config.default_topic_queue_nums
        made = [
            _topic(names.SELF_TEST_TOPIC, 1),
            _topic(names.BENCHMARK_TOPIC, BENCHMARK_QUEUES),
            _topic(
                config.broker_cluster_name,
                CLUSTER_TOPIC_QUEUES,
                PERM_INHERIT | (READ_WRITE if config.cluster_topic_enable else 0),
            ),
            _topic(
                config.broker_name,
                1,
                PERM_INHERIT | (READ_WRITE if config.broker_topic_enable else 0),
            ),
            _topic(names.OFFSET_MOVED_EVENT, 1),
            _topic(names.SCHEDULE_TOPIC, SCHEDULE_QUEUES),
            _topic(names.reply_topic(config.broker_cluster_name), 1),
            _topic(names.TRANS_HALF_TOPIC, 1),
            _topic(names.TRANS_OP_HALF_TOPIC, 1),
            _topic(names.revive_topic(config.broker_cluster_name), REVIVE_QUEUES),
            _topic(names.sync_member_topic(config.broker_name), 1, PERM_INHERIT),
            _topic(names.TIMER_TOPIC, 1),
        ]
        if config.auto_create_topic_enable:
            made.append(_topic(names.TBW102, queues, PERM_INHERIT | READ_WRITE))
        if config.trace_topic_enable:
            made.append(_topic(config.msg_trace_topic_name, 1))
        return made

    def create_for_send(
        self, topic: str, template_name: str, queues: int, sys_flag: int = 0
    ) -> TopicConfig | None:
        """Create a topic from its template at the first send; return None if that is not allowed.

        **Source:** RocketMQ TopicConfigManager#createTopicInSendMessageMethod.
        """
        template = self.configs.get(template_name)
        if template is None or len(self.configs) >= MAX_TOPICS:
            return None
        perm = template.perm
        if template_name == names.TBW102 and not self.config.auto_create_topic_enable:
            perm = READ_WRITE
        if not names.is_inherited(perm):
            return None
        count = max(0, min(queues, template.write_queue_nums))
        made = TopicConfig(
            topic_name=topic,
            read_queue_nums=count,
            write_queue_nums=count,
            perm=perm & ~PERM_INHERIT,
            topic_filter_type=template.topic_filter_type,
            topic_sys_flag=sys_flag,
        )
        self.put(made)
        return made

    def ensure(
        self, topic: str, queues: int, perm: int = READ_WRITE, sys_flag: int = 0
    ) -> TopicConfig:
        """Return the topic, created with these settings if it is unknown (retry topics, DLQs).

        **Source:** RocketMQ TopicConfigManager#createTopicInSendMessageBackMethod.
        """
        found = self.configs.get(topic)
        if found is None:
            found = TopicConfig(
                topic_name=topic,
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=perm,
                topic_sys_flag=sys_flag,
            )
            self.put(found)
        return found

    def restore_batch_topics(self, queue_nums: Mapping[str, int]) -> None:
        """Configure the BatchCQ topics (name → number of queues) that recovery found.

        Their queues have this type already; a topic created automatically by the next send would
        be a plain one. A slave copies its topics from its master instead.

        **Source:** no Java counterpart; RocketMQ loses the attribute.
        """
        if self.config.is_slave:
            return
        for name, count in queue_nums.items():
            if name not in self.configs:
                log.warning(
                    "topic %s: topics.json is missing; created with queue.type=BatchCQ and %d"
                    " queues, as its records require",
                    name,
                    count,
                )
                self.put(
                    msgspec.structs.replace(_topic(name, count), attributes={QUEUE_TYPE: "BatchCQ"})
                )

    def put(self, config: TopicConfig) -> bool:
        """Store a configuration; False if it is unchanged."""
        if self.configs.get(config.topic_name) == config:
            return False
        self.put_all([config])
        return True

    def put_all(self, configs: Iterable[TopicConfig]) -> None:
        """Store several configurations as one change; unchanged ones are ignored."""
        before: dict[str, TopicConfig | None] = {}
        for config in configs:
            name = config.topic_name
            if self.configs.get(name) != config:
                before.setdefault(name, self.configs.get(name))
                self.configs[name] = config
        if before:
            self._changed(list(before), before)

    def delete(self, topic: str) -> bool:
        """Remove a topic; False if it was unknown."""
        before = self.configs.pop(topic, None)
        if before is None:
            return False
        self._changed([topic], {topic: before})
        return True

    def restore(self, before: Mapping[str, TopicConfig | None]) -> None:
        """Roll back changes that could not be written; None means that the topic did not exist."""
        for topic, config in before.items():
            if config is None:
                self.configs.pop(topic, None)
            else:
                self.configs[topic] = config
        self.data_version.bump(self._clock.now_ms())
        self._notify(list(before))

    def touch(self) -> None:
        """Record a change that affects every topic (broker permission)."""
        self._changed([], {})

    def registered(self, config: TopicConfig) -> TopicConfig:
        """Return the configuration for name servers, limited by the broker's permission."""
        allowed = self.config.broker_permission
        if allowed & READ_WRITE == READ_WRITE:
            return config
        return msgspec.structs.replace(config, perm=config.perm & allowed)

    def _changed(self, topics: list[str], before: Mapping[str, TopicConfig | None]) -> None:
        self.data_version.bump(self._clock.now_ms())
        self._note(before)
        self._notify(topics)

    def _notify(self, topics: list[str]) -> None:
        for listener in self.on_change:
            listener(topics)


def _topic(name: str, queues: int, perm: int = READ_WRITE) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)


def parse_attribute_changes(text: str) -> dict[str, str]:
    """Parse ``+k=v,-k2`` to {"+k": "v", "-k2": ""}; ClientError for a part without sign or name.

    **Source:** RocketMQ AttributeParser#parseToMap.
    """
    changes: dict[str, str] = {}
    for piece in text.split(","):
        piece = piece.strip()
        if not piece:
            continue
        name, _, value = piece.partition("=")
        value = value.partition("=")[0]
        if name[:1] not in "+-" or len(name) < 2:
            raise ClientError(f"add/alter/delete attribute key is wrong: {name}")
        if name in changes:
            raise ClientError(f"key duplication: {name}")
        changes[name] = value
    return changes


def apply_attribute_changes(
    current: Mapping[str, str], changes: Mapping[str, str], *, creating: bool
) -> dict[str, str]:
    """Return ``current`` with signed changes applied; ClientError in Java's words if refused.

    **Source:** RocketMQ AttributeUtil#alterCurrentAttributes.
    """
    result = dict(current)
    for signed, value in changes.items():
        sign, name = signed[:1], signed[1:]
        if sign not in ("+", "-") or not name:
            raise ClientError(f"add/alter/delete attribute key is wrong: {signed}")
        if creating and sign == "-":
            raise ClientError(f"only add attribute is supported while creating topic. key: {name}")
        if name not in ATTRIBUTE_VALUES:
            raise ClientError(f"unsupported key: {name}")
        if not creating and name in FIXED_ATTRIBUTES and current.get(name) != value:
            raise ClientError(f"attempt to update an unchangeable attribute. key: {name}")
        if sign == "-":
            if name not in current:
                raise ClientError(f"attempt to delete a nonexistent key: {name}")
            del result[name]
            continue
        _check_attribute_value(name, value)
        result[name] = value
    return result


def _check_attribute_value(name: str, value: str) -> None:
    allowed = ATTRIBUTE_VALUES[name]
    if allowed is None:
        if parse_number(value, -1, INT64_MAX) is None:
            raise ClientError(f"value is not in range(-1, 9223372036854775807): {value}")
    elif value not in allowed:
        raise ClientError(f"value is not in set: {sorted(allowed)}")
    if (name, value) in UNSUPPORTED_ATTRIBUTES:
        raise ClientError(f"{name}={value} is not supported by this broker")
