"""Thresholds as words: durations, percentages, messages with ages, values by metric name."""

from mqadmin.command.check.noun import gap_limits
from mqadmin.command.framework.values import decimal, duration_ms, whole


def seconds(text: str) -> float:
    """Read a duration as seconds."""
    return duration_ms(text) / 1000


def days(text: str) -> float:
    """Read a duration, or a bare number of days, as days."""
    try:
        return decimal(text) if text.replace(".", "", 1).isdecimal() else seconds(text) / 86_400
    except ValueError:
        raise ValueError(f"{text!r} is not a duration (example: 30d)") from None


def percent(text: str) -> float:
    """Read ``85%``, ``85`` or ``0.85`` as percent; only numbers below 1 are ratios."""
    try:
        value = decimal(text.removesuffix("%"))
    except ValueError:
        raise ValueError(f"{text!r} is not a percentage (example: 85%)") from None
    value = value * 100 if value < 1 and not text.endswith("%") else value
    if not 0 <= value <= 100:
        raise ValueError(f"{text!r} is not between 0% and 100%")
    return value


def messages_and_age(text: str) -> tuple[int | None, float | None]:
    """Read ``10000``, ``5m`` or both with a comma; return (messages, seconds)."""
    messages: int | None = None
    age: float | None = None
    for part in (word.strip() for word in text.split(",")):
        try:
            if part.isdecimal():
                messages = whole(part)
            else:
                age = seconds(part)
        except ValueError:
            raise ValueError(
                f"{part!r} is not a number of messages or a duration (example: 10000,5m)"
            ) from None
    return messages, age


def messages_and_age_text(text: str) -> str:
    """Check messages and age and return the text."""
    messages_and_age(text)
    return text


def named(text: str, units: dict[str, str]) -> dict[str, float | None]:
    """Read ``NAME=VALUE,…``; ``units`` maps the names to B or s, ``NAME=none`` removes a limit."""
    found: dict[str, float | None] = {}
    for part in filter(None, (word.strip() for word in text.split(","))):
        name, equals, value = part.partition("=")
        if name not in units or not equals:
            raise ValueError(f"{part!r} is not NAME=VALUE with one of {', '.join(units)}")
        if value == "none":
            found[name] = None
            continue
        size, age = gap_limits(value)
        limit = size if units[name] == "B" else age
        if limit is None:
            unit = "a size (example: 64MiB)" if units[name] == "B" else "a duration (example: 1s)"
            raise ValueError(f"{name}: {value!r} is not {unit}")
        found[name] = limit
    return found
