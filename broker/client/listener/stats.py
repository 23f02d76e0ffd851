"""ConsumerStats: rates and times of one consumer, per topic, over the last minute.

**Source:** RocketMQ ``ConsumerStatsManager``, ``StatsItemSet``.
"""

from collections import deque

from broker.common.clock import Clock
from broker.remoting.protocol.body.consumer.running import ConsumeStatus

WINDOW_S = 60


class _Window:
    """Sums and counts per second of the last minute."""

    def __init__(self) -> None:
        self._seconds: deque[list[float]] = deque()  # [second, sum, times]
        self.total = 0

    def add(self, second: float, value: float, times: int) -> None:
        if not self._seconds or self._seconds[-1][0] != second:
            self._seconds.append([second, 0.0, 0])
            self._expire(second)
        newest = self._seconds[-1]
        newest[1] += value
        newest[2] += times
        self.total += int(value)

    def _expire(self, second: float) -> None:
        while self._seconds and self._seconds[0][0] <= second - WINDOW_S:
            self._seconds.popleft()

    def rate(self, second: float) -> float:
        self._expire(second)
        return sum(one[1] for one in self._seconds) / WINDOW_S

    def average(self, second: float) -> float:
        self._expire(second)
        times = sum(one[2] for one in self._seconds)
        return sum(one[1] for one in self._seconds) / times if times else 0.0


class ConsumerStats:
    """Pull and consume statistics of one consumer group in this client."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._windows: dict[tuple[str, str], _Window] = {}

    def _second(self) -> float:
        return self._clock.monotonic_ms() // 1_000

    def _add(self, topic: str, name: str, value: float, times: int) -> None:
        window = self._windows.get((topic, name))
        if window is None:
            window = self._windows[topic, name] = _Window()
        window.add(self._second(), value, times)

    def pulled(self, topic: str, count: int, took_ms: float) -> None:
        """Count one pull that found ``count`` messages."""
        self._add(topic, "pull rt", took_ms, 1)
        self._add(topic, "pull", count, 1)

    def consumed(self, topic: str, ok: int, failed: int, took_ms: float) -> None:
        """Count one listener call."""
        self._add(topic, "consume rt", took_ms, max(1, ok + failed))
        if ok:
            self._add(topic, "ok", ok, 1)
        if failed:
            self._add(topic, "failed", failed, 1)

    def status(self, topic: str) -> ConsumeStatus:
        """Return the rates per second and mean times in ms of the last minute."""
        second = self._second()

        def rate(name: str) -> float:
            window = self._windows.get((topic, name))
            return window.rate(second) if window else 0.0

        def average(name: str) -> float:
            window = self._windows.get((topic, name))
            return window.average(second) if window else 0.0

        failed = self._windows.get((topic, "failed"))
        return ConsumeStatus(
            pull_rt=average("pull rt"),
            pull_tps=rate("pull"),
            consume_rt=average("consume rt"),
            consume_ok_tps=rate("ok"),
            consume_failed_tps=rate("failed"),
            consume_failed_msgs=failed.total if failed else 0,
        )
