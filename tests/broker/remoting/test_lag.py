"""Loop lag: probes, the longest delay of a minute, log lines that do not pile up."""

import asyncio
import logging
import time

import pytest

from broker.remoting.lag import PROBE_S, WINDOW_S, LoopLag
from broker.remoting.protocol.codes import RequestCode


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class FakeLoop:
    """Keeps the timers that are set."""

    def __init__(self) -> None:
        self.timers: list[float] = []

    def call_later(self, delay_s: float, call: object) -> None:
        self.timers.append(delay_s)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lag(clock: Clock) -> LoopLag:
    return LoopLag("broker", clock)


def late(lag: LoopLag, clock: Clock, delay_s: float) -> None:
    """Arm the probe and let it fire too late."""
    lag.arm(FakeLoop())
    clock.now_s += PROBE_S + delay_s
    lag.probe()


def test_one_probe_is_set_however_much_arrives(lag: LoopLag) -> None:
    loop = FakeLoop()
    for _ in range(3):
        lag.arm(loop)
    assert loop.timers == [PROBE_S]
    lag.probe()
    lag.arm(loop)
    assert loop.timers == [PROBE_S] * 2


def test_longest_delay_of_the_last_minute_is_reported(lag: LoopLag, clock: Clock) -> None:
    assert lag.longest_ms == 0
    late(lag, clock, 0.2)
    late(lag, clock, 0.01)
    assert lag.longest_ms == pytest.approx(200)
    clock.now_s += WINDOW_S
    late(lag, clock, 0.03)
    assert lag.longest_ms == pytest.approx(30)
    clock.now_s += WINDOW_S + 1
    assert lag.longest_ms == 0


def test_an_early_probe_is_not_a_delay(lag: LoopLag, clock: Clock) -> None:
    late(lag, clock, -0.02)
    assert lag.longest_ms == 0


def test_long_request_is_logged_with_its_code(lag: LoopLag, clock: Clock, caplog) -> None:
    lag.ran(RequestCode.HEART_BEAT, 0.3)
    assert caplog.messages == ["broker: HEART_BEAT (34) held up the loop for 300 ms"]
    assert lag.longest_ms == pytest.approx(300)


def test_late_probe_names_the_last_request_that_is_answered_later(
    lag: LoopLag, clock: Clock, caplog
) -> None:
    lag.arm(FakeLoop())
    lag.began(RequestCode.HEART_BEAT)
    clock.now_s += PROBE_S + 0.3
    lag.probe()
    late(lag, clock, 1.3)
    assert caplog.messages == [
        "broker: the loop was held up for 300 ms, last: HEART_BEAT (34)",
        "broker: the loop was held up for 1300 ms",
    ], "an earlier request is not named again"


def test_small_delay_is_counted_and_not_logged(lag: LoopLag, clock: Clock, caplog) -> None:
    late(lag, clock, 0.04)
    assert caplog.messages == []
    assert lag.longest_ms == pytest.approx(40)


def test_a_loop_that_is_always_late_logs_once_a_second(lag: LoopLag, clock: Clock, caplog) -> None:
    for _ in range(50):
        clock.now_s += 0.1
        lag.ran(RequestCode.PULL_MESSAGE, 0.1)
    assert 5 <= len(caplog.messages) <= 6


def test_a_blocked_loop_is_measured(caplog) -> None:
    """The real loop and clock: whatever blocks is seen, a request or not."""

    async def main() -> float:
        lag = LoopLag("broker", time.monotonic)
        loop = asyncio.get_running_loop()
        fired = asyncio.Event()
        lag.arm(loop)
        loop.call_later(PROBE_S + 0.001, fired.set)
        end = loop.time() + 3 * PROBE_S
        while loop.time() < end:  # a handler must not do this
            pass
        await fired.wait()
        return lag.longest_ms

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(main()) > 1000 * PROBE_S
