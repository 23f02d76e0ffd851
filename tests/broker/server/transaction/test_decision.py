"""The decision about an undecided half: Java's rules, one by one."""

import pytest

from broker.server.transaction.decision import (
    CheckRules,
    OpsRead,
    Verdict,
    decide,
    prepared_offset,
)

RULES = CheckRules(timeout_ms=6_000, check_max=15, reserved_ms=3_600_000)
NONE = OpsRead(False)
SOME = OpsRead(True, 0)
BORN = 1_000_000


def verdict(half, age_ms: int, ops: OpsRead = NONE) -> Verdict:
    now_ms = BORN + age_ms
    return decide(half, ops, now_ms, now_ms, RULES)


@pytest.mark.parametrize(
    ("age_ms", "expected"),
    [(0, "STOP"), (6_000, "STOP"), (6_001, "CHECK"), (-1, "CHECK"), (3_600_001, "DISCARD")],
)
def test_age_decides_when_no_op_record_is_left(half_message, age_ms: int, expected: str) -> None:
    assert verdict(half_message(), age_ms) is Verdict[expected]


@pytest.mark.parametrize(
    ("times", "expected"), [("14", "CHECK"), ("15", "DISCARD"), ("99", "DISCARD")]
)
def test_a_half_is_checked_fifteen_times(half_message, times: str, expected: str) -> None:
    half = half_message({"TRANSACTION_CHECK_TIMES": times})
    assert verdict(half, 10_000) is Verdict[expected]


def test_op_records_are_read_to_the_end_before_a_check(half_message) -> None:
    assert verdict(half_message(), 10_000, SOME) is Verdict.READ_OPS


def test_op_records_younger_than_the_round_by_the_timeout_end_the_reading(half_message) -> None:
    born_ms = BORN + 10_000 + RULES.timeout_ms + 1
    assert verdict(half_message(), 10_000, OpsRead(True, born_ms)) is Verdict.CHECK


def test_a_half_from_the_future_is_checked_at_once(half_message) -> None:
    assert verdict(half_message(), -5, SOME) is Verdict.CHECK


@pytest.mark.parametrize(
    ("seconds", "age_ms", "expected"),
    [
        ("60", 59_000, "RENEW"),
        ("60", 60_001, "CHECK"),
        ("x", 5_000, "RENEW"),
        ("x", 6_001, "CHECK"),
        ("-1", 5_000, "RENEW"),
        ("1", 1_500, "CHECK"),
    ],
)
def test_an_immune_half_is_renewed_until_its_time_is_over(
    half_message, seconds: str, age_ms: int, expected: str
) -> None:
    half = half_message({"CHECK_IMMUNITY_TIME_IN_SECONDS": seconds})
    assert verdict(half, age_ms) is Verdict[expected]


def test_an_immune_half_with_an_invalid_first_offset_waits(half_message) -> None:
    half = half_message({"CHECK_IMMUNITY_TIME_IN_SECONDS": "60", "TRAN_PREPARED_QUEUE_OFFSET": "x"})
    assert verdict(half, 1_000) is Verdict.STOP
    assert verdict(half, 60_001) is Verdict.CHECK


def test_immunity_does_not_protect_from_the_limit_of_checks(half_message) -> None:
    half = half_message(
        {"CHECK_IMMUNITY_TIME_IN_SECONDS": "86400", "TRANSACTION_CHECK_TIMES": "15"}
    )
    assert verdict(half, 10_000) is Verdict.DISCARD


@pytest.mark.parametrize(("text", "expected"), [("", None), ("5", 5), ("x", -1)])
def test_prepared_offset_is_read_from_its_property(half_message, text: str, expected) -> None:
    assert prepared_offset(half_message({"TRAN_PREPARED_QUEUE_OFFSET": text})) == expected
