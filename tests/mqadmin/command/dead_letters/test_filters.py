"""The options that choose dead letters."""

from mqadmin.admin.dlq.select import DeadLetterFilter
from mqadmin.command.dead_letters.filters import dead_letter_filter


def test_the_options_are_the_conditions() -> None:
    assert dead_letter_filter(None, None, None, None, None) == DeadLetterFilter()
    found = dead_letter_filter(["t"], ["k"], ["a=b=c"], "orders", "boom")
    assert found == DeadLetterFilter(("t",), ("k",), {"a": "b=c"}, "orders", "boom")
