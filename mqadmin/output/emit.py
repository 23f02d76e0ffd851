"""Rows to stdout in the requested form."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from operator import add
from typing import TYPE_CHECKING, Any

from msgspec import json

from mqadmin.output.stdio import flush_out, stdout_is_terminal, write_gathered, write_out
from mqadmin.output.table import cell_text, draw_one, draw_rows
from mqadmin.output.values import heading, plain, time_name
from mqadmin.output.view import Arrangement, Outcome, View
from mqadmin.safe_text import json_text

if TYPE_CHECKING:
    from mqadmin.output.forms.jsonpath_text import Query

# (view, rows, outcome, live, row type) → number of rows; (view, fields)
RowsWriter = Callable[[View, Iterator[dict[str, Any]], Outcome, bool, Any], int]
OneWriter = Callable[[View, dict[str, Any]], None]


def emit(
    view: View,
    rows: Iterable[Any],
    *,
    form: str = "table",
    outcome: Outcome | None = None,
    color: bool = True,
    live: bool = False,
    row_type: Any = None,
    arrangement: Arrangement | None = None,
    query: "Query | None" = None,
) -> int:
    """Write rows and return their number; with ``query`` only the values that it selects.

    ``outcome`` is read after the last row, so a generator may fill it while it runs. ``live``
    flushes each row (a tail). ``row_type``, the struct of a row, gives the header of a CSV file
    without rows. An exception raised by ``rows`` leaves ``json`` well formed: the
    envelope is closed with ``truncated`` true before the exception propagates. ``arrangement``
    changes fields, headings and order; UnknownFieldError if a row does not have such a field.
    """
    outcome = outcome or Outcome()
    mappings: Iterator[dict[str, Any]] = map(plain, rows)
    names: list[str] = []
    headers = True
    if arrangement is not None:
        mappings, names = arranged(mappings, arrangement)
        headers = arrangement.headers
    if query is not None:
        return query.write_rows(view, mappings, outcome)
    if form in ("table", "wide"):
        if live:
            return _live_lines(view, mappings, names)
        columns = names or (view.columns if form == "table" else view.wide)
        # a column that was asked for stays, even without a value
        keep = frozenset(names) or view.keep
        count = draw_rows(
            mappings, columns, keep=keep, texts=view.texts, color=color, headers=headers
        )
        flush_out()
        return count
    if names:
        mappings = chosen(mappings, names)
        view = View(view.name, names, wide=names, texts=view.texts)
    if form == "json":
        return _json(view, mappings, outcome)
    if form == "ndjson":
        return write_gathered(map(_line, mappings), live=live)
    write_rows, _ = _with_a_library(form, headers=headers)
    return write_rows(view, mappings, outcome, live, row_type)


def emit_one(
    view: View,
    thing: Any,
    *,
    form: str = "table",
    color: bool = True,
    query: "Query | None" = None,
) -> None:
    """Write one object: in JSON and YAML its fields and ``schema``, without an envelope."""
    fields = plain(thing)
    if query is not None:
        query.write_one(view, fields)
        return
    if form in ("table", "wide"):
        if form == "table":
            fields = _words_for_times(fields)
        columns = view.columns if form == "table" else view.wide
        draw_one(fields, columns, texts=view.texts, color=color)
    elif form == "json":
        write_out(_document({"schema": view.schema, **fields}))
    elif form == "ndjson":
        write_out(json_text(fields) + "\n")
    else:
        _, write_one = _with_a_library(form)
        write_one(view, _words_for_times(fields) if form == "markdown" else fields)
    flush_out()


def _with_a_library(form: str, *, headers: bool = True) -> tuple[RowsWriter, OneWriter]:
    """Import a form that needs a library, each slower to import than a command to run."""
    if form == "yaml":
        from mqadmin.output.forms import yaml_text

        return yaml_text.write_rows, yaml_text.write_one
    if form == "csv":
        from mqadmin.output.forms import csv_text

        write_rows = csv_text.write_rows if headers else csv_text.write_cells
        return write_rows, csv_text.write_one
    if form == "markdown":
        from mqadmin.output.forms import markdown

        return markdown.write_rows, markdown.write_one
    raise ValueError(f"no output form {form!r}")


def _words_for_times(fields: dict[str, Any]) -> dict[str, Any]:
    """Drop each epoch-ms field that also has an RFC 3339 field."""
    shown: dict[str, Any] = {}
    for name, value in fields.items():
        if time_name(name) in fields:
            continue
        is_map = isinstance(value, dict) and name != "properties"
        shown[name] = _words_for_times(value) if is_map else value
    return shown


def _document(value: Any) -> str:
    """Encode one JSON document: one line, indented on a terminal."""
    text = json_text(value)
    if stdout_is_terminal():
        text = json.format(text, indent=2)
    return text + "\n"


def _line(row: dict[str, Any]) -> str:
    return json_text(row) + "\n"


def _json(view: View, rows: Iterator[dict[str, Any]], outcome: Outcome) -> int:
    """Write one envelope with one item per line, streamed."""
    write_out(f'{{"schema": {json_text(view.schema)}, "items": [')
    pieces = map(add, chain(("\n",), repeat(",\n")), map(json_text, rows))
    finished = False
    count = 0
    try:
        count = write_gathered(pieces, live=False)
        finished = True
    finally:
        truncated = "true" if outcome.truncated or not finished else "false"
        end = "\n" if count or not finished else ""
        write_out(f'{end}], "truncated": {truncated}, "errors": {json_text(outcome.errors)}}}\n')
        flush_out()
    return count


def _live_lines(view: View, rows: Iterator[dict[str, Any]], chosen_names: Sequence[str]) -> int:
    """Write each row when it arrives: two blanks between cells, no common column widths."""
    count = 0
    for row in rows:
        names = chosen_names or view.columns or tuple(row)
        cells = (cell_text(view.texts, name, row.get(name)) for name in names)
        write_out("  ".join(cells) + "\n", flush=True)
        count += 1
    return count


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
    """Return the field that a name or heading denotes; ``LAG-SECONDS`` is lagSeconds too."""
    if name in row:
        return name
    compact = name.replace("-", "").lower()
    for field in row:
        if heading(field) == name.upper() or field.lower() == compact:
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
