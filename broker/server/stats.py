"""Counters and rates of messages put and got, per topic, per group and per broker.

A counter is two integers that hot paths add to; a rate is the difference of two snapshots. One
sampler call every ten seconds maintains the minute, hour and day windows of every counter, so an
idle broker does almost no work. The first snapshot of a window is preceded by a zero snapshot
dated one interval earlier, and the end of a window is always the current value.

**Source:** RocketMQ BrokerStatsManager, StatsItem, StatsSnapshot (windows and names).
"""

from collections import deque
from collections.abc import Callable, Container
from typing import Final

import msgspec

SAMPLE_MS: Final = 10_000
LEAST_SPAN_MS: Final = 1_000  # a rate over a shorter time is meaningless
# Windows: (interval in ms, number of snapshots).
MINUTE: Final = (10_000, 7)
HOUR: Final = (600_000, 7)
DAY: Final = (3_600_000, 25)
MAX_COUNTERS: Final = 200_000  # counters of further keys are not kept

TOPIC_PUT_NUMS: Final = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE: Final = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS: Final = "GROUP_GET_NUMS"
GROUP_GET_SIZE: Final = "GROUP_GET_SIZE"
SNDBCK_PUT_NUMS: Final = "SNDBCK_PUT_NUMS"
BROKER_PUT_NUMS: Final = "BROKER_PUT_NUMS"
BROKER_GET_NUMS: Final = "BROKER_GET_NUMS"
GROUP_POP_NUMS: Final = "GROUP_POP_NUMS"  # the part of GROUP_GET_NUMS that was popped
GROUP_POP_SIZE: Final = "GROUP_POP_SIZE"
DLQ_PUT_NUMS: Final = "DLQ_PUT_NUMS"  # by topic@group
COMMIT_NUMS: Final = "COMMIT_NUMS"
ROLLBACK_NUMS: Final = "ROLLBACK_NUMS"


class Snapshot(msgspec.Struct, frozen=True):
    """Sum, rate per second and average per call of one window."""

    sum: int = 0
    tps: float = 0.0
    avgpt: float = 0.0


class Window:
    """The snapshots of one counter in one window: (time ms, value, calls)."""

    __slots__ = ("interval_ms", "points")

    def __init__(self, shape: tuple[int, int]) -> None:
        self.interval_ms, kept = shape
        self.points: deque[tuple[int, int, int]] = deque(maxlen=kept)

    def sample(self, now_ms: int, value: int, calls: int) -> None:
        """Add a snapshot if the last one is an interval old."""
        points = self.points
        if not points:
            points.append((now_ms - self.interval_ms, 0, 0))
            points.append((now_ms, value, calls))
        elif now_ms - points[-1][0] >= self.interval_ms:
            points.append((now_ms, value, calls))

    def snapshot(self, now_ms: int, value: int, calls: int) -> Snapshot:
        """Return the difference between now and the oldest snapshot of the window."""
        if not self.points:
            return Snapshot(sum=value, avgpt=value / calls if calls else 0.0)
        then_ms, then_value, then_calls = self.points[0]
        total = value - then_value
        times = calls - then_calls
        span = now_ms - then_ms
        return Snapshot(
            sum=total,
            tps=total * 1000 / span if span > 0 else 0.0,
            avgpt=total / times if times else 0.0,
        )


class Counter:
    """A value and the number of additions; hot paths change the attributes directly."""

    __slots__ = ("calls", "day", "hour", "minute", "value")

    def __init__(self) -> None:
        self.value = 0
        self.calls = 0
        self.minute = Window(MINUTE)
        self.hour = Window(HOUR)
        self.day = Window(DAY)

    def add(self, amount: int, calls: int = 1) -> None:
        """Add ``amount``, counted as ``calls`` calls."""
        self.value += amount
        self.calls += calls

    def sample(self, now_ms: int) -> None:
        """Take the due snapshots."""
        self.minute.sample(now_ms, self.value, self.calls)
        self.hour.sample(now_ms, self.value, self.calls)
        self.day.sample(now_ms, self.value, self.calls)

    def rate(self, now_ms: int) -> Snapshot:
        """Return the minute window up to now."""
        return self.minute.snapshot(now_ms, self.value, self.calls)

    def recent_tps(self, now_ms: int) -> tuple[float, float, float]:
        """Return rates per second: about the last 10 s, the last minute, the current 10 minutes.

        The third rate starts at the last ten-minute snapshot, so it covers 0 to 600 s.
        """
        points = self.minute.points
        short = 0.0
        for then_ms, then_value, _ in reversed(points):
            if now_ms - then_ms >= LEAST_SPAN_MS:
                short = (self.value - then_value) * 1000 / (now_ms - then_ms)
                break
        long = self.hour.points[-1] if self.hour.points else None
        ten = 0.0
        if long is not None and now_ms > long[0]:
            ten = (self.value - long[1]) * 1000 / (now_ms - long[0])
        return short, self.rate(now_ms).tps, ten


class BrokerStats:
    """All counters by (name, key), and the totals of the broker."""

    def __init__(self, now_ms: int) -> None:
        self._counters: dict[tuple[str, str], Counter] = {}
        self._caches: list[dict[str, tuple[Counter, Counter]]] = []
        self.started_ms = now_ms
        self.put = Counter()
        self.put_bytes = Counter()
        self.put_failed = 0
        self.get_found = Counter()
        self.get_missed = Counter()
        self.get_messages = Counter()
        self.midnight_put: tuple[int, int] = (0, 0)
        self.midnight_get: tuple[int, int] = (0, 0)
        self._day = day_of(now_ms)

    def counter(self, name: str, key: str) -> Counter:
        """Return the counter of that name and key, created if new; see :data:`MAX_COUNTERS`."""
        found = self._counters.get((name, key))
        if found is None:
            found = Counter()
            if len(self._counters) < MAX_COUNTERS:
                self._counters[name, key] = found
        return found

    def count_ended(self, topic: str, commit: bool) -> None:
        """Count a transaction of this topic that its producer has committed or rolled back."""
        self.counter(COMMIT_NUMS if commit else ROLLBACK_NUMS, topic).add(1)

    def find(self, name: str, key: str) -> Counter | None:
        """Return the counter of that name and key, None if nothing was counted yet."""
        return self._counters.get((name, key))

    def counters(self, name: str) -> list[tuple[str, Counter]]:
        """Return the key and the counter of each counter with that name."""
        return [(key, counter) for (of, key), counter in self._counters.items() if of == name]

    def new_cache(self) -> dict[str, tuple[Counter, Counter]]:
        """Return an empty table, for counters of this object; each deletion clears it."""
        self._caches.append({})
        return self._caches[-1]

    def forget_topics(self, topics: Container[str]) -> None:
        """Remove the counters of deleted topics: their own, and those by topic and group."""
        self._forget(lambda key: key.partition("@")[0] in topics)

    def forget_group(self, group: str) -> None:
        """Remove the counters of a deleted group: its own, and those by topic and group."""
        self._forget(lambda key: key.partition("@")[2] == group)

    def _forget(self, is_gone: Callable[[str], bool]) -> None:
        for name, key in [one for one in self._counters if is_gone(one[1])]:
            del self._counters[name, key]
        for cache in self._caches:
            cache.clear()

    def sample(self, now_ms: int) -> None:
        """Sample all counters, every :data:`SAMPLE_MS`; record the totals at midnight (UTC)."""
        for total in (
            self.put,
            self.put_bytes,
            self.get_found,
            self.get_missed,
            self.get_messages,
        ):
            total.sample(now_ms)
        for counter in self._counters.values():
            counter.sample(now_ms)
        day = day_of(now_ms)
        if day != self._day:
            self._day = day
            self.midnight_put = (self.midnight_put[1], self.put.value)
            self.midnight_get = (self.midnight_get[1], self.get_messages.value)


def day_of(now_ms: int) -> int:
    """Return the day number of an epoch time."""
    return now_ms // 86_400_000
