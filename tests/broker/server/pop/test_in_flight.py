"""InFlightCounter: counts per queue, never below zero, nothing from before the start."""

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
