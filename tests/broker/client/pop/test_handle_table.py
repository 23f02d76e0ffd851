"""Handles that are used up or expired."""

from msgspec.structs import replace

from broker.client.pop.handle_table import HandleTable
from broker.client.pop.receipt_handle import ReceiptHandle
from broker.common.clock import ManualClock

HANDLE = ReceiptHandle.parse("120 1700000000000 60000 3 0 broker-a 1 121")


def test_a_handle_expires_after_its_time_whatever_the_clock_of_the_broker_shows() -> None:
    for skew_ms in (-(10**9), 0, 10**9):
        clock = ManualClock()
        table = HandleTable(clock)
        handle = replace(HANDLE, pop_time_ms=clock.now_ms() + skew_ms + 2 * 10**9)
        table.arrived(handle)
        clock.advance(59_999)
        assert table.is_usable(handle)
        clock.advance(1)
        assert not table.is_usable(handle)


def test_a_handle_that_is_used_up_stays_so() -> None:
    clock = ManualClock()
    table = HandleTable(clock)
    table.arrived(HANDLE)
    other = replace(HANDLE, queue_offset=122)
    table.use_up(HANDLE)
    for _ in range(12):
        assert not table.is_usable(HANDLE)
        clock.advance(10_000)
        table.use_up(other)
    assert not table.is_usable(HANDLE)


def test_a_handle_from_elsewhere_is_left_to_the_broker_until_it_is_used_up() -> None:
    clock = ManualClock()
    table = HandleTable(clock)
    assert table.is_usable(HANDLE)
    table.use_up(HANDLE)
    assert not table.is_usable(HANDLE)
