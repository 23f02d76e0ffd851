from mqadmin.traffic.options import BenchOptions, Defaults, Limits, ProduceOptions, SenderConfig


def test_without_options_every_line_keeps_its_fields() -> None:
    assert Defaults() == ProduceOptions().defaults
    assert ProduceOptions().sender == SenderConfig()


def test_the_bytes_in_flight_are_bounded_by_default() -> None:
    assert 0 < SenderConfig().max_bytes <= 64 * 1024 * 1024


def test_a_measurement_ends_by_default_and_a_consumption_does_not() -> None:
    assert BenchOptions(topic="t").duration_ms is not None
    assert Limits() == Limits(count=None, for_ms=None, idle_ms=None)
