import random

from mqadmin.traffic.bench.histogram import STEPS, LatencyHistogram


def test_percentiles_are_at_most_one_bucket_above_the_sorted_values(rng: random.Random) -> None:
    for _ in range(50):
        values = sorted(int(rng.lognormvariate(7, 3)) for _ in range(rng.randrange(1, 500)))
        histogram = LatencyHistogram()
        for value in rng.sample(values, len(values)):
            histogram.record(value)
        for percent in (1, 50, 90, 99, 99.9, 100):
            exact = values[max(1, int(-(-len(values) * percent // 100))) - 1]
            found = histogram.percentile(percent)
            assert found is not None
            assert exact <= found <= exact * (1 + 1 / STEPS) + 1


def test_the_distribution_contains_every_value_once(rng: random.Random) -> None:
    values = [rng.randrange(1 << rng.randrange(1, 30)) for _ in range(1000)]
    histogram = LatencyHistogram()
    for value in values:
        histogram.record(value)
    buckets = histogram.buckets()
    assert sum(bucket.count for bucket in buckets) == len(values)
    low = -1.0
    for bucket in buckets:
        inside = sum(low < value / 1000 <= bucket.up_to_ms for value in values)
        assert inside == bucket.count
        low = bucket.up_to_ms


def test_without_values_nothing_is_reported_as_zero() -> None:
    latencies = LatencyHistogram().latencies()
    assert latencies.count == 0
    assert (latencies.min_ms, latencies.p50_ms, latencies.max_ms) == (None, None, None)
    assert not LatencyHistogram().buckets()


def test_extreme_values_are_counted() -> None:
    histogram = LatencyHistogram()
    for value in (-5, 0, 1 << 60):
        histogram.record(value)
    assert (histogram.min_us, histogram.max_us, histogram.count) == (0, 1 << 60, 3)
    assert histogram.percentile(50) == 0


def test_small_values_are_exact() -> None:
    for value in range(STEPS):
        histogram = LatencyHistogram()
        histogram.record(value)
        assert histogram.percentile(50) == value


def test_a_percentile_is_never_above_the_maximum() -> None:
    histogram = LatencyHistogram()
    histogram.record(1_000_001)
    assert [histogram.percentile(percent) for percent in (0.001, 50, 100)] == [1_000_001] * 3


def test_neighbouring_powers_of_two_are_in_buckets_of_their_order() -> None:
    found = []
    for power in range(40):
        histogram = LatencyHistogram()
        histogram.record((1 << power) - 1)
        histogram.record(1 << power)
        histogram.record(1 << 41)
        found.append(histogram.percentile(34))
    assert found == sorted(found)
    assert all(value >= (1 << power) - 1 for power, value in enumerate(found))


def test_percentiles_rise_with_the_percentage(rng: random.Random) -> None:
    histogram = LatencyHistogram()
    for _ in range(500):
        histogram.record(rng.randrange(1 << rng.randrange(1, 36)))
    shown = histogram.latencies()
    row = [
        shown.min_ms, shown.p50_ms, shown.p75_ms, shown.p90_ms, shown.p95_ms,
        shown.p99_ms, shown.p999_ms, shown.max_ms,
    ]  # fmt: skip
    assert row == sorted(row)


def test_the_mean_is_exact_and_in_milliseconds() -> None:
    histogram = LatencyHistogram()
    for value in (1_000, 2_000, 6_000):
        histogram.record(value)
    shown = histogram.latencies()
    assert (shown.count, shown.mean_ms, shown.min_ms, shown.max_ms) == (3, 3.0, 1.0, 6.0)


def test_empty_powers_between_two_values_have_a_bucket_with_zero() -> None:
    histogram = LatencyHistogram()
    histogram.record(3)
    histogram.record(100)
    assert [(bucket.up_to_ms, bucket.count) for bucket in histogram.buckets()] == [
        (0.003, 1),
        (0.007, 0),
        (0.015, 0),
        (0.031, 0),
        (0.063, 0),
        (0.127, 1),
    ]


def test_zero_is_a_bucket_of_its_kind() -> None:
    histogram = LatencyHistogram()
    histogram.record(0)
    assert [(bucket.up_to_ms, bucket.count) for bucket in histogram.buckets()] == [(0.0, 1)]
