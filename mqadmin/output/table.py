"""Tables: aligned text for pipes and files, rich on a terminal."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

from mqadmin.output.stdio import stdout_is_terminal, terminal_columns, write_out
from mqadmin.output.values import ABSENT, cell, heading

FOLD_WIDTH = 24  # on a terminal no column is folded to less than this

TABLE_WINDOW = 2_000  # rows looked at for widths and empty columns before the first line is written

# field -> how a person reads its value; the other fields are shown as they are
Texts = Mapping[str, Callable[[Any], str]]
_NO_TEXTS: Texts = {}


def draw_rows(
    rows: Iterable[dict[str, Any]],
    columns: Sequence[str],
    *,
    keep: frozenset[str] = frozenset(),
    texts: Texts = _NO_TEXTS,
    color: bool = True,
) -> int:
    """Draw rows as a table and return how many there were.

    ``columns`` empty means every field of the first row. A column that no row fills is left out
    unless it is in ``keep``; when there are more rows than the window no column is left out,
    for a later row may fill it. No row at all draws nothing: the caller says so in words.
    """
    stream = iter(rows)
    window = list(islice(stream, TABLE_WINDOW))
    if not window:
        return 0
    following = next(stream, None)
    complete = following is None
    names = list(columns) or _all_fields(window)
    if complete:
        names = [n for n in names if n in keep or any(_filled(row.get(n)) for row in window)]
        names = names or list(columns)[:1] or _all_fields(window)[:1]
    right = [name not in texts and _is_number_column(window, name) for name in names]
    lines = [[_text(texts, name, row.get(name)) for name in names] for row in window]
    heads = [heading(name) for name in names]
    widths = [
        max(_width(head), *(_width(line[i]) for line in lines)) for i, head in enumerate(heads)
    ]
    if stdout_is_terminal() and complete and _can_fold(widths):
        _draw_rich(heads, lines, widths, right, color=color)
        return len(window)
    write_out(_line(heads, widths, right))
    write_out("".join(_line(line, widths, right) for line in lines))
    count = len(window)
    rest: Iterator[dict[str, Any]] = iter(()) if complete else chain((following,), stream)  # type: ignore[arg-type]
    for row in rest:
        write_out(_line([_text(texts, n, row.get(n)) for n in names], widths, right))
        count += 1
    return count


def _text(texts: Texts, name: str, value: Any) -> str:
    if value is not None and name in texts:
        return texts[name](value)
    return cell(value)


def draw_thing(
    thing: dict[str, Any],
    columns: Sequence[str],
    *,
    texts: Texts = _NO_TEXTS,
    color: bool = True,
) -> None:
    """Draw one thing: a line per field, then a table for each list of records in it."""
    names = [name for name in (columns or thing) if name in thing]
    simple = [name for name in names if not _is_section(thing[name])]
    shown = [name for name in simple if _filled(thing[name])] or simple
    width = max((len(name) for name in shown), default=0)
    for name in shown:
        write_out(f"{name:<{width}}  {_text(texts, name, thing[name])}\n")
    for name in names:
        value = thing[name]
        if not _is_section(value):
            continue
        if shown or name != names[0]:
            write_out("\n")
        write_out(f"{heading(name)}\n")
        if isinstance(value, dict):
            inner = max((_width(cell(key)) for key in value), default=0)
            for key, item in value.items():
                text = cell(key)
                write_out(f"  {text}{' ' * (inner - _width(text))}  {cell(item)}\n")
        elif not draw_rows(value, (), texts=texts, color=color):
            write_out(f"{ABSENT}\n")


def _is_section(value: Any) -> bool:
    if isinstance(value, dict):
        return bool(value)
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _all_fields(rows: list[dict[str, Any]]) -> list[str]:
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    # the twin says the same in words a person reads
    return [n for n in names if not (n.endswith("Timestamp") and n[:-9] + "Time" in names)]


def _filled(value: Any) -> bool:
    return value is not None and value != "" and value != [] and value != {}


def _is_number_column(rows: list[dict[str, Any]], name: str) -> bool:
    values = [value for row in rows if (value := row.get(name)) is not None]
    return bool(values) and all(type(value) in (int, float) for value in values)


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    from unicodedata import east_asian_width

    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = []
    for text, width, is_right in zip(cells, widths, right, strict=True):
        gap = " " * (width - _width(text))
        parts.append(gap + text if is_right else text + gap)
    return "  ".join(parts).rstrip() + "\n"


def _can_fold(widths: list[int]) -> bool:
    """Whether the table fits the terminal when its wide columns fold; else lines run on."""
    least = sum(min(width, FOLD_WIDTH) for width in widths) + 2 * len(widths)
    return least <= terminal_columns()


def _draw_rich(
    heads: list[str],
    lines: list[list[str]],
    widths: list[int],
    right: list[bool],
    *,
    color: bool,
) -> None:
    """Draw on a terminal, where long cells fold instead of breaking the columns."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for head, width, is_right in zip(heads, widths, right, strict=True):
        table.add_column(
            head,
            justify="right" if is_right else "left",
            overflow="fold",
            min_width=min(width, FOLD_WIDTH),
        )
    for line in lines:
        table.add_row(*(Text(text) for text in line))
    Console(no_color=not color, highlight=False).print(table)
