"""Allocation: equal to the Java client's for recorded inputs, and the properties it must have."""

import json
import lzma
from pathlib import Path
from random import Random

import pytest

from broker.client.rebalance.strategies import (
    AllocateAveragely,
    AllocateAveragelyByCircle,
    AllocateByConfig,
    AllocateByConsistentHash,
    AllocateByMachineRoom,
    AllocateByMachineRoomNearby,
    AllocateStrategy,
)
from broker.common.message_queue import MessageQueue
from broker.errors import ClientError


def strategy_named(name: str, queues: list[MessageQueue]) -> AllocateStrategy:
    nearby = AllocateByMachineRoomNearby(
        AllocateAveragely(),
        lambda queue: queue.broker_name.split("@")[0],
        lambda client_id: client_id.split("-")[0],
    )
    known: list[AllocateStrategy] = [
        AllocateAveragely(),
        AllocateAveragelyByCircle(),
        AllocateByConfig(queues[:2]),
        AllocateByMachineRoom({"room0", "room2"}),
        nearby,
        AllocateByConsistentHash(),
    ]
    return next(one for one in known if one.name == name)


def test_results_equal_those_of_the_java_client(golden: Path) -> None:
    packed = (golden / "client" / "allocations-533.json.xz").read_bytes()
    cases = json.loads(lzma.decompress(packed))
    assert {case["strategy"] for case in cases} == {
        "AVG",
        "AVG_BY_CIRCLE",
        "CONFIG",
        "MACHINE_ROOM",
        "MACHINE_ROOM_NEARBY-AVG",
        "CONSISTENT_HASH",
    }
    for case in cases:
        queues = [MessageQueue(case["topic"], name, number) for name, number in case["queues"]]
        strategy = strategy_named(case["strategy"], queues)
        for client_id, expected in zip(case["ids"], case["result"], strict=True):
            found = strategy.allocate("g", client_id, queues, case["ids"])
            assert [queues.index(queue) for queue in found] == expected, case


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (AllocateAveragely(), [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]]),
        (AllocateAveragelyByCircle(), [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]]),
    ],
)
def test_ten_queues_of_four_members(strategy: AllocateStrategy, expected: list[list[int]]) -> None:
    queues = [MessageQueue("T", "b", number) for number in range(10)]
    ids = ["c0", "c1", "c2", "c3"]
    found = [[q.queue_id for q in strategy.allocate("g", one, queues, ids)] for one in ids]
    assert found == expected


@pytest.mark.parametrize(
    "name", ["AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM_NEARBY-AVG"]
)
def test_every_queue_has_exactly_one_owner(name: str, rng: Random) -> None:
    for _ in range(50):
        queues = sorted(
            MessageQueue("T", f"room{rng.randrange(3)}@b{broker}", number)
            for broker in range(rng.randint(1, 4))
            for number in range(rng.randint(1, 9))
        )
        ids = sorted(f"room{rng.randrange(3)}-{number}" for number in range(rng.randint(1, 7)))
        strategy = strategy_named(name, queues)
        owned = [queue for one in ids for queue in strategy.allocate("g", one, queues, ids)]
        assert sorted(owned) == queues


def test_shares_of_averagely_differ_by_at_most_one(rng: Random) -> None:
    for strategy in (AllocateAveragely(), AllocateAveragelyByCircle()):
        queues = [MessageQueue("T", "b", number) for number in range(rng.randint(1, 40))]
        ids = [f"c{number:02d}" for number in range(rng.randint(1, 12))]
        sizes = [len(strategy.allocate("g", one, queues, ids)) for one in ids]
        assert max(sizes) - min(sizes) <= 1


def test_few_queues_move_on_the_hash_ring_when_a_member_leaves() -> None:
    queues = [MessageQueue("T", "b", number) for number in range(200)]
    ids = ["c0", "c1", "c2", "c3"]
    strategy = AllocateByConsistentHash()
    before = {one: set(strategy.allocate("g", one, queues, ids)) for one in ids}
    after = {one: set(strategy.allocate("g", one, queues, ids[:3])) for one in ids[:3]}
    assert all(before[one] <= after[one] for one in ids[:3])


def test_a_member_that_is_not_in_the_list_gets_nothing() -> None:
    queues = [MessageQueue("T", "room0@b", 0)]
    for name in ("AVG", "AVG_BY_CIRCLE", "MACHINE_ROOM", "CONSISTENT_HASH"):
        strategy = strategy_named(name, queues)
        assert strategy.allocate("g", "not-a-member", queues, ["c0"]) == []
        assert strategy.allocate("g", "c0", [], ["c0"]) == []


def test_an_allocation_needs_a_client_id_and_known_rooms() -> None:
    queues = [MessageQueue("T", "b", 0)]
    with pytest.raises(ClientError, match="client id"):
        AllocateAveragely().allocate("g", "", queues, ["c0"])
    with pytest.raises(ClientError, match="virtual_nodes"):
        AllocateByConsistentHash(-1)
    nearby = AllocateByMachineRoomNearby(AllocateAveragely(), lambda _: "", lambda _: "r")
    with pytest.raises(ClientError, match="room"):
        nearby.allocate("g", "c0", queues, ["c0"])
    nearby = AllocateByMachineRoomNearby(AllocateAveragely(), lambda _: "r", lambda _: "")
    with pytest.raises(ClientError, match="room"):
        nearby.allocate("g", "c0", queues, ["c0"])
