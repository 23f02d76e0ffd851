"""Rows as plain mappings, and values as text of table cells: times, sizes, durations, shares."""

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from time import gmtime
from typing import Any

ABSENT = "-"

LAST_MS = 253_402_300_799_999  # the end of the year 9999

_STEM = "Timestamp"


def plain(row: Any) -> dict[str, Any]:
    """Convert a row (struct or mapping) to a plain mapping with an RFC 3339 field per timestamp.

    Only fields of records get one: keys of maps inside them (properties, configuration) belong
    to the application or broker and are left unchanged.
    """
    kind = type(row)
    if kind is dict:
        return _with_times(row)
    plan = _plans.get(kind)
    if plan is None:
        names = zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)
        plan = _plans[kind] = [(name, field, time_name(name)) for name, field in names]
    out: dict[str, Any] = {}
    for name, field, time_field in plan:
        value = getattr(row, field)
        out[name] = value if type(value) in _SCALARS else _value(value)
        if time_field is not None:
            out[time_field] = rfc3339(value) if type(value) is int else None
    return out


_plans: dict[type, list[tuple[str, str, str | None]]] = {}  # struct → (name, field, time field)


def _with_times(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Add ``xTime`` after each ``xTimestamp`` (``time`` after ``timestamp``)."""
    out: dict[str, Any] = {}
    for name, value in fields.items():
        out[name] = value
        time_field = time_name(name)
        if time_field is not None:
            out[time_field] = rfc3339(value) if type(value) is int else None
    return out


_SCALARS = frozenset({str, int, float, bool, type(None)})


def _value(value: Any) -> Any:
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is list or kind is tuple:
        return [_value(item) for item in value]
    from msgspec import Struct, to_builtins

    if isinstance(value, Struct):
        return plain(value)
    return to_builtins(value, str_keys=True)


def time_name(name: str) -> str | None:
    """Return the name of the RFC 3339 field of a timestamp field, None for other fields."""
    if name.endswith(_STEM):
        return name[: -len(_STEM)] + "Time"
    return "time" if name == "timestamp" else None


def rfc3339(epoch_ms: int) -> str | None:
    """Format epoch milliseconds as RFC 3339 in UTC; None outside the years 1970 to 9999."""
    if not 0 <= epoch_ms <= LAST_MS:
        return None
    return f"{_second_text(epoch_ms // 1000)}.{epoch_ms % 1000:03d}Z"


@lru_cache(maxsize=256)  # messages in store order share seconds, so most calls hit
def _second_text(epoch_s: int) -> str:
    year, month, day, hour, minute, second = gmtime(epoch_s)[:6]
    return f"{year:04d}-{month:02d}-{day:02d}T{hour:02d}:{minute:02d}:{second:02d}"


def cell(value: Any) -> str:
    """Return the text of a table cell: ``-`` for None, lists joined, no control characters."""
    if value is None:
        return ABSENT
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, str):
        return printable(value) if value else ABSENT
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    if isinstance(value, dict):
        return ",".join(f"{printable(str(k))}={cell(v)}" for k, v in value.items()) or ABSENT
    if isinstance(value, (list, tuple)):
        return ",".join(cell(item) for item in value) or ABSENT
    return printable(str(value))


def printable(text: str) -> str:
    """Escape control characters: text of stored messages must not control the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def heading(name: str) -> str:
    """Return the table heading of a field: ``readQueueNums`` → ``READ-QUEUE-NUMS``.

    Without the unit of a duration, which is in each cell: ``ageMs`` → ``AGE``.
    """
    out: list[str] = []
    name = quantity_name(name)
    for position, character in enumerate(name):
        if character.isupper() and position and not name[position - 1].isupper():
            out.append("-")
        out.append(character.upper())
    return "".join(out)


_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_LONG_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))


def size_text(value: float) -> str:
    """Return a size in bytes with its unit: ``1.5 MiB``."""
    for unit in _UNITS[:-1]:
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} {_UNITS[-1]}"


def seconds_text(value: float) -> str:
    """Return a duration in seconds with its unit: ``250ms``, ``1.5s``, ``3m``, ``2.5h``, ``7d``."""
    if not value:
        return "0s"
    for seconds, unit in _LONG_UNITS:
        # 90s and 26h are exact where 1.5m and 1.1d are rounded
        if abs(value) >= 2 * seconds or value % seconds == 0:
            return f"{_decimal(value / seconds)}{unit}"
    if abs(value) >= 1:
        return f"{_decimal(value)}s"
    millis = value * 1000
    return f"{_decimal(millis)}ms" if abs(millis) < 10 else f"{millis:.0f}ms"


def millis_text(value: float) -> str:
    """Return a duration in milliseconds with its unit, as :func:`seconds_text`."""
    return seconds_text(value / 1000)


def _decimal(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def rate_text(value: float) -> str:
    """Return a rate per second: ``12.3/s``."""
    return f"{value:.1f}/s"


def byte_rate_text(value: float) -> str:
    """Return bytes per second: ``1.5 MiB/s``."""
    return f"{size_text(value)}/s"


def megabyte_rate_text(value: float) -> str:
    """Return megabytes (10^6 bytes) per second: ``1.5 MB/s``."""
    return f"{value:.3f} MB/s" if value < 10 else f"{value:.0f} MB/s"


def share_text(value: float) -> str:
    """Return a share of 0 to 1 in percent: ``62%``."""
    return f"{value:.0%}"


def byte_hour_rate_text(value: float) -> str:
    """Return bytes per hour: ``1.5 MiB/h``."""
    return f"{size_text(value)}/h"


# End of a field name → formatter. storeSize and length are not here: with the physical offset
# they are positions in a file, which must be exact.
_BY_SUFFIX: tuple[tuple[str, Callable[[float], str]], ...] = (
    ("Ms", millis_text),
    ("Seconds", seconds_text),
    ("megabytesPerSecond", megabyte_rate_text),
    ("bytesPerSecond", byte_rate_text),
    ("bytesPerHour", byte_hour_rate_text),
    ("Bytes", size_text),
    ("bytes", size_text),
    ("bodySize", size_text),
    ("Ratio", share_text),
    ("share", share_text),
)


@cache
def quantity_text(field: str) -> Callable[[float], str] | None:
    """Return the formatter of a field whose name ends in its unit, None for other fields."""
    return next((text for suffix, text in _BY_SUFFIX if field.endswith(suffix)), None)


def quantity_name(field: str) -> str:
    """Return the name of a field without the unit that its formatted value contains.

    ``dueInMs`` → ``dueIn``; ``lagSeconds`` → ``lagTime``, as ``lag`` is a number of messages.
    """
    if field.endswith("Seconds"):
        stem = field.removesuffix("Seconds")
        return stem if stem.startswith("time") else f"{stem}Time"
    return field.removesuffix("Ms")
