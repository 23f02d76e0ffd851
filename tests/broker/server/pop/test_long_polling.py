"""PopLongPolling: which suspended requests are woken, in which order, and the limits."""

import random

import pytest

from broker.remoting.budget import MemoryBudget
from broker.remoting.protocol.command import request
from broker.server.filter.message_filter import Matcher
from broker.server.pop.long_polling import PollingResult, PopLongPolling, SuspendedPop


@pytest.fixture
def make(fake_connection):
    """``make(group, queue_id, deadline)``: a request that could be suspended."""
    connection = fake_connection()

    def pop(group="G", queue_id=-1, deadline_ms=1_000.0, peer=None) -> SuspendedPop:
        made = SuspendedPop(peer or connection, request(0), group, queue_id)
        made.deadline_ms = deadline_ms
        return made

    return pop


def polling(limit=100, key_limit=10, **how) -> PopLongPolling:
    return PopLongPolling(MemoryBudget(1 << 20, 1 << 20), limit=limit, key_limit=key_limit, **how)


def test_a_message_wakes_one_request_for_its_queue_and_one_for_any(make) -> None:
    hold = polling()
    pops = [make(queue_id=queue_id) for queue_id in (-1, -1, 2, 2, 3)]
    for pop in pops:
        assert hold.suspend("T", pop, 0) is PollingResult.SUSPENDED
    assert hold.arrived("T", 2) == [pops[0], pops[2]]
    assert hold.arrived("T", 2) == [pops[1], pops[3]]
    assert hold.arrived("T", 2) == []
    assert len(hold) == 1


def test_each_group_is_served(make) -> None:
    hold = polling()
    pops = [make(group) for group in ("A", "B")]
    for pop in pops:
        hold.suspend("T", pop, 0)
    assert set(hold.arrived("T", 0)) == set(pops)
    assert hold.arrived("Other", 0) == []


def test_notifications_wake_the_newest(make) -> None:
    hold = polling(newest_first=True)
    pops = [make(), make()]
    for pop in pops:
        hold.suspend("T", pop, 0)
    assert hold.arrived("T", 0) == [pops[1]]


def test_a_filter_that_rejects_is_passed_over(make) -> None:
    hold = polling()
    picky, other = make(), make()
    picky.matcher = Matcher(tags=lambda code: code == 1)
    for pop in (picky, other):
        hold.suspend("T", pop, 0)
    assert hold.arrived("T", 0, 2, b"") == [other]
    assert hold.arrived("T", 0, 2, b"") == []
    assert hold.arrived("T", 0, 1, b"") == [picky]


def test_deadlines_expire_once(make) -> None:
    hold = polling()
    pops = [make(deadline_ms=at) for at in (300.0, 100.0, 200.0)]
    for pop in pops:
        hold.suspend("T", pop, 0)
    assert hold.next_deadline_ms() == 100.0
    assert hold.expire(200.0) == [pops[1], pops[2]]
    assert hold.expire(1_000.0) == [pops[0]]
    assert hold.next_deadline_ms() is None


def test_a_withdrawn_request_is_gone_and_is_withdrawn_once(make) -> None:
    hold, pop = polling(), make()
    hold.suspend("T", pop, 0)
    assert hold.withdraw(pop)
    assert not hold.withdraw(pop)
    assert hold.arrived("T", 0) == []
    assert len(hold) == 0


def test_a_deadline_that_has_passed_is_a_timeout(make) -> None:
    assert polling().suspend("T", make(deadline_ms=5.0), 5.0) is PollingResult.TIMEOUT


def test_limits_of_the_broker_and_of_one_key(make) -> None:
    hold = polling(limit=3)
    results = [hold.suspend("T", make(), 0) for _ in range(4)]
    assert results == [PollingResult.SUSPENDED] * 3 + [PollingResult.FULL]
    hold = polling(key_limit=1)
    results = [hold.suspend("T", make(), 0) for _ in range(3)]
    assert results == [PollingResult.SUSPENDED] * 2 + [PollingResult.FULL]
    assert hold.suspend("T", make("Other"), 0) is PollingResult.SUSPENDED


def test_the_memory_limit_of_a_connection(make) -> None:
    hold = PopLongPolling(MemoryBudget(5_000, 1 << 20), limit=100, key_limit=100)
    results = [hold.suspend("T", make(), 0) for _ in range(3)]
    assert results[-1] is PollingResult.FULL


def test_when_the_broker_stops_all_are_taken_and_none_is_added(make) -> None:
    hold = polling()
    pops = [make(), make("B")]
    for pop in pops:
        hold.suspend("T", pop, 0)
    assert hold.take_all() == pops
    assert hold.suspend("T", make(), 0) is PollingResult.TIMEOUT


def test_one_request_of_each_key_of_a_group(make) -> None:
    hold = polling()
    pops = [make(queue_id=queue_id) for queue_id in (-1, -1, 4)] + [make("Other")]
    for pop in pops:
        hold.suspend("T", pop, 0)
    assert set(hold.wake_group("T", "G")) == {pops[0], pops[2]}


def test_random_operations_leave_nothing(make, fake_connection, rng: random.Random) -> None:
    memory: MemoryBudget = MemoryBudget(1 << 30, 1 << 30)
    hold = PopLongPolling(memory, limit=10_000, key_limit=10_000)
    peers = [fake_connection(f"127.0.0.1:{port}") for port in range(50_000, 50_005)]
    waiting: set[SuspendedPop] = set()
    for step in range(2_000):
        action = rng.randrange(6)
        if action < 3:
            pop = make(rng.choice("AB"), rng.randrange(-1, 2), step + rng.randrange(1, 50),
                       rng.choice(peers))  # fmt: skip
            assert hold.suspend("T", pop, step) is PollingResult.SUSPENDED
            waiting.add(pop)
        elif action == 3:
            waiting -= set(hold.arrived("T", rng.randrange(2)))
        elif action == 4:
            over = hold.expire(step)
            assert all(pop.deadline_ms <= step for pop in over)
            waiting -= set(over)
        elif step % 10 == 0:
            peer = rng.choice(peers)
            hold.drop_connection(peer)
            waiting = {pop for pop in waiting if pop.connection is not peer}
        assert len(hold) == len(waiting)
    assert set(hold.take_all()) == waiting
    assert memory.total_bytes == 0
    assert dict(hold.topics) == {}
    assert dict(hold.retry_topics) == {}
