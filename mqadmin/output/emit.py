"""Rows to stdout in the form that was asked for."""

from collections.abc import Iterable, Iterator
from typing import Any

from mqadmin.output.stdio import flush_out, stdout_is_terminal, write_out
from mqadmin.output.table import draw_rows, draw_thing
from mqadmin.output.values import plain, time_twin
from mqadmin.output.view import Outcome, View

FORMATS = ("table", "wide", "json", "ndjson", "yaml", "csv", "schema")

FLUSH_BYTES = 64 * 1024  # text gathered before it is handed to the stream


def emit(
    view: View,
    rows: Iterable[Any],
    *,
    form: str = "table",
    outcome: Outcome | None = None,
    color: bool = True,
    live: bool = False,
) -> int:
    """Write rows and return how many there were.

    ``outcome`` is read after the last row, so a generator may fill it while it runs. ``live``
    flushes each row (a tail). An exception raised by ``rows`` leaves ``json`` well formed: the
    envelope is closed with ``truncated`` true before the exception goes on.
    """
    outcome = outcome or Outcome()
    mappings = (plain(row) for row in rows)
    if form in ("table", "wide"):
        if live:
            return _live_lines(view, mappings)
        columns = view.columns if form == "table" else view.wide
        count = draw_rows(mappings, columns, keep=view.keep, texts=view.texts, color=color)
        flush_out()
        return count
    if form == "json":
        return _json(view, mappings, outcome)
    if form == "ndjson":
        return _ndjson(mappings, live=live)
    if form == "yaml":
        return _yaml(view, mappings, outcome)
    if form == "csv":
        return _csv(view, mappings, live=live)
    raise ValueError(f"no output form {form!r}")


def emit_thing(view: View, thing: Any, *, form: str = "table", color: bool = True) -> None:
    """Write one thing: in JSON and YAML its fields beside ``schema``, no envelope."""
    fields = plain(thing)
    if form in ("table", "wide"):
        if form == "table":
            fields = _words_for_times(fields)
        columns = view.columns if form == "table" else view.wide
        draw_thing(fields, columns, texts=view.texts, color=color)
    elif form == "json":
        write_out(_document({"schema": view.schema, **fields}))
    elif form == "ndjson":
        write_out(_encode(fields) + "\n")
    elif form == "yaml":
        from mqadmin.output.yaml_text import yaml_document

        write_out(yaml_document({"schema": view.schema, **fields}))
    elif form == "csv":
        _csv(view, iter((fields,)), live=False)
    else:
        raise ValueError(f"no output form {form!r}")
    flush_out()


def _words_for_times(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out the milliseconds of a time that stands there in words as well."""
    shown: dict[str, Any] = {}
    for name, value in fields.items():
        if time_twin(name) in fields:
            continue
        is_map = isinstance(value, dict) and name != "properties"
        shown[name] = _words_for_times(value) if is_map else value
    return shown


def _encode(value: Any) -> str:
    from msgspec import json

    return json.encode(value).decode()


def _document(value: Any) -> str:
    """One JSON document: on one line for programs, indented for a person."""
    from msgspec import json

    data = json.encode(value)
    if stdout_is_terminal():
        data = json.format(data, indent=2)
    return data.decode() + "\n"


def _gathered(pieces: Iterator[str], *, live: bool) -> int:
    """Write pieces in large chunks, or one by one when somebody waits for each; count them."""
    count = size = 0
    held: list[str] = []
    try:
        for piece in pieces:
            count += 1
            if live:
                write_out(piece, flush=True)
                continue
            held.append(piece)
            size += len(piece)
            if size >= FLUSH_BYTES:
                write_out("".join(held))
                held.clear()
                size = 0
    finally:
        if held:
            write_out("".join(held))
    flush_out()
    return count


def _ndjson(rows: Iterator[dict[str, Any]], *, live: bool) -> int:
    return _gathered((_encode(row) + "\n" for row in rows), live=live)


def _json(view: View, rows: Iterator[dict[str, Any]], outcome: Outcome) -> int:
    """One envelope with one item per line, written as the items come."""
    write_out(f'{{"schema": {_encode(view.schema)}, "items": [')

    def pieces() -> Iterator[str]:
        separator = "\n"
        for row in rows:
            yield separator + _encode(row)
            separator = ",\n"

    finished = False
    count = 0
    try:
        count = _gathered(pieces(), live=False)
        finished = True
    finally:
        truncated = "true" if outcome.truncated or not finished else "false"
        end = "\n" if count or not finished else ""
        write_out(f'{end}], "truncated": {truncated}, "errors": {_encode(outcome.errors)}}}\n')
        flush_out()
    return count


def _yaml(view: View, rows: Iterator[dict[str, Any]], outcome: Outcome) -> int:
    """The envelope of the JSON form, its items written as they come."""
    from mqadmin.output.yaml_text import yaml_document, yaml_item

    head = [yaml_document({"schema": view.schema}) + "items:\n"]

    def pieces() -> Iterator[str]:
        for row in rows:
            yield (head.pop() if head else "") + yaml_item(row)

    finished = False
    count = 0
    try:
        count = _gathered(pieces(), live=False)
        finished = True
    finally:
        if head:
            write_out(yaml_document({"schema": view.schema, "items": []}))
        truncated = outcome.truncated or not finished
        write_out(yaml_document({"truncated": truncated, "errors": outcome.errors}))
        flush_out()
    return count


def _csv(view: View, rows: Iterator[dict[str, Any]], *, live: bool) -> int:
    """All fields of the first row, or the view's wide columns; nested values as JSON text."""
    import csv
    import io

    buffer = io.StringIO()
    names: list[str] = list(view.wide)

    def pieces() -> Iterator[str]:
        writer = csv.writer(buffer, lineterminator="\n")
        head_due = True
        for row in rows:
            if head_due:
                if not names:
                    names.extend(row)
                writer.writerow(names)
                head_due = False
            writer.writerow([_csv_cell(row.get(name)) for name in names])
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()

    count = _gathered(pieces(), live=live)
    if not count:
        write_out(",".join(names or _declared_fields(view)) + "\n")
        flush_out()
    return count


def _declared_fields(view: View) -> list[str]:
    """The columns a row would have had: an empty CSV keeps its header."""
    if not view.row:
        return list(view.columns)
    names: list[str] = []
    for name in view.row_type().__struct_encode_fields__:
        names.append(name)
        twin = time_twin(name)
        if twin is not None:
            names.append(twin)
    return names


def _csv_cell(value: Any) -> str | int | float:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return value
    return _encode(value)


def _live_lines(view: View, rows: Iterator[dict[str, Any]]) -> int:
    """Rows as they come: one line each, two blanks between cells, no widths to wait for."""
    from mqadmin.output.values import cell

    count = 0
    for row in rows:
        names = view.columns or tuple(row)
        write_out("  ".join(cell(row.get(name)) for name in names) + "\n", flush=True)
        count += 1
    return count
