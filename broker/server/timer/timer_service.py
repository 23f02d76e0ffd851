"""TimerService: runs the timer engine on the event loop, and writes its state in a thread.

An arrival in the timer topic, or the end of the first slot with pending messages, wakes it. Due
times are wall-clock times and waits are monotonic, so while a message is pending it runs at least
once a second: after a clock step no delivery is late by more than that. Each run is bounded; the
rest follows in the next event-loop iteration.

**Source:** RocketMQ TimerMessageStore (its services), BrokerController#initializeMessageStore.
"""

import asyncio
import logging
from typing import Final

from broker.common.clock import Clock
from broker.errors import DescriptorLimitError, DiskFullError, RocketMQError
from broker.server.longpolling.deadline_timer import DeadlineTimer
from broker.server.tables.table_writer import RunJob
from broker.store.timer.timer_message_store import MAX_WAIT_MS, TimerMessageStore

log = logging.getLogger("broker.server")

SAMPLE_MS: Final = 10_000


class TimerService:
    """Drives one :class:`TimerMessageStore`; :meth:`start` after the store has started."""

    def __init__(
        self, timers: TimerMessageStore, clock: Clock, flush_interval_ms: int, run: RunJob
    ) -> None:
        self.timers = timers
        self._clock = clock
        self._flush_interval_ms = flush_interval_ms
        self._run_job = run
        self._run_timer = DeadlineTimer(clock, self._run)
        self._flush_timer = DeadlineTimer(clock, self._flush)
        self._flush_armed = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._running = False
        self._reported = ""
        self.enqueue_rate = Rate()
        self.dequeue_rate = Rate()

    def start(self) -> None:
        """Start to enqueue and deliver."""
        self._running = True
        self.wake()

    def wake(self) -> None:
        """Run in the next event-loop iteration: something was stored in the timer topic."""
        if self._running:
            self._run_timer.arm(self._clock.monotonic_ms())

    def stop(self) -> None:
        """Stop; a running write may still be in progress."""
        self._running = False
        self._run_timer.cancel()
        self._flush_timer.cancel()

    async def close(self) -> None:
        """Write the last state and close the files; after :meth:`stop`, before the store stops."""
        await self._idle.wait()
        try:
            self.timers.shutdown()
        except (RocketMQError, OSError) as error:
            log.error("timers: state not written, the next start recovers: %s", error)

    def delete_expired(self) -> None:
        """Remove timer log files whose records have left the CommitLog."""
        try:
            for path in self.timers.delete_expired():
                log.info("deleted %s", path)
        except (RocketMQError, OSError) as error:
            self._report(f"timer log: not deleted: {error}")

    def _run(self) -> None:
        if not self._running:
            return
        try:
            wait_ms = self.timers.run()
        except (DiskFullError, DescriptorLimitError) as error:
            self._report(f"timers wait: {error.message}")
            wait_ms = MAX_WAIT_MS
        except Exception:  # no error may end the delivery: this call arms the next one
            log.exception("timers: run failed, next attempt in %d ms", MAX_WAIT_MS)
            wait_ms = MAX_WAIT_MS
        now_ms = self._clock.monotonic_ms()
        self.enqueue_rate.sample(self.timers.enqueued, now_ms)
        self.dequeue_rate.sample(self.timers.dequeued, now_ms)
        if wait_ms is not None:
            self._run_timer.arm(now_ms + wait_ms)
        if self.timers.changed and not self._flush_armed:
            self._flush_armed = True
            self._flush_timer.arm(now_ms + self._flush_interval_ms)

    def _flush(self) -> None:
        self._flush_armed = False
        if not self._running or not self._idle.is_set():
            return  # the write that ends arms the next one
        job = self.timers.snapshot()
        if job is not None:
            self._idle.clear()
            self._run_job(job, self._flushed)

    def _flushed(self, error: BaseException | None) -> None:
        self._idle.set()
        if error is not None:
            reason = error.message if isinstance(error, RocketMQError) else str(error)
            self._report(f"timers: state not written: {reason}")
        else:
            self._reported = ""
        if self._running and self.timers.changed and not self._flush_armed:
            self._flush_armed = True
            self._flush_timer.arm(self._clock.monotonic_ms() + self._flush_interval_ms)

    def _report(self, reason: str) -> None:
        if reason != self._reported:
            self._reported = reason
            log.error("%s", reason)

    @property
    def behind_ms(self) -> int:
        """How long the first slot that is not finished has been due, ms."""
        now_ms = self._clock.now_ms()
        return max(0, now_ms - self.timers.read_time_ms - self.timers.precision_ms)

    def figures(self) -> dict[str, str]:
        """The figures of GET_BROKER_RUNTIME_INFO."""
        timers = self.timers
        return {
            "timerReadBehind": str(self.behind_ms // 1_000),
            "timerOffsetBehind": str(timers.offset_behind),
            "timerCongestNum": str(timers.wheel.pending),
            "timerEnqueueTps": f"{self.enqueue_rate.per_second(self._clock.monotonic_ms()):.1f}",
            "timerDequeueTps": f"{self.dequeue_rate.per_second(self._clock.monotonic_ms()):.1f}",
            "timerQuarantined": str(timers.quarantined),
            "timerRecalled": str(timers.recalled),
        }


class Rate:
    """Events per second over the last one to two sample periods of a growing counter."""

    __slots__ = ("_after", "_before", "_value")

    def __init__(self) -> None:
        self._before = self._after = (0.0, 0)
        self._value = 0

    def sample(self, value: int, now_ms: float) -> None:
        """Record the counter's value."""
        self._value = value
        if now_ms - self._after[0] >= SAMPLE_MS:
            self._before, self._after = self._after, (now_ms, value)

    def per_second(self, now_ms: float) -> float:
        """The present rate."""
        since_ms, value = self._before
        if now_ms - self._after[0] >= SAMPLE_MS:
            since_ms, value = self._after
        elapsed_ms = now_ms - since_ms
        return (self._value - value) * 1_000 / elapsed_ms if elapsed_ms > 0 else 0.0
