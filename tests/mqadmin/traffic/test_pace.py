import pytest

from broker.common.clock import ManualClock
from mqadmin.traffic.pace import Pace


def test_without_a_rate_nothing_waits() -> None:
    assert Pace(None, ManualClock()).delay_s(10_000) == 0


def test_units_are_spaced_by_the_rate() -> None:
    pace = Pace(10, ManualClock())
    assert [pace.delay_s() for _ in range(4)] == pytest.approx([0, 0.1, 0.2, 0.3])


def test_a_group_takes_the_time_of_its_units() -> None:
    pace = Pace(100, ManualClock())
    assert (pace.delay_s(50), pace.delay_s()) == pytest.approx((0, 0.5))


def test_a_long_pause_is_not_caught_up() -> None:
    clock = ManualClock()
    pace = Pace(1000, clock)
    pace.delay_s()
    clock.advance(60_000)
    free = 0
    while not pace.delay_s():
        free += 1
    assert free <= 52  # the burst of 50 ms
