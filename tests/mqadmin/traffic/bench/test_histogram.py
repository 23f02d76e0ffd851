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
