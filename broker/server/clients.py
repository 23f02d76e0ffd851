"""Who is on-line: producer groups and consumer groups with their connections and subscriptions.

Plain tables that are told the time and never touch a socket: a connection is only a key and a
value that callers hand in and get back. A subscription entry is replaced only by one with a
newer version, topics absent from the latest heartbeat are dropped, a group without members is
forgotten.

**Source:** RocketMQ ConsumerManager, ConsumerGroupInfo, ProducerManager, ClientChannelInfo.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from broker.common.subscription import SubscriptionData

if TYPE_CHECKING:
    from broker.remoting.server import Connection


class ClientChannel:
    """One client of one group: connection, id, language and version of its heartbeats."""

    __slots__ = ("client_id", "connection", "language", "last_update_ms", "version")

    def __init__(
        self, connection: "Connection", client_id: str, language: str, version: int, now_ms: int
    ) -> None:
        self.connection = connection
        self.client_id = client_id
        self.language = language
        self.version = version
        self.last_update_ms = now_ms


class ConsumerProfile(msgspec.Struct, frozen=True):
    """How a group says it consumes; Java enum names."""

    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"


class ConsumerGroup:
    """A consumer group that is on-line: profile, channels by connection, subscriptions by topic."""

    __slots__ = ("channels", "last_update_ms", "name", "profile", "subscriptions")

    def __init__(self, name: str, profile: ConsumerProfile, now_ms: int) -> None:
        self.name = name
        self.profile = profile
        self.channels: dict[Connection, ClientChannel] = {}
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.last_update_ms = now_ms

    @property
    def broadcasting(self) -> bool:
        """True when every member gets every message."""
        return self.profile.message_model == "BROADCASTING"

    def client_ids(self) -> list[str]:
        """Ids of the members, sorted, each once."""
        return sorted({channel.client_id for channel in self.channels.values()})

    def channel_of(self, client_id: str) -> ClientChannel | None:
        """The newest channel of a member, None when it is not on-line."""
        found = None
        for channel in self.channels.values():
            if channel.client_id == client_id:
                found = channel
        return found

    def update_subscriptions(self, wanted: Iterable[SubscriptionData]) -> bool:
        """Take over a heartbeat's subscriptions; True when any topic came, went or changed."""
        changed = False
        table = self.subscriptions
        topics = set()
        for data in wanted:
            topics.add(data.topic)
            old = table.get(data.topic)
            if old is None or data.sub_version > old.sub_version:
                changed = changed or old is None or _differs(old, data)
                table[data.topic] = data
        for topic in [topic for topic in table if topic not in topics]:
            del table[topic]
            changed = True
        return changed


def _differs(old: SubscriptionData, new: SubscriptionData) -> bool:
    return (old.sub_string, old.expression_type) != (new.sub_string, new.expression_type)


class ConsumerManager:
    """All consumer groups that are on-line, found by group, by topic and by connection."""

    def __init__(self) -> None:
        self._groups: dict[str, ConsumerGroup] = {}
        self._of_connection: dict[Connection, set[str]] = {}

    def __iter__(self) -> Iterator[ConsumerGroup]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, name: str) -> ConsumerGroup | None:
        """The group when at least one member is on-line."""
        return self._groups.get(name)

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """What ``group`` subscribed of ``topic``, None when off-line or not subscribed."""
        found = self._groups.get(group)
        return found.subscriptions.get(topic) if found is not None else None

    def groups_of_topic(self, topic: str) -> list[str]:
        """Names of the on-line groups that subscribe ``topic``, sorted."""
        return sorted(name for name, found in self._groups.items() if topic in found.subscriptions)

    def register(
        self,
        group: str,
        channel: ClientChannel,
        profile: ConsumerProfile | None,
        subscriptions: Iterable[SubscriptionData] | None,
    ) -> bool:
        """Take over one consumer entry of a heartbeat; True when members or subscriptions changed.

        ``subscriptions`` is None for a heartbeat without them (version 2): what is known stays.
        """
        now_ms = channel.last_update_ms
        found = self._groups.get(group)
        if found is None:
            found = self._groups[group] = ConsumerGroup(group, profile or ConsumerProfile(), now_ms)
        if profile is not None:
            found.profile = profile
        found.last_update_ms = now_ms
        old = found.channels.get(channel.connection)
        changed = old is None or old.client_id != channel.client_id
        if old is not None and not changed:
            old.last_update_ms = now_ms
            old.version = channel.version
            old.language = channel.language
        else:
            found.channels[channel.connection] = channel
            self._of_connection.setdefault(channel.connection, set()).add(group)
        if subscriptions is not None and found.update_subscriptions(subscriptions):
            changed = True
        return changed

    def unregister(self, group: str, connection: "Connection") -> bool:
        """Remove the member of this connection; True when there was one."""
        found = self._groups.get(group)
        if found is None or found.channels.pop(connection, None) is None:
            return False
        groups = self._of_connection.get(connection)
        if groups is not None:
            groups.discard(group)
            if not groups:
                del self._of_connection[connection]
        if not found.channels:
            del self._groups[group]
        return True

    def drop_connection(self, connection: "Connection") -> list[str]:
        """Remove a closed connection from every group; the names of the groups it was in."""
        groups = sorted(self._of_connection.get(connection, ()))
        for group in groups:
            self.unregister(group, connection)
        return groups

    def expire(self, now_ms: int, timeout_ms: int) -> list[ClientChannel]:
        """Remove and return the members that were silent for longer than ``timeout_ms``."""
        silent = [
            (found.name, channel)
            for found in self._groups.values()
            for channel in found.channels.values()
            if now_ms - channel.last_update_ms > timeout_ms
        ]
        for group, channel in silent:
            self.unregister(group, channel.connection)
        return [channel for _, channel in silent]


class ProducerManager:
    """All producer groups that are on-line."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Connection, ClientChannel]] = {}
        self._of_connection: dict[Connection, set[str]] = {}

    def get(self, group: str) -> list[ClientChannel]:
        """The on-line members of a group, empty when there are none."""
        return list(self._groups.get(group, {}).values())

    def groups(self) -> list[str]:
        """Names of the groups that are on-line, sorted."""
        return sorted(self._groups)

    def register(self, group: str, channel: ClientChannel) -> None:
        """Take over one producer entry of a heartbeat."""
        members = self._groups.setdefault(group, {})
        members[channel.connection] = channel
        self._of_connection.setdefault(channel.connection, set()).add(group)

    def unregister(self, group: str, connection: "Connection") -> bool:
        """Remove the member of this connection; True when there was one."""
        members = self._groups.get(group)
        if members is None or members.pop(connection, None) is None:
            return False
        if not members:
            del self._groups[group]
        groups = self._of_connection.get(connection)
        if groups is not None:
            groups.discard(group)
            if not groups:
                del self._of_connection[connection]
        return True

    def drop_connection(self, connection: "Connection") -> None:
        """Remove a closed connection from every group."""
        for group in sorted(self._of_connection.get(connection, ())):
            self.unregister(group, connection)

    def expire(self, now_ms: int, timeout_ms: int) -> list[ClientChannel]:
        """Remove and return the members that were silent for longer than ``timeout_ms``."""
        silent = [
            (group, channel)
            for group, members in self._groups.items()
            for channel in members.values()
            if now_ms - channel.last_update_ms > timeout_ms
        ]
        for group, channel in silent:
            self.unregister(group, channel.connection)
        return [channel for _, channel in silent]
