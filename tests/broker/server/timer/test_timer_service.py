"""The timer service on an event loop: it wakes, delivers, writes its state, and stops."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.common.clock import SystemClock
from broker.errors import DiskFullError
from broker.server.tables.table_writer import run_in_place
from broker.server.timer.timer_service import Rate, TimerService
from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageStore
from broker.store.timer.timer_message_store import TimerMessageStore
from tests.support.timers import SMALL, Timers


class Running(Timers):
    """Timers on the system clock, with a service."""

    service: TimerService

    def open(self) -> "Running":
        self.clock = SystemClock()
        self.config = MessageStoreConfig(
            **{
                **SMALL,
                "store_path_root_dir": self.config.store_path_root_dir,
                "timer_precision_ms": 20,
            }
        )
        self.store = MessageStore(self.config, clock=self.clock)
        self.store.load()
        self.timers = TimerMessageStore(self.store)
        self.timers.load(clean=True)
        self.store.start()
        self.service = TimerService(self.timers, self.clock, 10, run_in_place)
        return self


@pytest.fixture
def running(tmp_path: Path) -> Running:
    return Running(str(tmp_path / "store")).open()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


def test_arrival_wakes_delivery_writes_and_stops(running: Running) -> None:
    async def scenario() -> None:
        running.service.start()
        running.send("a", 60)
        running.send("b", 600_000)
        running.service.wake()
        await until(lambda: running.timers.dequeued == 1)
        check = Path(running.config.root) / "config" / "timercheck"
        await until(check.exists)
        await until(lambda: not running.timers.changed)
        running.service.stop()
        await running.service.close()

    asyncio.run(scenario())
    assert running.delivered() == {"a": 1}
    running.store.shutdown()


def test_error_of_a_run_does_not_end_the_delivery(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures = [DiskFullError("timerlog: no space"), ZeroDivisionError("bug")]
    run = running.timers.run

    def failing() -> float | None:
        if failures:
            raise failures.pop(0)
        return run()

    monkeypatch.setattr(running.timers, "run", failing)
    monkeypatch.setattr("broker.server.timer.timer_service.MAX_WAIT_MS", 10)

    async def scenario() -> None:
        running.send("a", 20)
        running.service.start()
        await until(lambda: running.timers.dequeued == 1)
        running.service.stop()
        await running.service.close()

    asyncio.run(scenario())
    assert "timers wait: timerlog: no space" in caplog.text
    assert "bug" in caplog.text
    running.store.shutdown()


def test_state_that_cannot_be_written_is_reported_once_and_written_later(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write = running.timers.progress.write
    failures = 3

    def failing(*state: object) -> None:
        nonlocal failures
        if failures:
            failures -= 1
            raise DiskFullError("timerwheel: no space")
        write(*state)  # type: ignore[arg-type]

    monkeypatch.setattr(running.timers.progress, "write", failing)

    async def scenario() -> None:
        running.service.start()
        running.send("a", 600_000)
        running.service.wake()
        await until(lambda: running.timers.enqueued == 1 and not running.timers.changed)
        running.service.stop()
        await running.service.close()

    asyncio.run(scenario())
    assert caplog.text.count("timerwheel: no space") == 1
    running.store.shutdown()


def test_figures_are_those_that_java_reports(running: Running) -> None:
    running.send("a", 600_000)
    running.run()
    figures = running.service.figures()
    assert figures["timerCongestNum"] == "1"
    assert figures["timerOffsetBehind"] == "0"
    assert figures["timerReadBehind"] == "0"
    assert float(figures["timerEnqueueTps"]) >= 0
    running.close()


def test_rate_is_that_of_the_last_periods() -> None:
    rate = Rate()
    rate.sample(0, 0)
    rate.sample(100, 10_000)
    assert rate.per_second(10_000) == 10
    rate.sample(100, 20_000)
    rate.sample(100, 30_000)
    assert rate.per_second(31_000) == 0
