"""PopTimers: waiting requests and work happen at their time on a real event loop."""

import asyncio

from broker.common.clock import SystemClock
from broker.server.pop.long_polling import SuspendedPop
from broker.server.pop.timers import PopTimers, WaitingTopics


def test_a_deadline_is_served_once_and_on_time(desk, fake_connection) -> None:
    woken: list[SuspendedPop] = []
    clock = SystemClock()
    pop = desk.pop_service
    pop.parts = pop.parts._replace(clock=clock)

    async def main() -> None:
        timers = PopTimers(pop, clock)
        timers.start(desk.store)
        over = asyncio.Event()
        pop.wake = lambda pops: (woken.extend(pops), pops and over.set())  # type: ignore[func-returns-value]
        waiting = SuspendedPop(fake_connection(), None, "G1", -1)
        waiting.deadline_ms = clock.monotonic_ms() + 20
        pop.pops.suspend("Orders", waiting, clock.monotonic_ms())
        pop.schedule()
        await asyncio.wait_for(over.wait(), 10)
        assert woken == [waiting]
        assert clock.monotonic_ms() >= waiting.deadline_ms
        timers.stop()

    asyncio.run(main())


def test_an_error_does_not_end_the_work(desk, monkeypatch, caplog) -> None:
    calls: list[int] = []

    def fail() -> float:
        calls.append(1)
        raise RuntimeError("boom")

    async def main() -> None:
        monkeypatch.setattr(desk.pop_service, "run", fail)
        monkeypatch.setattr("broker.server.pop.timers.RETRY_MS", 1)
        timers = PopTimers(desk.pop_service, SystemClock())
        timers.start(desk.store)
        while len(calls) < 3:
            await asyncio.sleep(0.001)
        timers.stop()

    asyncio.run(main())
    assert "work failed" in caplog.text


def test_waiting_topics_are_those_that_can_serve_a_request(desk, client) -> None:
    topics = WaitingTopics(desk.pop_service)
    names = ("Orders", "%RETRY%G1_Orders", "%RETRY%G1+Orders")
    assert not any(name in topics for name in names)
    client.pop_raw(pollTime=1_000)
    assert all(name in topics for name in names)
    assert "Other" not in topics
    desk.advance(1_100)
    assert not any(name in topics for name in names)
