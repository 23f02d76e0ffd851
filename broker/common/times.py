"""Parse durations and times in command-line notation; format durations, RFC 3339 and Java times.

=========================================  ====================================================
duration                                   ``500ms 10s 5m 2h 7d`` (also ``1.5h``, ``1h30m``)
time                                       RFC 3339, ``2026-01-02 03:04``,
                                           ``yyyy-MM-dd#HH:mm:ss:SSS`` (Java's), ``now``,
                                           ``-2h`` (from now), epoch in s or ms by digit count
range                                      ``START..END``, either side may be empty
=========================================  ====================================================

A time without zone is local time unless the caller requests UTC; the result includes the zone that
was used, so that it can be shown.
"""

import time
from typing import TYPE_CHECKING, NamedTuple

from broker.errors import ConfigError

if TYPE_CHECKING:
    from datetime import datetime, timezone

MILLIS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_MAX_TEXT = 64  # longest accepted text
_MAX_DURATION_MS = 1 << 53
_MAX_TIME_MS = 253_402_300_799_999  # 9999-12-31T23:59:59.999Z, the last with a four-digit year
_EPOCH_SECONDS_DIGITS = 11  # up to year 5138; more digits are milliseconds

_DURATION_HINT = "write a number and ms, s, m, h or d: 500ms, 10s, 5m, 2h, 7d"
_TIME_HINT = (
    "write 2026-01-02T03:04:05Z, 2026-01-02 03:04, 2026-01-02#03:04:05:678, now, -2h,"
    " or the epoch in seconds or milliseconds"
)


def parse_duration_ms(text: str) -> int:
    """Parse a duration as whole milliseconds >= 0; ConfigError with a hint otherwise.

    A number without unit is refused, except ``0``.
    """
    word = text.strip().lower()
    if word == "0":
        return 0
    total, rest = 0.0, word
    while rest and len(word) <= _MAX_TEXT:
        digits = len(rest) - len(rest.lstrip("0123456789."))
        unit = rest[digits:]
        unit = unit[: len(unit) - len(unit.lstrip("dhms"))]
        if unit not in MILLIS or not _is_decimal(rest[:digits]):
            break
        total += float(rest[:digits]) * MILLIS[unit]
        rest = rest[digits + len(unit) :]
        if not rest and total <= _MAX_DURATION_MS:
            return round(total)
    raise ConfigError(f"not a duration: {text!r:.80}", _DURATION_HINT)


def _is_decimal(text: str) -> bool:
    whole, dot, fraction = text.partition(".")
    return whole.isdecimal() and (not dot or fraction.isdecimal())


def format_duration(ms: int) -> str:
    """Format a duration in its one or two largest units: ``2h5m``, ``1m30s``, ``500ms``."""
    if ms < 0:
        return "-" + format_duration(-ms)
    units = [(name, MILLIS[name]) for name in ("d", "h", "m", "s", "ms")]
    for place, (name, size) in enumerate(units):
        if ms >= size:
            text = f"{ms // size}{name}"
            if place + 1 < len(units):
                next_name, next_size = units[place + 1]
                rest = ms % size // next_size
                if rest and next_name != "ms":
                    text += f"{rest}{next_name}"
            return text
    return "0ms"


class ParsedTime(NamedTuple):
    """A time in epoch ms and its zone: ``UTC``, ``+02:00``, or "" for epoch and relative times."""

    ms: int
    zone: str


def parse_time(text: str, now_ms: int, *, utc: bool = False) -> ParsedTime:
    """Parse a time; a text without zone is local time, or UTC if ``utc``.

    Raises ConfigError with a hint if it has no known form or is outside 1970..9999.
    """
    word = text.strip()
    lower = word.lower()
    if lower == "now":
        return ParsedTime(now_ms, "")
    if len(word) <= _MAX_TEXT:
        if word[:1] == "-" or (word[:1] == "+" and not word[1:].isdecimal()):
            offset_ms = parse_duration_ms(word[1:])
            return _checked(text, now_ms + (offset_ms if word[0] == "+" else -offset_ms), "")
        if lower.endswith(" ago"):
            return _checked(text, now_ms - parse_duration_ms(lower[:-4]), "")
        digits = word.removeprefix("@")
        if digits.isascii() and digits.isdigit():
            number = int(digits)
            scale = 1000 if len(digits) <= _EPOCH_SECONDS_DIGITS else 1
            return _checked(text, number * scale, "")
        moment = _parse_calendar(word)
        if moment is not None:
            return _zoned(text, moment, utc)
    raise ConfigError(f"not a time: {text!r:.80}", _TIME_HINT)


def _checked(text: str, ms: int, zone: str) -> ParsedTime:
    if not 0 <= ms <= _MAX_TIME_MS:
        raise ConfigError(f"a time outside 1970..9999: {text!r:.80}", _TIME_HINT)
    return ParsedTime(ms, zone)


def _parse_calendar(word: str) -> "datetime | None":
    from datetime import datetime

    day, hash_sign, clock = word.partition("#")
    if hash_sign:  # Java's yyyy-MM-dd#HH:mm:ss:SSS: the last colon is a decimal point
        parts = clock.split(":")
        if len(parts) == 4:
            clock = ":".join(parts[:3]) + "." + parts[3].ljust(3, "0")
        word = f"{day}T{clock}"
    if len(word) < 10 or word[4:5] != "-" or word[7:8] != "-":
        return None  # fromisoformat also accepts week dates and dates without separators
    try:
        return datetime.fromisoformat(word.upper())
    except ValueError:
        return None


def _zoned(text: str, moment: "datetime", utc: bool) -> ParsedTime:
    from datetime import UTC

    if moment.tzinfo is None:
        try:
            moment = moment.replace(tzinfo=UTC) if utc else moment.astimezone()
        except (OverflowError, OSError, ValueError):
            return _checked(text, -1, "")
    offset = moment.utcoffset()
    assert offset is not None
    try:
        whole = moment.replace(microsecond=0).timestamp()
    except (OverflowError, ValueError):
        return _checked(text, -1, "")
    minutes = round(offset.total_seconds() / 60)
    sign, size = "-" if minutes < 0 else "+", abs(minutes)
    zone = f"{sign}{size // 60:02d}:{size % 60:02d}" if minutes else "UTC"
    return _checked(text, int(whole) * 1000 + moment.microsecond // 1000, zone)


def parse_time_ms(text: str, now_ms: int, *, utc: bool = False) -> int:
    """Return the ``ms`` of :func:`parse_time`."""
    return parse_time(text, now_ms, utc=utc).ms


def parse_time_range(
    text: str, now_ms: int, *, utc: bool = False
) -> tuple[ParsedTime | None, ParsedTime | None]:
    """Parse ``START..END``; an empty side is None (open).

    Raises ConfigError if there is no ``..``, a side is not a time, or the end is before the start.
    """
    start_text, dots, end_text = text.partition("..")
    if not dots:
        raise ConfigError(f"not a time range: {text!r:.80}", "write START..END, one may be empty")
    start = parse_time(start_text, now_ms, utc=utc) if start_text.strip() else None
    end = parse_time(end_text, now_ms, utc=utc) if end_text.strip() else None
    if start is not None and end is not None and end.ms < start.ms:
        raise ConfigError(f"a time range that ends before it starts: {text!r:.80}")
    return start, end


def format_time(ms: int, *, zone: "timezone | None" = None) -> str:
    """Format as RFC 3339 with milliseconds, in UTC (``Z``) or in ``zone`` (``+02:00``).

    Times before 1970 or after 9999 are formatted as ``@`` and the number.
    """
    if not 0 <= ms <= _MAX_TIME_MS:
        return f"@{ms}"
    if zone is None:
        year, month, day, hour, minute, second = time.gmtime(ms // 1000)[:6]
        return (
            f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}"
            f".{ms % 1000:03d}Z"
        )
    from datetime import datetime

    moment = datetime.fromtimestamp(ms // 1000, zone).replace(microsecond=ms % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds")


def month_start_ms(now_ms: int, months_back: int = 0) -> int:
    """Return the start of the month of ``now_ms`` (or an earlier one), local time, epoch ms.

    The time in a uniqKey counts from it (see ``broker.message.message_id``).
    """
    year, month = time.localtime(now_ms // 1000)[:2]
    months = year * 12 + month - 1 - months_back
    start = (months // 12, months % 12 + 1, 1, 0, 0, 0, 0, 0, -1)
    return int(time.mktime(start)) * 1000
