"""The consumer groups of this broker: configurations, automatic creation, forbidden topics.

**Source:** RocketMQ SubscriptionGroupManager.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from broker.common import group as names
from broker.common.clock import Clock
from broker.common.group import SubscriptionGroupConfig
from broker.common.topic import is_lmq_topic, is_system_topic
from broker.server.configuration.config import BrokerConfig
from broker.server.tables.data_version import DataVersion
from broker.server.tables.table_writer import WrittenTable
from broker.store.format.config import DataVersion as VersionOfFile

FORBIDDEN_READ: Final = 4  # bit index 2
MAX_GROUPS: Final = 100_000  # limit of automatic creation: names come from the network


class GroupEntry(NamedTuple):
    """The content of subscriptionGroup.json for one group; a missing part is None."""

    config: SubscriptionGroupConfig | None
    forbidden: dict[str, int] | None


class SubscriptionGroupManager(WrittenTable[GroupEntry]):
    """group → configuration; every change is passed to the ``writer`` of subscriptionGroup.json."""

    def __init__(self, config: BrokerConfig, clock: Clock, *, lmq_enabled: bool = False) -> None:
        super().__init__()
        self._clock = clock
        self._lmq_enabled = lmq_enabled
        self.config = config
        self.configs: dict[str, SubscriptionGroupConfig] = {}
        self.forbidden: dict[str, dict[str, int]] = {}
        self.data_version = DataVersion()

    def __contains__(self, group: object) -> bool:
        return group in self.configs or (isinstance(group, str) and self._is_lmq(group))

    def _is_lmq(self, group: str) -> bool:
        return self._lmq_enabled and is_lmq_topic(group)

    def load(
        self,
        configs: Mapping[str, SubscriptionGroupConfig],
        forbidden: Mapping[str, Mapping[str, int]],
        version: VersionOfFile | None,
    ) -> None:
        """Load the content of subscriptionGroup.json."""
        self.configs = dict(configs)
        self.forbidden = {group: dict(topics) for group, topics in forbidden.items()}
        self.data_version.assign(version)

    def add_preset_groups(self) -> None:
        """Create the groups that every broker has; existing ones are not changed."""
        missing = [group for group in names.PRESET_GROUPS if group not in self.configs]
        for group in missing:
            self.configs[group] = SubscriptionGroupConfig(group_name=group)
        if missing:
            self._changed({})

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """Return the configuration; create it with defaults if it is unknown and that is allowed.

        Groups of LMQs (``%LMQ%…``, with enableLmq) have the defaults and are not stored.

        **Source:** RocketMQ SubscriptionGroupManager#findSubscriptionGroupConfig,
        LmqSubscriptionGroupManager.
        """
        found = self.configs.get(group)
        if found is not None:
            return found
        if self._is_lmq(group):
            return SubscriptionGroupConfig(group_name=group)  # LmqSubscriptionGroupManager
        if not (self.config.auto_create_subscription_group or names.is_system_group(group)):
            return None
        if names.check_group_name(group) is not None or len(self.configs) >= MAX_GROUPS:
            return None
        if is_system_topic(group):
            return None
        made = self.configs[group] = SubscriptionGroupConfig(group_name=group)
        # Not rolled back if it cannot be written: a full disk must not stop consumers.
        self._changed({})
        return made

    def put_all(self, configs: Iterable[SubscriptionGroupConfig]) -> None:
        """Store configurations as one change; unchanged ones are ignored."""
        before: dict[str, GroupEntry] = {}
        for config in configs:
            group = config.group_name
            if self.configs.get(group) != config:
                before.setdefault(group, self._entry(group))
                self.configs[group] = config
        if before:
            self._changed(before)

    def delete(self, group: str) -> bool:
        """Remove a group and its forbidden topics; False if it had no configuration."""
        before = self._entry(group)
        if before == (None, None):
            return False
        self.configs.pop(group, None)
        self.forbidden.pop(group, None)
        self._changed({group: before})
        return before.config is not None

    def may_read(self, group: str, topic: str) -> bool:
        """Return False if the group is forbidden to read the topic."""
        if not self.forbidden:
            return True
        return not self.forbidden.get(group, {}).get(topic, 0) & FORBIDDEN_READ

    def forbid_read(self, group: str, topic: str, forbidden: bool) -> None:
        """Forbid or allow a group to read a topic."""
        mask = self.forbidden.get(group, {}).get(topic, 0)
        wanted = mask | FORBIDDEN_READ if forbidden else mask & ~FORBIDDEN_READ
        if wanted == mask:
            return
        before = self._entry(group)
        topics = self.forbidden.setdefault(group, {})
        if wanted:
            topics[topic] = wanted
        else:
            topics.pop(topic, None)
            if not topics:
                del self.forbidden[group]
        self._changed({group: before})

    def restore(self, before: Mapping[str, GroupEntry]) -> None:
        """Roll back changes that could not be written."""
        for group, entry in before.items():
            self.configs.pop(group, None)
            self.forbidden.pop(group, None)
            if entry.config is not None:
                self.configs[group] = entry.config
            if entry.forbidden is not None:
                self.forbidden[group] = entry.forbidden
        self.data_version.bump(self._clock.now_ms())

    def _entry(self, group: str) -> GroupEntry:
        forbidden = self.forbidden.get(group)
        return GroupEntry(
            self.configs.get(group), dict(forbidden) if forbidden is not None else None
        )

    def _changed(self, before: Mapping[str, GroupEntry]) -> None:
        self.data_version.bump(self._clock.now_ms())
        self._note(before)
