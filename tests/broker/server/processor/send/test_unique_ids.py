"""Unique keys of the broker."""

import os

import pytest

from broker.common.clock import ManualClock
from broker.message.message_id import parse_uniq_key
from broker.server.processor.send.unique_ids import PROCESS_MARK, UniqueKeys, month_bounds


def test_key_is_made_of_address_process_time_and_counter() -> None:
    clock = ManualClock()
    keys = UniqueKeys(clock)
    first = parse_uniq_key(keys.next("10.1.2.3:10911"))
    second = parse_uniq_key(keys.next("10.1.2.3:10911"))
    assert (first.ip, first.pid) == ("10.1.2.3", os.getpid() & 0xFFFF)
    assert first.loader_hash == PROCESS_MARK
    assert first.time_diff_ms == clock.now_ms() - month_bounds(clock.now_ms())[0]
    assert second.counter == first.counter + 1


@pytest.mark.parametrize("now_ms", [1_700_000_000_000, 1_735_603_200_000, 1_709_200_000_000])
def test_month_begins_and_ends_around_now(now_ms) -> None:
    start, end = month_bounds(now_ms)
    assert start <= now_ms < end
    assert 27 * 86_400_000 < end - start < 32 * 86_400_000
    assert month_bounds(end)[0] == end


def test_counters_restart_in_the_next_month() -> None:
    clock = ManualClock(month_bounds(1_700_000_000_000)[1] - 1)
    keys = UniqueKeys(clock)
    before = parse_uniq_key(keys.next("10.1.2.3:1"))
    clock.advance(1)
    assert parse_uniq_key(keys.next("10.1.2.3:1")).time_diff_ms == 0
    assert before.time_diff_ms > 0
