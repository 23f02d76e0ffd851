"""The difference between an allocation and the present state."""

from random import Random

from broker.client.consumer.process_queue import PULL_MAX_IDLE_MS, ProcessQueue
from broker.client.rebalance.plan import plan_rebalance
from broker.common.message_queue import MessageQueue

QUEUES = [MessageQueue("T", "b", number) for number in range(6)]


def test_only_queues_that_change_owner_are_touched() -> None:
    owned = {queue: ProcessQueue(0) for queue in QUEUES[:4]}
    plan = plan_rebalance("T", owned, QUEUES[2:6], 0)
    assert plan.remove == QUEUES[:2]
    assert plan.add == QUEUES[4:]
    assert plan.stalled == []


def test_an_equal_allocation_changes_nothing() -> None:
    owned = {queue: ProcessQueue(0) for queue in QUEUES}
    assert plan_rebalance("T", owned, QUEUES, 0).is_empty


def test_a_stalled_queue_is_recreated() -> None:
    owned = {QUEUES[0]: ProcessQueue(0)}
    plan = plan_rebalance("T", owned, QUEUES[:1], PULL_MAX_IDLE_MS + 1)
    assert (plan.remove, plan.stalled, plan.add) == ([], QUEUES[:1], QUEUES[:1])
    assert plan_rebalance("T", owned, QUEUES[:1], PULL_MAX_IDLE_MS).is_empty


def test_a_dropped_queue_that_is_allocated_again_gets_a_new_object() -> None:
    process = ProcessQueue(0)
    process.dropped = True
    plan = plan_rebalance("T", {QUEUES[0]: process}, QUEUES[:1], 0)
    assert (plan.remove, plan.add) == (QUEUES[:1], QUEUES[:1])


def test_queues_of_other_topics_are_left_alone() -> None:
    other = MessageQueue("Other", "b", 0)
    assert plan_rebalance("T", {other: ProcessQueue(0)}, [], 0).is_empty


def test_applying_a_plan_gives_the_allocation(rng: Random) -> None:
    for _ in range(200):
        owned = {queue: ProcessQueue(0) for queue in QUEUES if rng.random() < 0.5}
        for process in owned.values():
            process.dropped = rng.random() < 0.2
            process.last_pull_ms = rng.choice([0, -PULL_MAX_IDLE_MS - 1])
        allocated = [queue for queue in QUEUES if rng.random() < 0.5]
        plan = plan_rebalance("T", owned, allocated, 0)
        after = (set(owned) - set(plan.remove) - set(plan.stalled)) | set(plan.add)
        assert after == set(allocated)
        assert not {queue for queue in after - set(plan.add) if owned[queue].dropped}
