"""InFlightCounter: counts per queue, never below zero, nothing from before the start."""

import random
from collections import Counter

import pytest

from broker.server.pop import in_flight
from broker.server.pop.in_flight import InFlightCounter


def test_counts_go_up_and_down_per_queue() -> None:
    counter = InFlightCounter(100)
    counter.add("T", "G", 0, 3)
    counter.add("T", "G", 1, 1)
    counter.remove("T", "G", 0, 100)
    assert [counter.get("T", "G", queue_id) for queue_id in range(3)] == [2, 1, 0]


def test_they_never_fall_below_zero() -> None:
    counter = InFlightCounter(100)
    counter.add("T", "G", 0, 1)
    counter.remove("T", "G", 0, 100, 5)
    counter.remove("T", "G", 0, 100)
    assert counter.get("T", "G", 0) == 0


def test_messages_popped_before_the_start_do_not_count_down() -> None:
    counter = InFlightCounter(100)
    counter.add("T", "G", 0, 1)
    counter.remove("T", "G", 0, 99)
    assert counter.get("T", "G", 0) == 1


def test_deleted_topics_are_forgotten() -> None:
    counter = InFlightCounter(0)
    counter.add("T", "G", 0, 1)
    counter.add("Gone", "G", 0, 1)
    counter.clean(lambda topic, group: topic == "T")
    assert (counter.get("T", "G", 0), counter.get("Gone", "G", 0)) == (1, 0)


def test_a_cleared_queue_counts_from_zero_and_the_others_stay() -> None:
    counter = InFlightCounter(0)
    counter.add("T", "G", 0, 3)
    counter.add("T", "G", 1, 2)
    counter.clear("T", "G", 0)
    counter.clear("T", "G", 0)
    counter.clear("Other", "G", 0)
    counter.add("T", "G", 0, 1)
    assert (counter.get("T", "G", 0), counter.get("T", "G", 1)) == (1, 2)


def test_queues_past_the_limit_are_not_counted_until_one_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(in_flight, "MAX_KEYS", 2)
    counter = InFlightCounter(0)
    for queue_id in range(3):
        counter.add("T", "G", queue_id, 1)
    counter.add("T", "G", 0, 4)  # a known queue is counted at the limit, too
    assert [counter.get("T", "G", queue_id) for queue_id in range(3)] == [5, 1, 0]
    counter.remove("T", "G", 1, 0)
    counter.add("T", "G", 2, 1)
    counter.add("U", "G", 0, 1)
    assert (counter.get("T", "G", 2), counter.get("U", "G", 0)) == (1, 0)
    counter.clean(lambda topic, group: False)
    counter.add("U", "G", 0, 1)
    assert counter.get("U", "G", 0) == 1


def test_counts_agree_with_a_dictionary(rng: random.Random) -> None:
    counter, model = InFlightCounter(100), Counter[tuple[str, str, int]]()
    keys = [(topic, group, queue) for topic in "AB" for group in "GH" for queue in (0, 1)]
    for _ in range(2_000):
        key = rng.choice(keys)
        action = rng.choice(["add", "remove", "remove", "clear", "old", "clean"])
        if action == "add":
            count = rng.randint(1, 4)
            counter.add(*key, count)
            model[key] += count
        elif action == "remove":
            count = rng.randint(1, 3)
            counter.remove(*key, 100, count)
            model[key] = max(0, model[key] - count)
        elif action == "clear":
            counter.clear(*key)
            model[key] = 0
        elif action == "old":
            counter.remove(*key, 99)
        elif rng.random() < 0.1:
            counter.clean(lambda topic, group: topic == "A")
            model = Counter({one: count for one, count in model.items() if one[0] == "A"})
        assert all(counter.get(*one) == model[one] for one in keys)
