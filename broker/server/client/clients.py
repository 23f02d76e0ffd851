"""Online clients: producer and consumer groups with their connections and subscriptions.

Plain tables that receive the time as an argument and never touch a socket; a connection is only
a key and a value. A subscription is replaced only by one with a newer version, topics absent from
the latest heartbeat are dropped, and a group without members is removed.

Memory is charged to connections: a membership to its connection, a group's subscriptions to the
member that changed their size last, or to another member after that one has left.

**Source:** RocketMQ ConsumerManager, ConsumerGroupInfo, ProducerManager, ClientChannelInfo.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from broker.common.subscription import SubscriptionData
from broker.remoting.budget import MemoryBudget
from broker.remoting.limits import HELD_LIMIT_BYTES, HELD_TOTAL_LIMIT_BYTES

if TYPE_CHECKING:
    from broker.remoting.server import Connection

CHANNEL_BYTES: Final = 1_024  # one member of one group with its table entries
SUBSCRIPTION_BYTES: Final = 1_024  # one subscription without its strings
TAG_BYTES: Final = 192  # one tag of a subscription with its hash

Memory = MemoryBudget["Connection"]


def _default_memory() -> Memory:
    return MemoryBudget(HELD_LIMIT_BYTES, HELD_TOTAL_LIMIT_BYTES)


class ClientChannel:
    """One client of one group: connection, and id, language and version from its heartbeats."""

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
    """How a group consumes, from its heartbeats; values are Java enum names."""

    consume_type: str = "CONSUME_PASSIVELY"
    message_model: str = "CLUSTERING"
    consume_from_where: str = "CONSUME_FROM_LAST_OFFSET"


class ConsumerGroup:
    """An online consumer group: profile, channels by connection, subscriptions by topic."""

    __slots__ = (
        "channels",
        "fingerprint",
        "last_update_ms",
        "name",
        "payer",
        "profile",
        "subscription_bytes",
        "subscriptions",
    )

    def __init__(self, name: str, profile: ConsumerProfile, now_ms: int) -> None:
        self.name = name
        self.profile = profile
        self.channels: dict[Connection, ClientChannel] = {}
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.fingerprint: int | None = None
        """The fingerprint of the last heartbeat; heartbeats of version 1 have 0."""
        self.last_update_ms = now_ms
        self.subscription_bytes = 0
        self.payer: Connection | None = None
        """The member that the subscriptions are charged to."""

    @property
    def broadcasting(self) -> bool:
        """True if every member receives every message."""
        return self.profile.message_model == "BROADCASTING"

    def client_ids(self) -> list[str]:
        """Return the ids of the members, sorted and unique."""
        return sorted({channel.client_id for channel in self.channels.values()})

    def channel_of(self, client_id: str) -> ClientChannel | None:
        """Return the newest channel of a member, None if it is offline."""
        found = None
        # A reconnected client may have several channels; the table keeps the order of registration.
        for channel in self.channels.values():
            if channel.client_id == client_id:
                found = channel
        return found

    def update_subscriptions(self, wanted: Iterable[SubscriptionData]) -> bool:
        """Apply a heartbeat's subscriptions; True if a topic was added, removed or changed."""
        changed = False
        table = self.subscriptions
        topics = set()
        for data in wanted:
            topics.add(data.topic)
            old = table.get(data.topic)
            if old is None or data.sub_version > old.sub_version:
                changed = changed or old is None or _differs(old, data)
                table[data.topic] = data
                self.subscription_bytes += _held_bytes(data) - (_held_bytes(old) if old else 0)
        for topic in [topic for topic in table if topic not in topics]:
            self.subscription_bytes -= _held_bytes(table.pop(topic))
            changed = True
        return changed

    def charge_subscriptions(self, memory: Memory, payer: "Connection | None", before: int) -> None:
        """Charge ``payer`` with the subscriptions; release ``before`` bytes of the last payer."""
        if self.payer is not None:
            memory.release(self.payer, before)
        self.payer = payer
        if payer is not None:
            memory.charge(payer, self.subscription_bytes)


def _differs(old: SubscriptionData, new: SubscriptionData) -> bool:
    return (old.sub_string, old.expression_type) != (new.sub_string, new.expression_type)


def _held_bytes(data: SubscriptionData) -> int:
    """Estimate the memory of a subscription in bytes."""
    tags = sum(map(len, data.tags_set)) + TAG_BYTES * (len(data.tags_set) + len(data.code_set))
    return SUBSCRIPTION_BYTES + len(data.topic) + len(data.sub_string) + tags


def _channel_bytes(group: str, channel: ClientChannel) -> int:
    """Estimate the memory of a membership in bytes."""
    return CHANNEL_BYTES + len(group) + len(channel.client_id)


class ConsumerManager:
    """All online consumer groups, found by group, topic and connection.

    ``on_group_gone`` receives the name of a group whose last member has left.
    """

    def __init__(self, memory: Memory | None = None) -> None:
        self._memory = memory if memory is not None else _default_memory()
        self.on_group_gone: Callable[[str], None] | None = None
        self._groups: dict[str, ConsumerGroup] = {}
        self._of_connection: dict[Connection, set[str]] = {}

    def __iter__(self) -> Iterator[ConsumerGroup]:
        return iter(self._groups.values())

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, name: str) -> ConsumerGroup | None:
        """Return the group if at least one member is online."""
        return self._groups.get(name)

    def subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """Return the subscription of ``group`` to ``topic``, None if offline or not subscribed."""
        found = self._groups.get(group)
        return found.subscriptions.get(topic) if found is not None else None

    def groups_of_connection(self, connection: "Connection") -> Collection[str]:
        """Return the names of the groups of which this connection is a member."""
        return self._of_connection.get(connection, ())

    def groups_of_topic(self, topic: str) -> list[str]:
        """Return the names of the online groups that subscribe ``topic``, sorted."""
        return sorted(name for name, found in self._groups.items() if topic in found.subscriptions)

    def register(
        self,
        group: str,
        channel: ClientChannel,
        profile: ConsumerProfile | None,
        subscriptions: Iterable[SubscriptionData] | None,
    ) -> bool:
        """Apply one consumer entry of a heartbeat; True if members or subscriptions changed.

        ``subscriptions`` is None for a heartbeat without them (version 2): the known ones are kept.
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
            if old is not None:
                self._memory.release(channel.connection, _channel_bytes(group, old))
            self._memory.charge(channel.connection, _channel_bytes(group, channel))
            found.channels[channel.connection] = channel
            self._of_connection.setdefault(channel.connection, set()).add(group)
        if subscriptions is not None:
            before = found.subscription_bytes
            if found.update_subscriptions(subscriptions):
                changed = True
            if found.subscription_bytes != before:
                found.charge_subscriptions(self._memory, channel.connection, before)
        return changed

    def note_fingerprint(self, group: str, fingerprint: int) -> bool:
        """Keep the fingerprint of a heartbeat; True if that of the last one was another."""
        found = self._groups.get(group)
        if found is None or found.fingerprint == fingerprint:
            return False
        found.fingerprint = fingerprint
        return True

    def unregister(self, group: str, connection: "Connection") -> bool:
        """Remove the member of this connection; True if it was a member."""
        found = self._groups.get(group)
        channel = found.channels.pop(connection, None) if found is not None else None
        if found is None or channel is None:
            return False
        self._memory.release(connection, _channel_bytes(group, channel))
        groups = self._of_connection.get(connection)
        if groups is not None:
            groups.discard(group)
            if not groups:
                del self._of_connection[connection]
        if found.payer is connection:
            heir = next(iter(found.channels), None)
            found.charge_subscriptions(self._memory, heir, found.subscription_bytes)
        if not found.channels:
            del self._groups[group]
            if self.on_group_gone is not None:
                self.on_group_gone(group)
        return True

    def drop_connection(self, connection: "Connection") -> list[str]:
        """Remove a closed connection from every group; return the names of its groups."""
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
    """All online producer groups."""

    def __init__(self, memory: Memory | None = None) -> None:
        self._memory = memory if memory is not None else _default_memory()
        self._groups: dict[str, dict[Connection, ClientChannel]] = {}
        self._of_connection: dict[Connection, set[str]] = {}
        # client id → its connections, the latest registration last, with their memberships
        self._of_client: dict[str, dict[Connection, int]] = {}
        self._turn = 0

    def available_channel(self, group: str) -> ClientChannel | None:
        """Return a live member of a group, the members in turn; None if none can take a request.

        A member that does not read its responses is passed over.

        **Source:** RocketMQ ProducerManager#getAvailableChannel.
        """
        members = self._groups.get(group)
        if not members:
            return None
        self._turn += 1
        channels = list(members.values())
        for step in range(len(channels)):
            channel = channels[(self._turn + step) % len(channels)]
            if not channel.connection.closed and not channel.connection.paused:
                return channel
        return None

    def get(self, group: str) -> list[ClientChannel]:
        """Return the online members of a group, empty if it has none."""
        return list(self._groups.get(group, {}).values())

    def find_connection(self, client_id: str) -> "Connection | None":
        """Return the connection on which a client registered last, None if it is offline.

        **Source:** RocketMQ ProducerManager#findChannel.
        """
        return next(reversed(self._of_client.get(client_id, {})), None)

    def groups(self) -> list[str]:
        """Return the names of the online groups, sorted."""
        return sorted(self._groups)

    def groups_of_connection(self, connection: "Connection") -> Collection[str]:
        """Return the names of the groups of which this connection is a member."""
        return self._of_connection.get(connection, ())

    def register(self, group: str, channel: ClientChannel) -> None:
        """Apply one producer entry of a heartbeat."""
        members = self._groups.setdefault(group, {})
        old = members.get(channel.connection)
        if old is not None:
            self._forget(group, old)
        self._memory.charge(channel.connection, _channel_bytes(group, channel))
        members[channel.connection] = channel
        self._of_connection.setdefault(channel.connection, set()).add(group)
        connections = self._of_client.setdefault(channel.client_id, {})
        connections[channel.connection] = connections.get(channel.connection, 0) + 1

    def _forget(self, group: str, channel: ClientChannel) -> None:
        """Undo the accounting of one membership."""
        self._memory.release(channel.connection, _channel_bytes(group, channel))
        connections = self._of_client[channel.client_id]
        connections[channel.connection] -= 1
        if not connections[channel.connection]:
            del connections[channel.connection]
            if not connections:
                del self._of_client[channel.client_id]

    def unregister(self, group: str, connection: "Connection") -> bool:
        """Remove the member of this connection; True if it was a member."""
        members = self._groups.get(group)
        channel = members.pop(connection, None) if members is not None else None
        if members is None or channel is None:
            return False
        self._forget(group, channel)
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
