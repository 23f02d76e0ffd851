"""Tables: aligned text for pipes and files, rich on a terminal.

Tables in pipes are not drawn by tabulate, which draws those of ``-o markdown``: it needs all rows
before the first line, while these stream in bounded memory, and importing it takes 45 ms, which
would double the time of ``topic list``.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any
from unicodedata import east_asian_width

from mqadmin.output.stdio import stdout_is_terminal, terminal_columns, write_out
from mqadmin.output.values import ABSENT, cell, heading, quantity_text

FOLD_WIDTH = 24  # minimum width of a folded column on a terminal
WORD_WIDTH = 56  # a word up to this length is never folded: no message id is longer
COLUMN_GAP = 2  # blanks between columns

TABLE_WINDOW = 2_000  # rows read for widths and empty columns before the first line is written

# field → formatter of its value in a table; others by the unit in their name, or unchanged
Texts = Mapping[str, Callable[[Any], str]]
_NO_TEXTS: Texts = {}


def draw_rows(
    rows: Iterable[dict[str, Any]],
    columns: Sequence[str],
    *,
    keep: frozenset[str] = frozenset(),
    texts: Texts = _NO_TEXTS,
    color: bool = True,
    headers: bool = True,
) -> int:
    """Draw rows as a table and return their number; without ``headers`` the rows alone.

    ``columns`` empty means every field of the rows in the window. In a pipe or file the columns
    are fixed. On a terminal a column without a value is left out unless it is in ``keep``, or
    there are more rows than the window: a later row may have a value. No rows draw nothing: the
    caller reports that.
    """
    stream = iter(rows)
    window = list(islice(stream, TABLE_WINDOW))
    if not window:
        return 0
    # read one row more than the window: only a complete table can drop columns and be folded
    following = next(stream, None)
    complete = following is None
    names = list(columns) or all_fields(window)
    is_terminal = stdout_is_terminal()
    if complete and is_terminal:
        names = [n for n in names if n in keep or any(_filled(row.get(n)) for row in window)]
        names = names or list(columns)[:1] or all_fields(window)[:1]
    right = [name not in texts and is_number_column(window, name) for name in names]
    lines = [[cell_text(texts, name, row.get(name)) for name in names] for row in window]
    heads = [heading(name) for name in names]
    widths = [
        max(_width(head), *(_width(line[i]) for line in lines)) for i, head in enumerate(heads)
    ]
    fitting = _fitting_widths(lines, widths) if is_terminal and complete and headers else None
    if fitting is not None:
        from mqadmin.output.terminal import draw_on_terminal

        draw_on_terminal(heads, lines, fitting, right, gap=COLUMN_GAP, color=color)
        return len(window)
    if headers:
        write_out(_line(heads, widths, right))
    write_out("".join(_line(line, widths, right) for line in lines))
    count = len(window)
    rest: Iterator[dict[str, Any]] = iter(()) if complete else chain((following,), stream)  # type: ignore[arg-type]
    for row in rest:
        write_out(_line([cell_text(texts, n, row.get(n)) for n in names], widths, right))
        count += 1
    return count


def cell_text(texts: Texts, name: str, value: Any) -> str:
    """Return the text of one cell: by the formatter or the unit of its field, else :func:`cell`."""
    if value is not None and name in texts:
        return texts[name](value)
    if type(value) in (int, float):
        formatter = quantity_text(name)
        if formatter is not None:
            return formatter(value)
    return cell(value)


def draw_one(
    thing: dict[str, Any],
    columns: Sequence[str],
    *,
    texts: Texts = _NO_TEXTS,
    color: bool = True,
) -> None:
    """Draw one object: a line per field, then a table for each list of records in it."""
    names = [name for name in (columns or thing) if name in thing]
    simple = [name for name in names if not is_section(thing[name])]
    shown = simple
    if stdout_is_terminal():
        shown = [name for name in simple if _filled(thing[name])] or simple
    width = max((len(name) for name in shown), default=0)
    for name in shown:
        write_out(f"{name:<{width}}  {cell_text(texts, name, thing[name])}\n")
    for name in names:
        value = thing[name]
        if not is_section(value):
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


def is_section(value: Any) -> bool:
    """Return whether a value is drawn as a separate table: a mapping or a list of records."""
    if isinstance(value, dict):
        return bool(value)
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def all_fields(rows: list[dict[str, Any]]) -> list[str]:
    """Return the fields of all rows in order of appearance, without epoch copies of times."""
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row))
    # …Time shows the same value in readable form
    return [n for n in names if not (n.endswith("Timestamp") and n[:-9] + "Time" in names)]


def _filled(value: Any) -> bool:
    return value is not None and value != "" and value != [] and value != {}


def is_number_column(rows: list[dict[str, Any]], name: str) -> bool:
    """Return whether every value of a column is a number: such columns are right-aligned."""
    values = [value for row in rows if (value := row.get(name)) is not None]
    return bool(values) and all(type(value) in (int, float) for value in values)


def _width(text: str) -> int:
    if text.isascii():
        return len(text)

    return sum(2 if east_asian_width(c) in "WF" else 1 for c in text)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    parts = []
    for text, width, is_right in zip(cells, widths, right, strict=True):
        gap = " " * (width - _width(text))
        parts.append(gap + text if is_right else text + gap)
    return (" " * COLUMN_GAP).join(parts).rstrip() + "\n"


def _fitting_widths(lines: list[list[str]], widths: list[int]) -> list[int] | None:
    """Return column widths that fit the terminal, None when folding is not sufficient.

    Text is folded, the widest column first and none below FOLD_WIDTH. A word not longer than a
    message id is not folded: a folded id cannot be copied.
    """
    over = sum(widths) + COLUMN_GAP * (len(widths) - 1) - terminal_columns()
    if over <= 0:
        return widths
    least = [min(width, FOLD_WIDTH) for width in widths]
    for line in lines:
        for number, text in enumerate(line):
            if _width(text) <= WORD_WIDTH and " " not in text:
                least[number] = max(least[number], _width(text))
    fitting = list(widths)
    while over > 0:
        widest = max(range(len(fitting)), key=lambda n: fitting[n] if fitting[n] > least[n] else -1)
        if fitting[widest] <= least[widest]:
            return None
        # Narrow to the next widest column in one step, so that wide columns share the loss.
        others = [w for n, w in enumerate(fitting) if w < fitting[widest] and w > least[n]]
        step = fitting[widest] - max([least[widest], *others])
        step = min(step, over) or 1
        fitting[widest] -= step
        over -= step
    return fitting
