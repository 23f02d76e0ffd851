"""Sizes, durations, rates and shares for people."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def size_text(value: float) -> str:
    """Return a size in bytes with its unit: ``1.5 MiB``."""
    for unit in _UNITS[:-1]:
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} {_UNITS[-1]}"


def seconds_text(value: float) -> str:
    """Return a duration in seconds with its unit: ``250ms``, ``1.5s``, ``3m``."""
    if abs(value) < 1:
        return f"{value * 1000:.0f}ms"
    if abs(value) < 120:
        return f"{value:.1f}s"
    return f"{value / 60:.0f}m" if abs(value) < 7200 else f"{value / 3600:.1f}h"


def rate_text(value: float) -> str:
    """Return a rate per second: ``12.3/s``."""
    return f"{value:.1f}/s"


def byte_rate_text(value: float) -> str:
    """Return bytes per second: ``1.5 MiB/s``."""
    return f"{size_text(value)}/s"


def share_text(value: float) -> str:
    """Return a share of 0 to 1 in percent: ``62%``."""
    return f"{value:.0%}"
