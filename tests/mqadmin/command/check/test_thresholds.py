"""Words of thresholds."""

from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.command.check.thresholds import days, messages_and_age, named, percent, seconds

UNITS = {"lock": "s", "size": "B"}


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (seconds, "1500ms", 1.5),
        (days, "30d", 30.0),
        (days, "12h", 0.5),
        (days, "7", 7.0),
        (percent, "85%", 85.0),
        (percent, "85", 85.0),
        (percent, "0.5", 50.0),
        (percent, "1%", 1.0),
        (percent, "1", 1.0),
        (messages_and_age, "10000,5m", (10000, 300.0)),
        (messages_and_age, "5m", (None, 300.0)),
        (lambda text: named(text, UNITS), "lock=1s,size=2KiB", {"lock": 1.0, "size": 2048}),
        (lambda text: named(text, UNITS), "lock=none", {"lock": None}),
        (lambda text: named(text, UNITS), "", {}),
    ],
)
def test_a_word_is_read_with_its_unit(read: Callable[[str], Any], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (seconds, "soon"),
        (days, "x"),
        (percent, "101%"),
        (percent, "much"),
        (messages_and_age, "many"),
        (lambda text: named(text, UNITS), "lock"),
        (lambda text: named(text, UNITS), "lock=5KiB"),
        (lambda text: named(text, UNITS), "other=5"),
    ],
)
def test_another_word_is_refused(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ValueError, match=text.split("=")[0]):
        read(text)


@pytest.mark.parametrize("text", ["1_0", "\u0661", "9223372036854775808"])
def test_a_number_of_messages_is_ascii_digits_of_64_bits(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number of messages"):
        messages_and_age(text)


@pytest.mark.parametrize("text", ["1_0", " 1", "\u0661"])
def test_a_percentage_is_ascii_digits(text: str) -> None:
    with pytest.raises(ValueError, match="is not a percentage"):
        percent(text)
