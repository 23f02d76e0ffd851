"""A live screen: a table that is drawn again and again, and keys that sort, freeze and quit it.

:class:`Screen` decides; it draws nothing and reads no key, so that tests need no terminal.
:func:`show` runs it on a terminal with rich. The measurement runs in a thread: a peer that hangs
must not keep the keys from working.
"""

import os
import select
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mqadmin.output.stdio import stdin_is_terminal, stdout_is_terminal
from mqadmin.output.table import cell_text
from mqadmin.output.values import heading, plain
from mqadmin.output.view import Arrangement

HELP = "q quit   s sort by the next column   r reverse   f freeze"
_STYLES = {"down": "bold red", "full": "red", "slow": "yellow"}
_KEY_WAIT_S = 0.1


class Screen:
    """Rows, the column they are sorted by, and whether the screen is frozen."""

    def __init__(self, columns: Sequence[str], sort: str, texts: Mapping[str, Any]) -> None:
        self.columns = tuple(columns)
        self.sort = sort
        self.reverse = True
        self.frozen = False
        self.ended = False
        self.texts = texts
        self.rows: list[dict[str, Any]] = []
        self.problem = ""

    def arrange(self, arrangement: Arrangement) -> None:
        """Take columns and order; a name that is not a column is left out."""
        fields = {heading(name): name for name in self.columns} | {n: n for n in self.columns}
        chosen = [fields[name] for name in arrangement.columns if name in fields]
        self.columns = tuple(chosen) or self.columns
        if arrangement.sort in fields:
            self.sort = fields[arrangement.sort]
            self.reverse = arrangement.descending
        if self.sort not in self.columns:
            self.sort = self.columns[0]

    def press(self, key: str) -> None:
        """React to one key; another key than those of HELP has no effect."""
        if key in ("q", "\x03", "\x04"):
            self.ended = True
        elif key in ("f", " "):
            self.frozen = not self.frozen
        elif key == "r":
            self.reverse = not self.reverse
        elif key == "s":
            place = self.columns.index(self.sort)
            self.sort = self.columns[(place + 1) % len(self.columns)]

    def take(self, rows: Sequence[Any], problem: str = "") -> None:
        """Show the rows of a measurement and why it is incomplete, unless frozen."""
        if not self.frozen:
            self.rows = [plain(row) for row in rows]
            self.problem = problem

    def sorted_rows(self) -> list[dict[str, Any]]:
        """Return the rows in order; rows without a value of the column are last."""
        known = [row for row in self.rows if row.get(self.sort) is not None]
        rest = [row for row in self.rows if row.get(self.sort) is None]
        return [*sorted(known, key=lambda row: row[self.sort], reverse=self.reverse), *rest]

    def cells(self) -> Iterator[tuple[list[str], str]]:
        """Yield the texts and the style of each row."""
        for row in self.sorted_rows():
            words = [cell_text(self.texts, name, row.get(name)) for name in self.columns]
            yield words, _STYLES.get(str(row.get("state")), "")

    @property
    def status(self) -> str:
        """The line below the table."""
        order = "descending" if self.reverse else "ascending"
        state = "   FROZEN" if self.frozen else ""
        return f"sorted by {heading(self.sort)}, {order}{state}   {HELP}"


def drawing(screen: Screen, title: str, height: int) -> Group:
    """Return the screen for rich, at most ``height`` lines."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in screen.columns:
        mark = "*" if name == screen.sort else ""
        table.add_column(heading(name) + mark, no_wrap=True, justify="left")
    lines = list(screen.cells())
    space = max(1, height - 4)
    for words, style in lines[:space]:
        table.add_row(*(Text(word) for word in words), style=style)
    more = f"   {len(lines) - space} more rows" if len(lines) > space else ""
    parts: list[Text | Table] = [Text(f"{title}{more}", style="bold"), table]
    if screen.problem:
        parts.append(Text(screen.problem, style="red", overflow="ellipsis", no_wrap=True))
    parts.append(Text(screen.status, style="dim", overflow="ellipsis", no_wrap=True))
    return Group(*parts)


def has_terminal() -> bool:
    """Return whether a live screen can be shown and keys can be read."""
    return stdout_is_terminal() and stdin_is_terminal()


def show(
    screen: Screen,
    title: Callable[[], str],
    measure: Callable[[], tuple[Sequence[Any], str]],
    *,
    interval_s: float,
    color: bool,
) -> None:
    """Measure, draw and read keys until the user quits; requires a terminal."""
    console = Console(no_color=not color, highlight=False)
    waited = interval_s
    task: Future[tuple[Sequence[Any], str]] | None = None
    with (
        ThreadPoolExecutor(1, thread_name_prefix="measure") as pool,
        _keys() as keys,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        while not screen.ended:
            if task is None and waited >= interval_s and not screen.frozen:
                task, waited = pool.submit(measure), 0.0
            if task is not None and task.done():
                screen.take(*task.result())
                task = None
            live.update(drawing(screen, title(), console.size.height), refresh=True)
            for key in keys():
                screen.press(key)
            waited += _KEY_WAIT_S


@contextmanager
def _keys() -> Iterator[Callable[[], str]]:
    """Read single keys without echo; the terminal is restored at the end."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def read() -> str:
        ready, _, _ = select.select([descriptor], [], [], _KEY_WAIT_S)
        if not ready:
            return ""
        # an end of file ends the screen: the terminal has gone
        return os.read(descriptor, 64).decode("utf-8", "replace") or "\x04"

    tty.setcbreak(descriptor)
    try:
        yield read
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
