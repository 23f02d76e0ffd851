from broker.common.clock import ManualClock
from mqadmin.traffic.bench.result import MAX_ERRORS, Meter


def test_the_warm_up_is_not_counted() -> None:
    clock = ManualClock()
    meter = Meter(clock, 1_000)
    meter.done(5.0, 10)
    clock.advance(1_000)
    meter.done(7.0, 10)
    clock.advance(500)
    meter.done(9.0, 10)
    result = meter.result("produce", "t")
    assert (result.messages, result.body_bytes, result.seconds) == (2, 20, 0.5)
    assert (result.latency.min_ms, result.latency.max_ms) == (7.0, 9.0)
    assert result.messages_per_second == 4.0


def test_messages_are_counted_per_second() -> None:
    clock = ManualClock()
    meter = Meter(clock, 0)
    for _ in range(5):
        meter.done(1.0, 1, 2)
        clock.advance(700)
    assert meter.result("produce", "t").per_second == [4, 2, 4]


def test_a_consumption_is_timed_from_its_first_message() -> None:
    clock = ManualClock()
    meter = Meter(clock, 0)
    clock.advance(3_000)
    for _ in range(3):
        meter.done(1.0, 1)
        clock.advance(1_000)
    assert meter.result("consume", "t", from_first=True).seconds == 2.0


def test_errors_are_counted_by_message_and_bounded() -> None:
    meter = Meter(ManualClock(), 0)
    for number in range(100):
        meter.fail(ValueError(f"error {number}"))
        meter.fail(ValueError("error 0"))
    result = meter.result("produce", "t")
    assert result.failed == 200
    assert len(result.errors) == MAX_ERRORS
    assert result.errors["error 0"] == 101


def test_without_messages_the_rate_is_absent() -> None:
    assert Meter(ManualClock(), 0).result("produce", "t").messages_per_second is None
