"""SlowConsumers: disable groups that are too far from the end of the log.

**Source:** RocketMQ BrokerController#protectBroker.
"""

import logging

import msgspec

from broker.server.configuration.config import BrokerConfig
from broker.server.tables.subscription_group import SubscriptionGroupManager

log = logging.getLogger("broker.server")


class SlowConsumers:
    """The distance of each group from the end of the log, as of its pulls since the last check."""

    def __init__(self, groups: SubscriptionGroupManager) -> None:
        self._groups = groups
        self._behind_bytes: dict[str, int] = {}

    def note(self, group: str, behind_bytes: int) -> None:
        """Record the distance of the last message that a group has pulled from one queue."""
        if behind_bytes > self._behind_bytes.get(group, 0):
            self._behind_bytes[group] = behind_bytes

    def disable(self, config: BrokerConfig) -> list[str]:
        """Disable the groups beyond ``consumerFallbehindThreshold``; return their names.

        Only with ``disableConsumeIfConsumerReadSlowly``. Called periodically.
        """
        noted, self._behind_bytes = self._behind_bytes, {}
        if not config.disable_consume_if_consumer_read_slowly:
            return []
        limit = config.consumer_fallbehind_threshold
        slow = [
            current
            for group, behind in noted.items()
            if behind > limit
            and (current := self._groups.configs.get(group)) is not None
            and current.consume_enable
        ]
        for current in slow:
            log.warning(
                "group %s is %d bytes from the end of the log, limit %d: consumption disabled",
                current.group_name,
                noted[current.group_name],
                limit,
            )
        self._groups.put_all(
            msgspec.structs.replace(current, consume_enable=False) for current in slow
        )
        return [current.group_name for current in slow]
