"""Quantities for people."""

from collections.abc import Callable

import pytest

from mqadmin.output.units import (
    byte_rate_text,
    quantity_text,
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
        (seconds_text, 0, "0s"),
        (seconds_text, 0.00042, "0.4ms"),
        (seconds_text, 0.25, "250ms"),
        (seconds_text, 1.5, "1.5s"),
        (seconds_text, -61, "-61s"),
        (seconds_text, 60, "1m"),
        (seconds_text, 180, "3m"),
        (seconds_text, 3600, "1h"),
        (seconds_text, 9000, "2.5h"),
        (seconds_text, 40 * 86_400, "40d"),
        (rate_text, 12.34, "12.3/s"),
        (byte_rate_text, 2048, "2.0 KiB/s"),
        (share_text, 0.617, "62%"),
    ],
)
def test_a_quantity_has_its_unit(write: Callable[[float], str], value: float, text: str) -> None:
    assert write(value) == text


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("ageMs", 90_000, "90s"),
        ("lagSeconds", 1.5, "1.5s"),
        ("bytes", 2048, "2.0 KiB"),
        ("averageBytes", 2048.0, "2.0 KiB"),
        ("bodySize", 5, "5 B"),
        ("bytesPerSecond", 2048, "2.0 KiB/s"),
        ("bytesPerHour", 2048, "2.0 KiB/h"),
        ("commitLogDiskRatio", 0.471, "47%"),
    ],
)
def test_the_name_of_a_field_implies_its_unit(field: str, value: float, text: str) -> None:
    formatter = quantity_text(field)
    assert formatter is not None
    assert formatter(value) == text


@pytest.mark.parametrize("field", ["lag", "queueId", "physicalOffset", "storeSize", "batchSize"])
def test_counts_and_positions_in_a_file_are_exact(field: str) -> None:
    assert quantity_text(field) is None
