"""The choice of dead letters."""

from typing import NamedTuple

import pytest

from mqadmin.admin.dlq.select import DeadLetterFilter, cause_of, origin_of


class One(NamedTuple):
    """A dead letter."""

    keys: list[str]
    properties: dict[str, str]


PAID = One(
    ["42", "43"],
    {"TAGS": "paid", "RETRY_TOPIC": "orders", "region": "eu", "lastException": "Timeout of bank"},
)


@pytest.mark.parametrize(
    ("chosen", "holds"),
    [
        (DeadLetterFilter(), True),
        (DeadLetterFilter(tags=("paid", "x")), True),
        (DeadLetterFilter(tags=("x",)), False),
        (DeadLetterFilter(keys=("43",)), True),
        (DeadLetterFilter(keys=("4",)), False),
        (DeadLetterFilter(properties={"region": "eu"}), True),
        (DeadLetterFilter(properties={"region": "eu", "a": "b"}), False),
        (DeadLetterFilter(origin="orders"), True),
        (DeadLetterFilter(origin="bills"), False),
        (DeadLetterFilter(exception="TIMEOUT"), True),
        (DeadLetterFilter(exception="eu"), False),
        (DeadLetterFilter(tags=("paid",), origin="bills"), False),
    ],
)
def test_all_conditions_hold_together(chosen: DeadLetterFilter, holds: bool) -> None:
    assert chosen.test(PAID) is holds


def test_the_first_origin_wins() -> None:
    assert origin_of({"RETRY_TOPIC": "retry", "DLQ_ORIGIN_TOPIC": "first"}) == "first"
    assert origin_of({}) is None


def test_causes_are_properties_named_like_one() -> None:
    assert cause_of({"errorText": "a", "x": "b", "EXCEPTION": "c"}) == "a\nc"
