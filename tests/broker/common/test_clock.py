import pytest

from broker.common.clock import ManualClock, SystemClock


def test_manual_clock_moves_only_by_hand() -> None:
    clock = ManualClock(1000)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1000, 0)
    clock.advance(50)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1050, 50)
    clock.jump(-500)
    assert (clock.now_ms(), clock.monotonic_ms()) == (550, 50)
    with pytest.raises(ValueError, match="back"):
        clock.advance(-1)


def test_system_clock_counts_milliseconds() -> None:
    clock = SystemClock()
    assert clock.now_ms() > 1_700_000_000_000
    first = clock.monotonic_ms()
    assert clock.monotonic_ms() >= first
