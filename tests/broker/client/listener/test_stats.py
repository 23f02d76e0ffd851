"""Rates of the last minute."""

from broker.client.listener.stats import ConsumerStats
from broker.common.clock import ManualClock


def test_rates_cover_one_minute_and_failures_are_counted_in_total() -> None:
    clock = ManualClock()
    stats = ConsumerStats(clock)
    for _ in range(60):
        stats.pulled("T", 10, 4.0)
        stats.consumed("T", 9, 1, 20.0)
        clock.advance(1_000)
    status = stats.status("T")
    assert status.pull_rt == 4.0
    assert status.consume_rt == 2.0
    assert 9.5 < status.pull_tps <= 10.0
    assert 8.5 < status.consume_ok_tps <= 9.0
    assert 0.9 < status.consume_failed_tps <= 1.0
    assert status.consume_failed_msgs == 60
    clock.advance(61_000)
    later = stats.status("T")
    assert (later.pull_tps, later.consume_rt, later.consume_failed_msgs) == (0.0, 0.0, 60)


def test_an_unknown_topic_has_zero_rates() -> None:
    assert ConsumerStats(ManualClock()).status("T").consume_ok_tps == 0.0
