"""Quantities for people."""

from collections.abc import Callable

import pytest

from mqadmin.output.units import (
    byte_rate_text,
    rate_text,
    seconds_text,
    share_text,
    size_text,
)


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (size_text, 0, "0 B"),
        (size_text, 1023, "1023 B"),
        (size_text, 1536, "1.5 KiB"),
        (size_text, 3 << 60, "3072.0 PiB"),
        (seconds_text, 0.25, "250ms"),
        (seconds_text, 1.5, "1.5s"),
        (seconds_text, 180, "3m"),
        (seconds_text, 9000, "2.5h"),
        (rate_text, 12.34, "12.3/s"),
        (byte_rate_text, 2048, "2.0 KiB/s"),
        (share_text, 0.617, "62%"),
    ],
)
def test_a_quantity_has_its_unit(write: Callable[[float], str], value: float, text: str) -> None:
    assert write(value) == text
