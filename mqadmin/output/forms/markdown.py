"""Markdown tables for tickets and chats, drawn by tabulate.

Loaded only for ``-o markdown``: importing tabulate takes as long as a whole short command.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from tabulate import tabulate

from mqadmin.output.stdio import flush_out, write_out
from mqadmin.output.table import (
    TABLE_WINDOW,
    Texts,
    all_fields,
    cell_text,
    is_number_column,
    is_section,
)
from mqadmin.output.values import heading
from mqadmin.output.view import Outcome, View

HEAD_LINES = 2  # the headings and the line of dashes below them

# A backslash, a column separator, or the start of an HTML tag; other marks only change the look.
_ESCAPES = str.maketrans({"\\": "\\\\", "|": "\\|", "<": "\\<", "\n": "<br>", "\r": ""})


def escaped(text: str) -> str:
    """Escape a text for one cell of a Markdown table."""
    return text.translate(_ESCAPES)


def write_rows(
    view: View, rows: Iterator[dict[str, Any]], outcome: Outcome, live: bool, row_type: Any
) -> int:
    """Write rows as one table and return their number; no rows write nothing.

    The columns are those of ``-o table``, or all fields of the first rows. Rows are drawn
    TABLE_WINDOW at a time, which bounds memory: Markdown needs equal widths for looks only.
    With ``live`` each row is drawn and flushed when it arrives.
    """
    return _write(rows, view.columns, view.texts, window_rows=1 if live else TABLE_WINDOW)


def write_one(view: View, fields: dict[str, Any]) -> None:
    """Write one object: a table of its fields, then a table for each list of records in it."""
    names = [name for name in (view.columns or fields) if name in fields]
    simple = [name for name in names if not is_section(fields[name])]
    pairs = [{"field": name, "value": cell_text(view.texts, name, fields[name])} for name in simple]
    _write(pairs, ("field", "value"), {})
    for name in names:
        value = fields[name]
        if not is_section(value):
            continue
        if pairs or name != names[0]:
            write_out("\n")
        write_out(f"**{escaped(heading(name))}**\n\n")
        if isinstance(value, dict):
            value = [{"key": key, "value": item} for key, item in value.items()]
        _write(value, (), view.texts)
    flush_out()


def _write(
    rows: Iterable[Mapping[str, Any]],
    columns: Sequence[str],
    texts: Texts,
    *,
    window_rows: int = TABLE_WINDOW,
) -> int:
    stream = iter(rows)
    count = 0
    draw: Callable[[list[dict[str, Any]]], Iterator[str]] | None = None
    while window := [dict(row) for row in islice(stream, window_rows)]:
        if draw is None:
            draw = _drawer(window, columns, texts)
            lines = draw(window)
        else:
            lines = islice(draw(window), HEAD_LINES, None)
        write_out("".join(line + "\n" for line in lines), flush=window_rows == 1)
        count += len(window)
    flush_out()
    return count


def _drawer(
    first: list[dict[str, Any]], columns: Sequence[str], texts: Texts
) -> Callable[[list[dict[str, Any]]], Iterator[str]]:
    """Return the function that draws a window; the first one decides columns and alignment."""
    names = list(columns) or all_fields(first)
    sides = [
        "right" if name not in texts and is_number_column(first, name) else "left" for name in names
    ]
    heads = [escaped(heading(name)) for name in names]

    def draw(window: list[dict[str, Any]]) -> Iterator[str]:
        cells = [[escaped(cell_text(texts, n, row.get(n))) for n in names] for row in window]
        text = tabulate(cells, heads, tablefmt="pipe", colalign=sides, disable_numparse=True)
        return iter(text.split("\n"))

    return draw
