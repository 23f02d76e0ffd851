"""Counters, windows, rates."""

from broker.server.stats import BrokerStats, Counter


def test_rate_is_the_difference_over_the_window() -> None:
    counter = Counter()
    for step in range(7):
        counter.sample(step * 10_000)
        counter.add(50, 5)
    shot = counter.rate(70_000)
    # The first snapshot is preceded by a zero one, and seven are kept: 10 s to 60 s stay.
    assert shot.sum == 350
    assert shot.tps == 350 * 1000 / 70_000
    assert shot.avgpt == 10.0


def test_old_snapshots_leave_the_window() -> None:
    counter = Counter()
    counter.add(1000)
    for step in range(20):
        counter.sample(step * 10_000)
    assert counter.rate(200_000).sum == 0
    assert counter.rate(200_000).tps == 0.0


def test_snapshots_closer_than_the_interval_are_not_taken() -> None:
    counter = Counter()
    counter.sample(0)
    counter.sample(5_000)
    assert len(counter.minute.points) == 2
    counter.sample(10_000)
    assert len(counter.minute.points) == 3


def test_a_counter_without_samples_has_a_sum() -> None:
    counter = Counter()
    counter.add(6, 3)
    assert (counter.rate(0).sum, counter.rate(0).avgpt) == (6, 2.0)
    assert counter.recent_tps(0) == (0.0, 0.0, 0.0)


def test_recent_rate_looks_at_least_a_second_back() -> None:
    counter = Counter()
    counter.sample(0)
    counter.add(100)
    assert counter.recent_tps(500)[0] == 100 * 1000 / 10_500
    assert counter.recent_tps(2_000)[0] == 50.0


def test_counters_are_found_by_name_and_key() -> None:
    stats = BrokerStats(0)
    assert stats.find("TOPIC_PUT_NUMS", "T") is None
    counter = stats.counter("TOPIC_PUT_NUMS", "T")
    assert stats.counter("TOPIC_PUT_NUMS", "T") is counter
    assert stats.find("TOPIC_PUT_NUMS", "T") is counter


def test_deleted_topics_and_groups_are_forgotten() -> None:
    stats = BrokerStats(0)
    stats.counter("TOPIC_PUT_NUMS", "T")
    stats.counter("GROUP_GET_NUMS", "T@G")
    stats.counter("GROUP_GET_NUMS", "U@G")
    cache = stats.new_cache()
    cache["T@G"] = stats.counter("GROUP_GET_NUMS", "T@G"), stats.counter("GROUP_GET_SIZE", "T@G")
    stats.forget_topics({"T"})
    assert stats.find("TOPIC_PUT_NUMS", "T") is None
    assert stats.find("GROUP_GET_NUMS", "T@G") is None
    assert stats.find("GROUP_GET_NUMS", "U@G") is not None
    assert cache == {}  # else the next pulls would add to removed counters
    stats.counter("DLQ_PUT_NUMS", "U@G")
    stats.forget_group("G")
    assert stats.find("GROUP_GET_NUMS", "U@G") is None
    assert stats.find("DLQ_PUT_NUMS", "U@G") is None


def test_a_group_and_a_topic_of_one_name_are_distinct() -> None:
    stats = BrokerStats(0)
    of_topic = ("TOPIC_PUT_NUMS", "Orders"), ("GROUP_GET_NUMS", "Orders@G")
    of_group = ("DLQ_PUT_NUMS", "T@Orders"), ("GROUP_GET_NUMS", "T@Orders")
    for name, key in of_topic + of_group:
        stats.counter(name, key)
    stats.forget_group("Orders")
    assert all(stats.find(*one) for one in of_topic)
    assert not any(stats.find(*one) for one in of_group)


def test_totals_roll_at_midnight() -> None:
    day = 86_400_000
    stats = BrokerStats(day - 20_000)
    stats.put.add(10)
    stats.sample(day - 10_000)
    assert stats.midnight_put == (0, 0)
    stats.put.add(5)
    stats.sample(day)
    assert stats.midnight_put == (0, 15)
    stats.put.add(1)
    stats.sample(2 * day)
    assert stats.midnight_put == (15, 16)
