import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from broker.common.times import (
    format_duration,
    format_time,
    month_start_ms,
    parse_duration_ms,
    parse_time,
    parse_time_ms,
    parse_time_range,
)
from broker.errors import ConfigError

NOW = 1_700_000_000_123


@pytest.fixture
def zone(request, monkeypatch) -> Iterator[str]:
    """The process in another time zone."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("500ms", 500),
        ("10s", 10_000),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("7d", 604_800_000),
        ("1h30m", 5_400_000),
        ("1.5h", 5_400_000),
        ("0", 0),
        (" 1D ", 86_400_000),
        ("0s", 0),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "s",
        "5x",
        "-5s",
        "1..2s",
        ".5s",
        "5.s",
        "10 s",
        "1e3s",
        "٣s",
        "9" * 20 + "d",
        "1s" * 40,
    ],
)
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not a duration") as caught:
        parse_duration_ms(text)
    assert "500ms" in caught.value.hint


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0ms"),
        (999, "999ms"),
        (12_000, "12s"),
        (12_345, "12s"),
        (90_000, "1m30s"),
        (7_500_000, "2h5m"),
        (86_400_000 * 400, "400d"),
        (-90_000, "-1m30s"),
    ],
)
def test_durations_print_in_at_most_two_units(ms: int, text: str) -> None:
    assert format_duration(ms) == text


@pytest.mark.parametrize(
    ("text", "iso", "zone_text"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05+00:00", "UTC"),
        ("2026-01-02t03:04:05.123456z", "2026-01-02T03:04:05.123+00:00", "UTC"),
        ("2026-01-02T03:04:05.678+05:30", "2026-01-02T03:04:05.678+05:30", "+05:30"),
        ("2026-01-02T03:04:05-00:30", "2026-01-02T03:04:05-00:30", "-00:30"),
        ("2026-01-02 03:04", "2026-01-02T03:04:00+00:00", "UTC"),
        ("2026-01-02", "2026-01-02T00:00:00+00:00", "UTC"),
        ("2026-01-02#03:04:05:678", "2026-01-02T03:04:05.678+00:00", "UTC"),
        ("1700000000", "2023-11-14T22:13:20+00:00", ""),
        ("1700000000123", "2023-11-14T22:13:20.123+00:00", ""),
        ("0", "1970-01-01T00:00:00+00:00", ""),
        ("now", "2023-11-14T22:13:20.123+00:00", ""),
        ("-2h", "2023-11-14T20:13:20.123+00:00", ""),
        ("+1d", "2023-11-15T22:13:20.123+00:00", ""),
        ("90m ago", "2023-11-14T20:43:20.123+00:00", ""),
    ],
)
def test_times(text: str, iso: str, zone_text: str) -> None:
    parsed = parse_time(text, NOW, utc=True)
    assert parsed.ms == round(datetime.fromisoformat(iso).timestamp() * 1000)
    assert parsed.zone == zone_text
    assert parse_time_ms(text, NOW, utc=True) == parsed.ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "-",
        "-5",
        "2026-13-01",
        "2026-W01-1",
        "99999-01-01",
        "9" * 16,
        "1969-12-31",
        "2026-01-02#x",
        "2026-01-02T25:00",
        "now now",
        "1" * 100,
        "²",
        "-999999d",
        "0001-01-01",
    ],
)
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_time(text, NOW)


@pytest.mark.parametrize(
    ("zone", "shift_hours", "name"),
    [("Etc/GMT-8", 8, "+08:00"), ("Etc/GMT+5", -5, "-05:00"), ("UTC", 0, "UTC")],
    indirect=["zone"],
)
def test_texts_without_zone_are_local_and_marked(zone, shift_hours: int, name: str) -> None:
    expected = datetime(2026, 1, 2, 3, 4, tzinfo=timezone(timedelta(hours=shift_hours)))
    parsed = parse_time("2026-01-02 03:04", NOW)
    assert parsed == (int(expected.timestamp()) * 1000, name)
    assert parse_time("2026-01-02#03:04:00:000", NOW) == parsed
    start = datetime.fromtimestamp(month_start_ms(NOW) / 1000, expected.tzinfo)
    assert (start.day, start.hour, start.minute) == (1, 0, 0)
    assert month_start_ms(NOW, 1) < month_start_ms(NOW) <= NOW
    assert datetime.fromtimestamp(month_start_ms(NOW, 11) / 1000, expected.tzinfo).month == 12


def test_format_is_rfc_3339() -> None:
    assert format_time(NOW) == "2023-11-14T22:13:20.123Z"
    assert format_time(0) == "1970-01-01T00:00:00.000Z"
    zone = timezone(timedelta(hours=5, minutes=30))
    assert format_time(NOW, zone=zone) == "2023-11-15T03:43:20.123+05:30"
    assert format_time(NOW, zone=UTC) == "2023-11-14T22:13:20.123+00:00"
    assert [format_time(ms) for ms in (-1, 1 << 62)] == ["@-1", f"@{1 << 62}"]


def test_format_and_parse_are_inverse(rng) -> None:
    for _ in range(300):
        ms = rng.randrange(253_402_300_799_999)
        assert parse_time_ms(format_time(ms), NOW) == ms


def test_ranges() -> None:
    start, end = parse_time_range("1700000000..now", NOW)
    assert start is not None
    assert end is not None
    assert (start.ms, end.ms) == (1_700_000_000_000, NOW)
    assert parse_time_range("..", NOW) == (None, None)
    assert parse_time_range("-1h..", NOW)[1] is None
    for text in ("now", "now..-1h", "x..y"):
        with pytest.raises(ConfigError):
            parse_time_range(text, NOW)
