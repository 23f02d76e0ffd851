"""Message ids created by producers."""

import os

from broker.common.clock import ManualClock
from broker.common.times import month_start_ms
from broker.message.message_id import parse_uniq_key
from broker.remoting.rpc.uniq_key import UniqKeyGenerator


def test_a_key_holds_address_process_and_time_in_the_month() -> None:
    clock = ManualClock()
    keys = UniqKeyGenerator(clock, "10.1.2.3")
    parts = parse_uniq_key(keys.create())
    assert (parts.ip, parts.pid) == ("10.1.2.3", os.getpid() & 0xFFFF)
    assert parts.time_diff_ms == clock.now_ms() - month_start_ms(clock.now_ms())
    assert parse_uniq_key(keys.create()).counter == parts.counter + 1


def test_keys_of_one_and_of_several_generators_differ() -> None:
    clock = ManualClock()
    generators = [UniqKeyGenerator(clock, "10.1.2.3") for _ in range(10)]
    keys = {one.create() for one in generators for _ in range(1_000)}
    assert len(keys) == 10_000


def test_the_time_starts_again_with_the_month() -> None:
    clock = ManualClock()
    keys = UniqKeyGenerator(clock, "10.1.2.3")
    for _ in range(70):
        clock.advance(86_400_000 // 2)
        parts = parse_uniq_key(keys.create())
        assert parts.time_diff_ms == clock.now_ms() - month_start_ms(clock.now_ms())


def test_a_clock_that_jumps_back_into_the_last_month_is_followed() -> None:
    clock = ManualClock()
    keys = UniqKeyGenerator(clock, "10.1.2.3")
    keys.create()
    clock.jump(-40 * 86_400_000)
    parts = parse_uniq_key(keys.create())
    assert parts.time_diff_ms == clock.now_ms() - month_start_ms(clock.now_ms())


def test_an_ipv6_address_makes_a_longer_key() -> None:
    assert len(UniqKeyGenerator(ManualClock(), "::1").create()) == 56
