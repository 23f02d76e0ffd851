"""Sizes, durations, rates and shares for people."""

from collections.abc import Callable
from functools import cache

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
