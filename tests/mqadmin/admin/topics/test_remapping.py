"""Moving queues of static topics: which broker gets which queue, from which offset on."""

import random
from typing import Any

import pytest

from broker.errors import ClientError
from broker.remoting.protocol.body.namesrv.route import (
    LogicQueueMappingItem,
)
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.topics.remapping import (
    apply_remapping,
    block_seq_round_up,
    plan_remapping,
    remapped,
)
from mqadmin.admin.topics.static import EPOCH_STEP
from tests.support.fake_brokers import FakeBroker, FakeCluster
from tests.support.static_topics import Served, static


def segments(after: Any, name: str) -> dict[int, list[LogicQueueMappingItem]]:
    return dict(after[name].mapping_detail.hosted_queues or {})


def owners(after: Any) -> dict[int, str]:
    """Global queue id → the broker that all hosts of the queue name as its owner."""
    found: dict[int, set[str]] = {}
    for name in after:
        for queue_id, items in segments(after, name).items():
            found.setdefault(queue_id, set()).add(items[-1].bname)
    assert all(len(one) == 1 for one in found.values()), found
    return {queue_id: one.pop() for queue_id, one in sorted(found.items())}


@pytest.mark.parametrize(
    ("offset", "first"),
    [(0, 10_000), (4_999, 10_000), (5_000, 20_000), (9_999, 20_000), (10_000, 20_000)],
)
def test_the_first_offset_is_a_block_at_least_half_a_block_away(offset: int, first: int) -> None:
    assert block_seq_round_up(offset) == first


def test_a_moved_queue_gets_a_segment_without_a_first_offset_at_old_and_new_owner() -> None:
    after, moved = remapped("T", static("T", 2, ["a"]), ["b"], 1_000)
    assert moved == {0: ("a", "b"), 1: ("a", "b")}
    assert segments(after, "a") == segments(after, "b")
    closed, leader = segments(after, "b")[1]
    assert (closed.bname, closed.queue_id, closed.logic_offset) == ("a", 1, 0)
    assert (leader.gen, leader.bname, leader.queue_id) == (1, "b", 1)
    assert leader.logic_offset == -1
    counts = {name: one.topic_config.write_queue_nums for name, one in after.items()}
    assert counts == {"a": 2, "b": 2}
    details = [one.mapping_detail for one in after.values()]
    assert {detail.epoch for detail in details if detail} == {5_000 + EPOCH_STEP}


def test_any_move_spreads_the_queues_evenly_and_moves_no_more_than_needed() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(200):
        present = static("T", rng.randint(1, 12), rng.sample("abcdef", rng.randint(1, 4)))
        names = rng.sample("abcdef", rng.randint(1, 4))
        before = owners(present)
        after, moved = remapped("T", present, names, 9_000)
        found = owners(after)
        assert sorted(found) == sorted(before)
        counts = [sum(owner == name for owner in found.values()) for name in names]
        assert sum(counts) == len(before)
        assert max(counts) - min(counts) <= 1
        assert {queue_id for queue_id in before if before[queue_id] != found[queue_id]} == set(
            moved
        )
        staying = sum(
            min(sum(owner == name for owner in before.values()), count)
            for name, count in zip(names, counts, strict=True)
        )
        assert len(moved) == len(before) - staying


def test_nothing_moves_to_the_brokers_that_have_the_queues() -> None:
    present = static("T", 4, ["a", "b"])
    after, moved = remapped("T", present, ["a", "b"], 1_000)
    assert moved == {}
    assert {name: segments(after, name) for name in after} == {
        name: segments(present, name) for name in present
    }


def test_an_interrupted_move_is_resumed_without_a_further_segment() -> None:
    first, moved = remapped("T", static("T", 2, ["a"]), ["b"], 1_000)
    again, resumed = remapped("T", {**static("T", 2, ["a"]), "b": first["b"]}, ["b"], 1_000)
    assert resumed == moved
    assert segments(again, "a") == segments(first, "a")
    assert segments(again, "b") == segments(first, "b")
    with pytest.raises(ClientError, match="interrupted"):
        remapped("T", first, ["c"], 1_000)


def test_a_topic_whose_queue_no_broker_has_is_refused() -> None:
    present = static("T", 4, ["a", "b"])
    del present["b"]
    with pytest.raises(ClientError, match="no broker has queue 1"):
        remapped("T", present, ["a"], 1_000)


@pytest.fixture
def served(cluster: FakeCluster, broker_a: FakeBroker) -> Served:
    """Topic T with two queues at broker-a; the first has 3 messages, the second 7,000."""
    made = Served(cluster, static("T", 2, ["broker-a"]))
    for _ in range(3):
        broker_a.store("T", 0)
    message = broker_a.store("T", 1)
    broker_a.queues["T", 1] = [message] * 7_000
    return made


def test_the_new_owner_is_written_first_and_again_after_the_old_one(
    admin: MQAdmin, served: Served
) -> None:
    found = plan_remapping(admin, "T", now_ms=9_000, brokers=["broker-b"])
    assert apply_remapping(admin, found).ok
    assert served.writes == [("broker-b", -1), ("broker-a", -1), ("broker-b", 10_000)]
    hosted = segments(served.tables, "broker-b")
    assert [hosted[queue_id][-1].logic_offset for queue_id in (0, 1)] == [10_000, 20_000]


def test_a_failed_step_ends_the_move_and_the_same_command_completes_it(
    cluster: FakeCluster, admin: MQAdmin, served: Served, broker_a: FakeBroker
) -> None:
    broker_a.refuse(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, 1)
    found = plan_remapping(admin, "T", now_ms=9_000, brokers=["broker-b"])
    outcome = apply_remapping(admin, found)
    assert [error.target for error in outcome.errors] == ["broker-a"]
    assert "same command again" in outcome.warnings[0]
    assert served.writes == [("broker-b", -1)]
    broker_a.refusals.clear()
    with cluster.admin() as session:
        again = plan_remapping(session, "T", now_ms=9_500, brokers=["broker-b"])
        assert apply_remapping(session, again).ok
    assert segments(served.tables, "broker-b")[0][-1].logic_offset == 10_000


def test_an_old_owner_without_the_end_of_its_queue_leaves_the_move_incomplete(
    admin: MQAdmin, served: Served, broker_a: FakeBroker
) -> None:
    found = plan_remapping(admin, "T", now_ms=9_000, brokers=["broker-b"])
    broker_a.on_202 = lambda header, command: b'{"offsetTable":{}}'  # type: ignore[method-assign]
    with pytest.raises(ClientError, match="does not report the end"):
        apply_remapping(admin, found)
    assert segments(served.tables, "broker-b")[0][-1].logic_offset == -1


def test_a_topic_that_does_not_exist_is_refused(admin: MQAdmin) -> None:
    with pytest.raises(ClientError, match="no broker has the static topic"):
        plan_remapping(admin, "NoSuch", now_ms=1, brokers=["broker-b"])
