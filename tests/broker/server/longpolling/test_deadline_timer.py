"""The timer of suspended pulls and delayed messages, on both event loops."""

import asyncio
import math

import pytest

from broker.common.clock import SystemClock
from broker.server.longpolling.deadline_timer import DeadlineTimer


class Recorder:
    """A timer that notes each of its calls."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.called_at: list[float] = []
        self.fired = asyncio.Event()
        self.timer = DeadlineTimer(self.clock, self._note)

    def _note(self) -> None:
        self.called_at.append(self.clock.monotonic_ms())
        self.fired.set()

    def arm(self, wait_ms: float) -> float:
        deadline_ms = self.clock.monotonic_ms() + wait_ms
        self.timer.arm(deadline_ms)
        return deadline_ms

    async def wait(self) -> None:
        await self.fired.wait()
        self.fired.clear()


@pytest.mark.parametrize("wait_ms", [-5, 0, 0.1, 0.4, 0.6, 3])
def test_short_waits_can_be_followed_by_any_other(run, wait_ms) -> None:
    """uvloop gives a handle without a time for less than 0.5 ms."""

    async def main() -> None:
        recorder = Recorder()
        recorder.arm(wait_ms)
        for other_ms in (0.3, 0, 50, 60_000):
            recorder.arm(other_ms)
        await recorder.wait()
        assert len(recorder.called_at) == 1

    run(main())


def test_earlier_deadline_replaces_a_later_one_and_not_the_other_way_round(run) -> None:
    async def main() -> None:
        recorder = Recorder()
        recorder.arm(60_000)
        earliest_ms = recorder.arm(5)
        recorder.arm(30_000)
        await recorder.wait()
        assert len(recorder.called_at) == 1
        assert recorder.called_at[0] >= math.floor(earliest_ms) - 1

    run(main())


def test_timer_is_unarmed_when_it_calls(run) -> None:
    async def main() -> None:
        recorder = Recorder()
        for _ in range(3):
            recorder.arm(0.2)
            await recorder.wait()
        assert len(recorder.called_at) == 3

    run(main())


def test_cancelled_timer_does_not_call_and_can_be_armed_again(run) -> None:
    async def main() -> None:
        recorder = Recorder()
        recorder.timer.cancel()
        recorder.arm(0)
        recorder.timer.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert recorder.called_at == []
        recorder.arm(0)
        await recorder.wait()
        assert len(recorder.called_at) == 1

    run(main())
