"""Suspended pulls leave exactly once: woken, expired or dropped."""

import random

import pytest

from broker.remoting.budget import MemoryBudget
from broker.remoting.protocol.command import request
from broker.server.longpolling.long_polling import (
    SUSPENDED_PULL_BYTES,
    PullRequestHold,
    SuspendedPull,
)


@pytest.fixture
def pull(fake_connection):
    """``pull("T", 0, offset=3, deadline=100)``."""

    def make(topic="T", queue_id=0, *, offset=0, deadline=100.0, connection=None):
        held = SuspendedPull(connection or fake_connection(), request(11), topic, queue_id)
        held.queue_offset = offset
        held.deadline_ms = deadline
        return held

    return make


def test_arrival_wakes_pulls_below_the_new_end(pull) -> None:
    holds = PullRequestHold()
    below, beyond, other = pull(offset=4), pull(offset=5), pull(queue_id=1)
    for held in (below, beyond, other):
        assert holds.suspend(held)
    assert holds.arrived("T", 0, 5) == [below]
    assert len(holds) == 2
    assert holds.arrived("T", 0, 6) == [beyond]
    assert holds.arrived("T", 0, 7) == []
    assert holds.arrived("Unknown", 0, 7) == []


def test_order_of_suspension_is_kept(pull) -> None:
    holds = PullRequestHold()
    pulls = [pull() for _ in range(5)]
    for held in pulls:
        holds.suspend(held)
    assert holds.arrived("T", 0, 1) == pulls


def test_tag_filter_decides(pull) -> None:
    holds = PullRequestHold()
    held = pull()
    held.tag_match = {7}.__contains__
    holds.suspend(held)
    assert holds.arrived("T", 0, 1, 8, b"") == []
    assert holds.arrived("T", 0, 2, 7, b"") == [held]


def test_property_filter_decides(pull) -> None:
    holds = PullRequestHold()
    held = pull()
    held.properties_match = b"yes".__eq__
    holds.suspend(held)
    assert holds.arrived("T", 0, 1, 0, b"no") == []
    assert holds.arrived("T", 0, 2, 0, b"yes") == [held]


def test_arrival_without_a_code_wakes_whatever_the_filter(pull) -> None:
    holds = PullRequestHold()
    held = pull()
    held.tag_match = set().__contains__
    holds.suspend(held)
    assert holds.arrived("T", 0, 1) == [held]


def test_deadlines_come_in_order(pull) -> None:
    holds = PullRequestHold()
    late, soon = pull(deadline=200.0), pull(deadline=100.0)
    holds.suspend(late)
    holds.suspend(soon)
    assert holds.next_deadline_ms() == 100.0
    assert holds.expire(99.9) == []
    assert holds.expire(100.0) == [soon]
    assert holds.next_deadline_ms() == 200.0
    assert holds.expire(1000.0) == [late]
    assert holds.next_deadline_ms() is None


def test_woken_pull_does_not_expire(pull) -> None:
    holds = PullRequestHold()
    holds.suspend(pull(deadline=100.0))
    holds.arrived("T", 0, 1)
    assert holds.next_deadline_ms() is None
    assert holds.expire(1000.0) == []


def test_closed_connection_takes_its_pulls_along(pull, fake_connection) -> None:
    holds = PullRequestHold()
    peer = fake_connection()
    holds.suspend(pull(connection=peer))
    holds.suspend(pull(connection=peer, queue_id=1))
    other = pull()
    holds.suspend(other)
    holds.drop_connection(peer)
    holds.drop_connection(peer)
    assert len(holds) == 1
    assert holds.take_all() == [other]


def test_limit_is_kept(pull) -> None:
    holds = PullRequestHold(limit=2)
    assert holds.suspend(pull())
    assert holds.suspend(pull())
    assert holds.full
    assert not holds.suspend(pull())
    holds.expire(1000.0)
    assert holds.suspend(pull())


def test_view_of_topics_is_live(pull) -> None:
    holds = PullRequestHold()
    topics = holds.topics
    assert "T" not in topics
    holds.suspend(pull())
    assert "T" in topics
    holds.arrived("T", 0, 1)
    assert "T" not in topics


def test_dead_heap_entries_do_not_pile_up(pull) -> None:
    """A tailing consumer suspends a thousand times a second with far deadlines."""
    holds = PullRequestHold()
    for number in range(10_000):
        holds.suspend(pull(offset=number, deadline=1e9))
        holds.arrived("T", 0, number + 1)
    assert len(holds) == 0
    assert len(holds.deadlines) < 200


def test_random_life_agrees_with_a_list(pull, fake_connection, rng: random.Random) -> None:
    """Model: a plain list of the suspended pulls."""
    holds = PullRequestHold(limit=40)
    model: list[SuspendedPull] = []
    peers = [fake_connection() for _ in range(5)]
    now = 0.0
    for _ in range(2_000):
        action = rng.randrange(6)
        if action < 3:
            held = pull(
                rng.choice("TU"),
                rng.randrange(3),
                offset=rng.randrange(10),
                deadline=now + rng.randrange(1, 50),
                connection=rng.choice(peers),
            )
            if holds.suspend(held):
                model.append(held)
            assert len(model) <= 40
        elif action == 3:
            topic, queue_id, end = rng.choice("TU"), rng.randrange(3), rng.randrange(12)
            woken = [
                held
                for held in model
                if (held.topic, held.queue_id) == (topic, queue_id) and held.queue_offset < end
            ]
            assert holds.arrived(topic, queue_id, end) == woken
            model = [held for held in model if held not in woken]
        elif action == 4:
            now += rng.randrange(20)
            over = [held for held in model if held.deadline_ms <= now]
            assert set(holds.expire(now)) == set(over)
            model = [held for held in model if held not in over]
        else:
            peer = rng.choice(peers)
            holds.drop_connection(peer)
            model = [held for held in model if held.connection is not peer]
        assert len(holds) == len(model)
        assert holds.next_deadline_ms() == min((h.deadline_ms for h in model), default=None)


def test_suspended_pulls_are_charged_to_their_connection_until_they_leave(
    pull, fake_connection
) -> None:
    first, second = fake_connection(), fake_connection("127.0.0.1:2")
    memory = MemoryBudget(5 * SUSPENDED_PULL_BYTES, 1 << 30)
    hold = PullRequestHold(100, memory)
    ours = [pull(deadline=10 + n, connection=first) for n in range(3)]
    ours[0].held_bytes *= 2
    for one in ours:
        assert hold.suspend(one)
    assert memory.held_bytes(first) == 4 * SUSPENDED_PULL_BYTES
    large = pull(connection=first)
    large.held_bytes *= 2
    assert not hold.suspend(large), "above the limit of its connection"
    assert hold.suspend(pull(connection=second))
    assert hold.expire(10) == [ours[0]]
    assert memory.held_bytes(first) == 2 * SUSPENDED_PULL_BYTES
    hold.drop_connection(first)
    assert memory.held_bytes(first) == 0
    assert len(hold.take_all()) == 1
    assert memory.total_bytes == 0
