"""Offsets in memory, against a dict."""

from random import Random

from broker.client.offset.offset_table import OffsetTable
from broker.common.message_queue import MessageQueue

QUEUES = [MessageQueue("T" if number < 3 else "U", "b", number) for number in range(5)]


def test_updates_follow_a_dict(rng: Random) -> None:
    table, model = OffsetTable(), dict[MessageQueue, int]()
    for _ in range(500):
        queue, offset = rng.choice(QUEUES), rng.randrange(100)
        action = rng.randrange(4)
        if action == 0:
            table.update(queue, offset)
            model[queue] = offset
        elif action == 1:
            table.update(queue, offset, increase_only=True)
            model[queue] = max(offset, model.get(queue, 0))
        elif action == 2:
            table.remove(queue)
            model.pop(queue, None)
        assert {one: table.get(one) for one in QUEUES} == {one: model.get(one) for one in QUEUES}
        assert table.of_topic("T") == {q: o for q, o in model.items() if q.topic == "T"}


def test_a_frozen_offset_ignores_late_results_until_the_queue_is_removed() -> None:
    table = OffsetTable()
    table.update_and_freeze(QUEUES[0], 5)
    table.update(QUEUES[0], 90)
    table.update(QUEUES[0], 90, increase_only=True)
    assert table.get(QUEUES[0]) == 5
    table.update_and_freeze(QUEUES[0], 6)
    assert table.get(QUEUES[0]) == 6
    table.remove(QUEUES[0])
    table.update(QUEUES[0], 90)
    assert table.get(QUEUES[0]) == 90


def test_retain_drops_queues_of_other_members() -> None:
    table = OffsetTable()
    for number, queue in enumerate(QUEUES):
        table.update(queue, number)
    assert table.retain(QUEUES[:2]) == {QUEUES[0]: 0, QUEUES[1]: 1}
    assert table.of_topic("") == {QUEUES[0]: 0, QUEUES[1]: 1}
