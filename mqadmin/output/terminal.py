"""Tables on a terminal, drawn by rich; imported only when stdout is a terminal."""

from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text


def draw_on_terminal(
    heads: list[str],
    lines: list[list[str]],
    widths: list[int],
    right: list[bool],
    *,
    gap: int,
    color: bool,
) -> None:
    """Draw on a terminal, where long cells are folded within their column."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, gap, 0, 0))
    for head, width, is_right in zip(heads, widths, right, strict=True):
        justify: Literal["left", "right"] = "right" if is_right else "left"
        table.add_column(head, justify=justify, overflow="fold", width=width)
    for line in lines:
        table.add_row(*(Text(text) for text in line))
    Console(no_color=not color, highlight=False).print(table)
