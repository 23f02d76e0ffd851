"""Rows to stdout in the requested form."""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import json

from mqadmin.output.stdio import flush_out, stdout_is_terminal, write_out
from mqadmin.output.table import draw_one, draw_rows
from mqadmin.output.values import cell, plain, time_name
from mqadmin.output.view import Outcome, View
from mqadmin.safe_text import csv_cell, json_text

FLUSH_BYTES = 64 * 1024  # text collected before it is passed to the stream


def emit(
    view: View,
    rows: Iterable[Any],
    *,
    form: str = "table",
    outcome: Outcome | None = None,
    color: bool = True,
    live: bool = False,
    row_type: Any = None,
) -> int:
    """Write rows and return their number.

    ``outcome`` is read after the last row, so a generator may fill it while it runs. ``live``
    flushes each row (a tail). ``row_type``, the struct of a row, gives the header of a CSV file
    without rows. An exception raised by ``rows`` leaves ``json`` well formed: the
    envelope is closed with ``truncated`` true before the exception propagates.
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
        return _csv(view, mappings, live=live, row_type=row_type)
    raise ValueError(f"no output form {form!r}")


def emit_one(view: View, thing: Any, *, form: str = "table", color: bool = True) -> None:
    """Write one object: in JSON and YAML its fields and ``schema``, without an envelope."""
    fields = plain(thing)
    if form in ("table", "wide"):
        if form == "table":
            fields = _words_for_times(fields)
        columns = view.columns if form == "table" else view.wide
        draw_one(fields, columns, texts=view.texts, color=color)
    elif form == "json":
        write_out(_document({"schema": view.schema, **fields}))
    elif form == "ndjson":
        write_out(json_text(fields) + "\n")
    elif form == "yaml":
        _write_yaml({"schema": view.schema, **fields})
    elif form == "csv":
        _csv(view, iter((fields,)), live=False, row_type=None)
    else:
        raise ValueError(f"no output form {form!r}")
    flush_out()


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


def _gathered(pieces: Iterator[str], *, live: bool) -> int:
    """Write pieces in large chunks, or each immediately when ``live``; return their number."""
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
    return _gathered((json_text(row) + "\n" for row in rows), live=live)


def _json(view: View, rows: Iterator[dict[str, Any]], outcome: Outcome) -> int:
    """Write one envelope with one item per line, streamed."""
    write_out(f'{{"schema": {json_text(view.schema)}, "items": [')

    def pieces() -> Iterator[str]:
        separator = "\n"
        for row in rows:
            yield separator + json_text(row)
            separator = ",\n"

    finished = False
    count = 0
    try:
        count = _gathered(pieces(), live=False)
        finished = True
    finally:
        truncated = "true" if outcome.truncated or not finished else "false"
        end = "\n" if count or not finished else ""
        write_out(f'{end}], "truncated": {truncated}, "errors": {json_text(outcome.errors)}}}\n')
        flush_out()
    return count


def _yaml(view: View, rows: Iterator[dict[str, Any]], outcome: Outcome) -> int:
    """Write the envelope of the JSON form as YAML, its items streamed."""
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


def _write_yaml(document: dict[str, Any]) -> None:
    from mqadmin.output.yaml_text import yaml_document

    write_out(yaml_document(document))


def _csv(view: View, rows: Iterator[dict[str, Any]], *, live: bool, row_type: Any) -> int:
    """Write the view's wide columns, or all fields of the first row; nested values as JSON."""
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
            writer.writerow([csv_cell(row.get(name)) for name in names])
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()

    count = _gathered(pieces(), live=live)
    if not count:
        write_out(",".join(names or _declared_fields(view, row_type)) + "\n")
        flush_out()
    return count


def _declared_fields(view: View, row_type: Any) -> list[str]:
    """Return the columns a row would have: an empty CSV has its header too."""
    if row_type is None:
        return list(view.columns)
    names: list[str] = []
    for name in row_type.__struct_encode_fields__:
        names.append(name)
        time_field = time_name(name)
        if time_field is not None:
            names.append(time_field)
    return names


def _live_lines(view: View, rows: Iterator[dict[str, Any]]) -> int:
    """Write each row when it arrives: two blanks between cells, no common column widths."""
    count = 0
    for row in rows:
        names = view.columns or tuple(row)
        write_out("  ".join(cell(row.get(name)) for name in names) + "\n", flush=True)
        count += 1
    return count
