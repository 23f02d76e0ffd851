"""Rows as plain mappings, and values as text of table cells."""

from collections.abc import Mapping
from functools import lru_cache
from time import gmtime
from typing import Any

from mqadmin.output.units import quantity_name

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
