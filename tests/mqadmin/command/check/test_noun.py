"""Thresholds of checks."""

import pytest

from mqadmin.command.check.noun import gap_limits


@pytest.mark.parametrize(
    ("text", "limits"),
    [
        ("64MiB", (64 << 20, None)),
        ("1.5k,30s", (1536, 30.0)),
        ("5m", (None, 300.0)),
        ("500", (500, None)),
        ("10s, 2GiB", (2 << 30, 10.0)),
    ],
)
def test_a_gap_is_bytes_seconds_or_both(text: str, limits: tuple[int | None, float | None]) -> None:
    assert gap_limits(text) == limits


@pytest.mark.parametrize("text", ["", "much", "-5", "5 apples", "1MiB,"])
def test_another_text_is_refused_and_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not a size or a duration"):
        gap_limits(text)
