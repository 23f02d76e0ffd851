"""The consumer groups of this broker: configurations, automatic creation, forbidden topics.

**Source:** RocketMQ SubscriptionGroupManager.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from broker.common import group as names
from broker.common.clock import Clock
from broker.common.group import SubscriptionGroupConfig
from broker.common.topic import is_system_topic
from broker.errors import StoreError
from broker.server.config import BrokerConfig
from broker.server.data_version import DataVersion
from broker.store.format.config import DataVersion as VersionOfFile

log = logging.getLogger("broker.server")

FORBIDDEN_READ: Final = 4  # bit index 2
MAX_GROUPS: Final = 100_000  # automatic creation stops here: names come from the network


class GroupTable:
    """group → configuration; ``on_change`` is called after every change."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._clock = clock
        self.config = config
        self.configs: dict[str, SubscriptionGroupConfig] = {}
        self.forbidden: dict[str, dict[str, int]] = {}
        self.data_version = DataVersion()
        self.on_change: list[Callable[[], None]] = []

    def __contains__(self, group: object) -> bool:
        return group in self.configs

    def load(
        self,
        configs: Mapping[str, SubscriptionGroupConfig],
        forbidden: Mapping[str, Mapping[str, int]],
        version: VersionOfFile | None,
    ) -> None:
        """Take over the content of subscriptionGroup.json."""
        self.configs = dict(configs)
        self.forbidden = {group: dict(topics) for group, topics in forbidden.items()}
        self.data_version.assign(version)

    def add_preset_groups(self) -> None:
        """Make the groups every broker has; existing ones stay as they are."""
        missing = [group for group in names.PRESET_GROUPS if group not in self.configs]
        for group in missing:
            self.configs[group] = SubscriptionGroupConfig(group_name=group)
        if missing:
            self._changed()

    def find(self, group: str) -> SubscriptionGroupConfig | None:
        """The configuration, made with defaults when it is unknown and that is allowed.

        **Source:** RocketMQ SubscriptionGroupManager#findSubscriptionGroupConfig.
        """
        found = self.configs.get(group)
        if found is not None:
            return found
        if not (self.config.auto_create_subscription_group or names.is_system_group(group)):
            return None
        if names.check_group_name(group) is not None or len(self.configs) >= MAX_GROUPS:
            return None
        if is_system_topic(group):
            return None
        made = self.configs[group] = SubscriptionGroupConfig(group_name=group)
        try:
            self._changed()
        except (StoreError, OSError) as error:
            # Defaults can be made again: a full disk is no reason to refuse a reader.
            log.error("group %s is not written: %s", group, error)
        return made

    def put_all(self, configs: Iterable[SubscriptionGroupConfig]) -> None:
        """Store configurations as one change; unchanged ones do not count."""
        fresh = [c for c in configs if self.configs.get(c.group_name) != c]
        for config in fresh:
            self.configs[config.group_name] = config
        if fresh:
            self._changed()

    def delete(self, group: str) -> bool:
        """Remove a group and what it was forbidden; False when it was unknown."""
        known = self.configs.pop(group, None) is not None
        if self.forbidden.pop(group, None) is not None or known:
            self._changed()
        return known

    def may_read(self, group: str, topic: str) -> bool:
        """False when the group is forbidden to read the topic."""
        if not self.forbidden:
            return True
        return not self.forbidden.get(group, {}).get(topic, 0) & FORBIDDEN_READ

    def forbid_read(self, group: str, topic: str, forbidden: bool) -> None:
        """Forbid or allow a group to read a topic."""
        mask = self.forbidden.get(group, {}).get(topic, 0)
        wanted = mask | FORBIDDEN_READ if forbidden else mask & ~FORBIDDEN_READ
        if wanted == mask:
            return
        topics = self.forbidden.setdefault(group, {})
        if wanted:
            topics[topic] = wanted
        else:
            topics.pop(topic, None)
            if not topics:
                del self.forbidden[group]
        self._changed()

    def _changed(self) -> None:
        self.data_version.bump(self._clock.now_ms())
        for listener in self.on_change:
            listener()
