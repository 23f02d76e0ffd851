"""LatencyHistogram: counts in buckets whose width grows with the value.

Each power of two is divided into ``STEPS`` buckets of the same width, so a percentile is at most
1/STEPS too high; memory does not depend on the number of values.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

STEPS: Final = 64
STEP_BITS: Final = 6
MAX_POWER: Final = 40  # 2**40 µs are 12 days
PERCENTILES: Final = (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)


class Latencies(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Percentiles in milliseconds, None without values."""

    count: int
    min_ms: float | None
    mean_ms: float | None
    p50_ms: float | None
    p75_ms: float | None
    p90_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    p999_ms: float | None
    max_ms: float | None


class Bucket(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Number of values up to ``up_to_ms`` and above the bucket before."""

    up_to_ms: float
    count: int


class LatencyHistogram:
    """Latencies in whole microseconds.

    >>> histogram = LatencyHistogram()
    >>> for value in range(1, 101):
    ...     histogram.record(value)
    >>> histogram.percentile(50), histogram.percentile(99), histogram.max_us
    (50, 99, 100)
    """

    def __init__(self) -> None:
        self._counts = [0] * ((MAX_POWER - STEP_BITS + 2) * STEPS)
        self.count = 0
        self.total_us = 0
        self.min_us: int | None = None
        self.max_us: int | None = None

    def record(self, value_us: int) -> None:
        """Count a latency; a negative one counts as 0."""
        value = max(0, value_us)
        self._counts[_index(value)] += 1
        self.count += 1
        self.total_us += value
        self.min_us = value if self.min_us is None else min(self.min_us, value)
        self.max_us = value if self.max_us is None else max(self.max_us, value)

    def percentile(self, percent: float) -> int | None:
        """Return the latency in µs that ``percent`` of the values do not exceed."""
        if not self.count or self.max_us is None:
            return None
        wanted = max(1, -(-self.count * percent // 100))
        seen = 0
        for index, count in enumerate(self._counts):
            seen += count
            if seen >= wanted:
                return min(_upper(index), self.max_us)
        raise AssertionError("every value is in a bucket")

    def latencies(self) -> Latencies:
        """Return the percentiles."""
        p50, p75, p90, p95, p99, p999 = (_ms(self.percentile(one)) for one in PERCENTILES)
        return Latencies(
            count=self.count,
            min_ms=_ms(self.min_us),
            mean_ms=_ms(self.total_us / self.count) if self.count else None,
            p50_ms=p50,
            p75_ms=p75,
            p90_ms=p90,
            p95_ms=p95,
            p99_ms=p99,
            p999_ms=p999,
            max_ms=_ms(self.max_us),
        )

    def buckets(self) -> Sequence[Bucket]:
        """Return the distribution, one bucket per power of two of µs that occurs."""
        found: dict[int, int] = {}
        for index, count in enumerate(self._counts):
            if count:
                power = max(0, _upper(index)).bit_length()
                found[power] = found.get(power, 0) + count
        if not found:
            return []
        return [
            Bucket(up_to_ms=((1 << power) - 1) / 1000, count=found.get(power, 0))
            for power in range(min(found), max(found) + 1)
        ]


def _index(value: int) -> int:
    if value < STEPS:
        return value
    shift = min(value.bit_length(), MAX_POWER) - STEP_BITS - 1
    step = min(value >> shift, 2 * STEPS - 1)
    return (shift + 1) * STEPS + step - STEPS


def _upper(index: int) -> int:
    if index < STEPS:
        return index
    shift, step = divmod(index - STEPS, STEPS)
    return ((step + STEPS + 1) << shift) - 1


def _ms(value_us: float | None) -> float | None:
    return None if value_us is None else round(value_us / 1000, 3)
