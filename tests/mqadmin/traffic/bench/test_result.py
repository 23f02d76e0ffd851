from broker.common.clock import ManualClock
from mqadmin.traffic.bench.result import MAX_ERRORS, MAX_SECONDS, Meter


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


def test_messages_of_the_warm_up_are_not_in_the_seconds_either() -> None:
    clock = ManualClock()
    meter = Meter(clock, 2_000)
    meter.done(1.0, 1)
    clock.advance(2_000)
    meter.done(1.0, 1)
    assert meter.result("produce", "t").per_second == [1]


def test_the_last_millisecond_of_the_warm_up_is_not_counted_and_the_next_is() -> None:
    clock = ManualClock()
    meter = Meter(clock, 100)
    clock.advance(99)
    meter.done(1.0, 1)
    assert meter.messages == 0
    clock.advance(1)
    meter.done(1.0, 1)
    assert meter.messages == 1


def test_a_message_is_measured_if_it_was_sent_after_the_warm_up() -> None:
    clock = ManualClock()
    meter = Meter(clock, 100)
    begin = clock.monotonic_ms() + 100
    assert not meter.is_measured(begin - 1)
    assert meter.is_measured(begin)


def test_a_restart_begins_the_warm_up_now() -> None:
    clock = ManualClock()
    meter = Meter(clock, 0)
    clock.advance(5_000)
    meter.restart(1_000)
    assert meter.elapsed_ms == -1_000
    meter.done(1.0, 1)
    assert meter.messages == 0


def test_seconds_without_messages_are_zeros_between_the_others() -> None:
    clock = ManualClock()
    meter = Meter(clock, 0)
    meter.done(1.0, 1)
    clock.advance(3_500)
    meter.done(1.0, 1, 4)
    assert meter.result("produce", "t").per_second == [1, 0, 0, 4]


def test_the_list_of_seconds_is_bounded_and_the_count_is_not() -> None:
    clock = ManualClock()
    meter = Meter(clock, 0)
    clock.advance((MAX_SECONDS - 1) * 1000)
    meter.done(1.0, 1)
    clock.advance(1_000)
    meter.done(1.0, 1)
    result = meter.result("produce", "t")
    assert len(result.per_second) == MAX_SECONDS
    assert (result.per_second[-1], result.messages) == (1, 2)


def test_a_message_without_a_latency_is_counted_only() -> None:
    meter = Meter(ManualClock(), 0)
    meter.done(None, 10)
    result = meter.result("produce", "t")
    assert (result.messages, result.latency.count, result.latency.max_ms) == (1, 0, None)


def test_errors_are_counted_during_the_warm_up_too() -> None:
    meter = Meter(ManualClock(), 10_000)
    meter.fail(ValueError("no route"), messages=3)
    assert meter.result("produce", "t").errors == {"no route": 3}


def test_a_long_error_is_cut_so_that_equal_starts_are_one_row() -> None:
    meter = Meter(ManualClock(), 0)
    meter.fail(ValueError("x" * 200 + "1"))
    meter.fail(ValueError("x" * 200 + "2"))
    assert meter.errors == {"x" * 200: 2}


def test_one_message_has_no_rate() -> None:
    """A rate needs two times: the first message of a consumption is its start."""
    clock = ManualClock()
    meter = Meter(clock, 0)
    clock.advance(700)
    meter.done(1.0, 1_000)
    result = meter.result("consume", "t", from_first=True)
    assert (result.seconds, result.messages_per_second, result.megabytes_per_second) == (
        0.0,
        None,
        None,
    )


def test_rates_are_of_the_measured_time() -> None:
    clock = ManualClock()
    meter = Meter(clock, 0)
    clock.advance(4_000)
    meter.done(1.0, 8_000_000, 10)
    result = meter.result("produce", "t", body_size=800_000, in_flight=4, lost=0)
    assert (result.messages_per_second, result.megabytes_per_second) == (2.5, 2.0)
    assert (result.body_size, result.in_flight, result.lost) == (800_000, 4, 0)
    assert (result.mode, result.topic) == ("produce", "t")


def test_a_model_of_seconds(rng) -> None:
    clock = ManualClock()
    warm_up = rng.randrange(3_000)
    meter = Meter(clock, warm_up)
    expected: dict[int, int] = {}
    for _ in range(200):
        clock.advance(rng.randrange(200))
        count = rng.randrange(1, 5)
        elapsed = meter.elapsed_ms
        meter.done(rng.random() * 10, 1, count)
        if elapsed >= 0:
            expected[int(elapsed // 1000)] = expected.get(int(elapsed // 1000), 0) + count
    result = meter.result("produce", "t")
    assert sum(result.per_second) == result.messages == sum(expected.values())
    assert {at: n for at, n in enumerate(result.per_second) if n} == expected
