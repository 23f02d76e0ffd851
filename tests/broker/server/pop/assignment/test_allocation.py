"""Assignment: every queue has a member, and shares in POP mode."""

import random

import pytest

from broker.common.message_queue import MessageQueue
from broker.server.pop.assignment.allocation import STRATEGIES, Member, assign
from broker.server.pop.assignment.request_mode import RequestMode

PULL = RequestMode(mode="PULL")


def queues(count, broker="b"):
    return [MessageQueue("T", broker, number) for number in range(count)]


def pop(share: int) -> RequestMode:
    return RequestMode(mode="POP", pop_share_queue_num=share)


def numbers(found):
    return [queue.queue_id for queue in found]


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_every_queue_has_exactly_one_member(strategy, rng: random.Random) -> None:
    for _ in range(50):
        everything = queues(rng.randrange(0, 20))
        members = [f"c{number}" for number in range(rng.randrange(1, 8))]
        given = [
            queue
            for one in members
            for queue in assign(everything, PULL, Member(one, members, strategy)) or []
        ]
        assert sorted(given) == everything


def test_averagely_gives_the_first_members_one_more() -> None:
    members = ["a", "b", "c"]
    shares = [numbers(assign(queues(8), PULL, Member(m, members, "AVG"))) for m in members]
    assert shares == [[0, 1, 2], [3, 4, 5], [6, 7]]


@pytest.mark.parametrize("share", [-1, 0, 2, 5])
def test_sharing_with_all_members_is_any_queue_of_each_broker(share) -> None:
    everything = queues(4) + queues(4, "c")
    found = assign(everything, pop(share), Member("a", ["a", "b", "c"], "AVG"))
    assert found == [MessageQueue("T", "b", -1), MessageQueue("T", "c", -1)]


def test_a_share_adds_the_queues_of_the_following_members() -> None:
    members = ["a", "b", "c", "d"]
    found = assign(queues(8), pop(1), Member("d", members, "AVG"))
    assert numbers(found) == [6, 7, 0, 1]


def test_with_more_members_than_queues_each_has_one() -> None:
    members = ["a", "b", "c", "d", "e"]
    found = [numbers(assign(queues(2), pop(1), Member(one, members, "AVG"))) for one in members]
    assert found == [[0], [1], [0], [1], [0]]


def test_an_unknown_strategy_is_not_decided() -> None:
    assert assign(queues(2), PULL, Member("a", ["a"], "MACHINE_ROOM")) is None


def test_a_stranger_owns_nothing() -> None:
    assert assign(queues(2), PULL, Member("x", ["a"], "AVG")) == []
    assert assign(queues(9), pop(1), Member("x", ["a", "b", "c", "d"], "AVG")) == []
