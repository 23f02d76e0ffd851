"""Lists in another arrangement: chosen fields, another order. Loaded only when one is asked for."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from mqadmin.output.values import heading
from mqadmin.output.view import Arrangement


class UnknownFieldError(ValueError):
    """A list does not have a field; the message names it and the fields that exist."""


def arranged(
    rows: Iterable[dict[str, Any]], arrangement: Arrangement
) -> tuple[Iterator[dict[str, Any]], list[str]]:
    """Return the rows in the wanted order, and the wanted columns as fields.

    Raises UnknownFieldError, before a row is printed. An empty list has no field to be refused.
    """
    stream = iter(rows)
    first = next(stream, None)
    if first is None:
        return iter(()), list(arrangement.columns)
    names = [field_of(first, name) for name in arrangement.columns]
    every = chain((first,), stream)
    if not arrangement.sort:
        return every, names
    field = field_of(first, arrangement.sort)
    known: list[dict[str, Any]] = []
    rest: list[dict[str, Any]] = []
    for row in every:
        (rest if row.get(field) is None else known).append(row)
    known.sort(key=lambda row: _order(row[field]), reverse=arrangement.descending)
    return chain(known, rest), names


def field_of(row: dict[str, Any], name: str) -> str:
    """Return the field that a name or heading denotes."""
    if name in row:
        return name
    for field in row:
        if heading(field) == name.upper() or field.lower() == name.lower():
            return field
    raise UnknownFieldError(f"no field {name!r}; the fields are {', '.join(row)}")


def chosen(rows: Iterable[dict[str, Any]], names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the rows with these fields only, in this order."""
    return ({name: row.get(name) for name in names} for row in rows)


def _order(value: Any) -> tuple[int, Any]:
    """Return a key that orders values of different types: numbers, then texts."""
    if isinstance(value, (bool, int, float)):
        return 0, value
    return 1, value if isinstance(value, str) else str(value)
