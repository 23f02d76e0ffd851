"""Who is on-line: membership, subscriptions, expiry, closed connections."""

import pytest

from broker.common.subscription import build_subscription
from broker.remoting.budget import MemoryBudget
from broker.server.client.clients import (
    CHANNEL_BYTES,
    SUBSCRIPTION_BYTES,
    TAG_BYTES,
    ClientChannel,
    ConsumerManager,
    ConsumerProfile,
    ProducerManager,
)

PUSH = ConsumerProfile()


@pytest.fixture
def channel(fake_connection):
    """``channel("c1", now_ms=0)``: a client with its own connection."""

    def make(client_id: str, now_ms: int = 0, connection=None, version: int = 479):
        peer = connection or fake_connection()
        return ClientChannel(peer, client_id, "JAVA", version, now_ms)

    return make


def subscribe(*topics: str, version: int = 1):
    return [build_subscription(topic, "*", sub_version=version) for topic in topics]


class TestConsumers:
    """ConsumerManager."""

    def test_first_heartbeat_changes_the_group_a_repeated_one_does_not(self, channel) -> None:
        consumers = ConsumerManager()
        first = channel("c1")
        assert consumers.register("G", first, PUSH, subscribe("T"))
        again = channel("c1", 5, first.connection)
        assert not consumers.register("G", again, PUSH, subscribe("T"))
        assert consumers.get("G").channels[first.connection].last_update_ms == 5

    def test_members_are_listed_once_and_sorted(self, channel) -> None:
        consumers = ConsumerManager()
        for name in ("c2", "c1", "c2"):
            consumers.register("G", channel(name), PUSH, subscribe("T"))
        assert consumers.get("G").client_ids() == ["c1", "c2"]

    def test_newest_channel_of_a_client_is_found(self, channel) -> None:
        consumers = ConsumerManager()
        old, new = channel("c1"), channel("c1")
        consumers.register("G", old, PUSH, subscribe("T"))
        consumers.register("G", new, PUSH, subscribe("T"))
        assert consumers.get("G").channel_of("c1") is new
        assert consumers.get("G").channel_of("c9") is None

    def test_client_id_that_changes_on_a_connection_is_a_change(self, channel) -> None:
        consumers = ConsumerManager()
        first = channel("c1")
        consumers.register("G", first, PUSH, subscribe("T"))
        assert consumers.register(
            "G", channel("c2", connection=first.connection), PUSH, subscribe("T")
        )
        assert consumers.get("G").client_ids() == ["c2"]

    def test_newer_subscription_replaces_an_older_one_only(self, channel) -> None:
        consumers = ConsumerManager()
        first = channel("c1")
        consumers.register("G", first, PUSH, [build_subscription("T", "A", sub_version=5)])
        older = [build_subscription("T", "B", sub_version=4)]
        assert not consumers.register("G", first, PUSH, older)
        assert consumers.subscription("G", "T").sub_string == "A"
        newer = [build_subscription("T", "B", sub_version=6)]
        assert consumers.register("G", first, PUSH, newer)
        assert consumers.subscription("G", "T").sub_string == "B"

    def test_a_newer_version_of_an_equal_subscription_is_not_a_change(self, channel) -> None:
        consumers = ConsumerManager()
        first = channel("c1")
        consumers.register("G", first, PUSH, subscribe("T", version=1))
        assert not consumers.register("G", first, PUSH, subscribe("T", version=2))
        assert consumers.subscription("G", "T").sub_version == 2

    def test_topic_absent_from_the_heartbeat_is_dropped(self, channel) -> None:
        consumers = ConsumerManager()
        first = channel("c1")
        consumers.register("G", first, PUSH, subscribe("T", "U"))
        assert consumers.register("G", first, PUSH, subscribe("U"))
        assert consumers.subscription("G", "T") is None

    def test_heartbeat_without_subscriptions_leaves_them(self, channel) -> None:
        consumers = ConsumerManager()
        first = channel("c1")
        consumers.register("G", first, PUSH, subscribe("T"))
        assert not consumers.register("G", first, PUSH, None)
        assert consumers.subscription("G", "T") is not None

    def test_groups_of_a_topic(self, channel) -> None:
        consumers = ConsumerManager()
        consumers.register("G2", channel("c1"), PUSH, subscribe("T"))
        consumers.register("G1", channel("c1"), PUSH, subscribe("T", "U"))
        assert consumers.groups_of_topic("T") == ["G1", "G2"]
        assert consumers.groups_of_topic("U") == ["G1"]
        assert consumers.groups_of_topic("V") == []

    def test_closed_connection_leaves_every_group(self, channel) -> None:
        consumers = ConsumerManager()
        first = channel("c1")
        other = channel("c2")
        consumers.register("G1", first, PUSH, subscribe("T"))
        consumers.register("G2", first, PUSH, subscribe("T"))
        consumers.register("G2", other, PUSH, subscribe("T"))
        assert consumers.drop_connection(first.connection) == ["G1", "G2"]
        assert consumers.get("G1") is None
        assert consumers.get("G2").client_ids() == ["c2"]
        assert consumers.drop_connection(first.connection) == []

    def test_unregistering_twice_is_harmless(self, channel) -> None:
        consumers = ConsumerManager()
        first = channel("c1")
        consumers.register("G", first, PUSH, subscribe("T"))
        assert consumers.unregister("G", first.connection)
        assert not consumers.unregister("G", first.connection)
        assert not consumers.unregister("Other", first.connection)
        assert len(consumers) == 0

    def test_silent_members_expire(self, channel) -> None:
        consumers = ConsumerManager()
        silent, alive = channel("c1", 0), channel("c2", 100)
        consumers.register("G", silent, PUSH, subscribe("T"))
        consumers.register("G", alive, PUSH, subscribe("T"))
        assert consumers.expire(120, 120) == []
        assert consumers.expire(121, 120) == [silent]
        assert consumers.get("G").client_ids() == ["c2"]

    def test_profile_of_the_last_heartbeat_counts(self, channel) -> None:
        consumers = ConsumerManager()
        first = channel("c1")
        consumers.register("G", first, PUSH, subscribe("T"))
        assert not consumers.get("G").broadcasting
        model = ConsumerProfile(message_model="BROADCASTING")
        consumers.register("G", first, model, subscribe("T"))
        assert consumers.get("G").broadcasting


class TestProducers:
    """ProducerManager."""

    def test_members_come_and_go(self, channel) -> None:
        producers = ProducerManager()
        first, second = channel("p1"), channel("p2")
        producers.register("P", first)
        producers.register("P", second)
        producers.register("Q", second)
        assert producers.groups() == ["P", "Q"]
        assert producers.get("P") == [first, second]
        producers.drop_connection(second.connection)
        assert producers.groups() == ["P"]
        assert producers.unregister("P", first.connection)
        assert not producers.unregister("P", first.connection)
        assert producers.get("P") == []

    def test_silent_members_expire(self, channel) -> None:
        producers = ProducerManager()
        silent = channel("p1", 0)
        producers.register("P", silent)
        producers.register("P", channel("p2", 100))
        assert producers.expire(150, 120) == [silent]
        assert [member.client_id for member in producers.get("P")] == ["p2"]


class TestCharges:
    """The memory of memberships and subscriptions, charged to their connections."""

    def test_everything_is_given_back_when_the_connection_closes(self, channel) -> None:
        memory = MemoryBudget(1 << 30, 1 << 30)
        consumers, producers = ConsumerManager(memory), ProducerManager(memory)
        first = channel("c1")
        for number in range(20):
            consumers.register(f"G{number}", first, PUSH, subscribe("T", f"T{number}"))
            producers.register(f"P{number}", first)
        least = 40 * (CHANNEL_BYTES + SUBSCRIPTION_BYTES)
        assert least < memory.held_bytes(first.connection) == memory.total_bytes < 2 * least
        consumers.drop_connection(first.connection)
        producers.drop_connection(first.connection)
        assert memory.total_bytes == 0

    def test_a_repeated_heartbeat_costs_nothing(self, channel) -> None:
        memory = MemoryBudget(1 << 30, 1 << 30)
        consumers, producers = ConsumerManager(memory), ProducerManager(memory)
        first = channel("c1")
        for name in ("c1", "c1", "other"):
            again = channel(name, 5, first.connection)
            consumers.register("G", again, PUSH, subscribe("T"))
            producers.register("P", again)
        before = memory.total_bytes
        consumers.register("G", channel("other", 6, first.connection), PUSH, subscribe("T"))
        assert memory.total_bytes == before
        consumers.drop_connection(first.connection)
        producers.drop_connection(first.connection)
        assert memory.total_bytes == 0

    def test_subscriptions_are_charged_by_their_size(self, channel) -> None:
        memory = MemoryBudget(1 << 30, 1 << 30)
        consumers = ConsumerManager(memory)
        first = channel("c1")
        long = " || ".join(f"tag{number}" for number in range(1000))
        consumers.register("G", first, PUSH, [build_subscription("T", long, sub_version=1)])
        assert memory.total_bytes > 1000 * TAG_BYTES
        consumers.register("G", first, PUSH, subscribe("T", version=2))
        assert memory.total_bytes < 2 * (CHANNEL_BYTES + SUBSCRIPTION_BYTES)

    def test_another_member_takes_over_the_subscriptions_of_one_that_left(self, channel) -> None:
        memory = MemoryBudget(1 << 30, 1 << 30)
        consumers = ConsumerManager(memory)
        first, second = channel("c1"), channel("c2")
        consumers.register("G", first, PUSH, subscribe("T"))
        consumers.register("G", second, PUSH, subscribe("T"))
        alone = memory.held_bytes(second.connection)
        consumers.drop_connection(first.connection)
        assert memory.held_bytes(second.connection) == memory.total_bytes
        assert memory.total_bytes >= alone + SUBSCRIPTION_BYTES
        consumers.unregister("G", second.connection)
        assert memory.total_bytes == 0
