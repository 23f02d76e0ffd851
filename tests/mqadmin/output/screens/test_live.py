"""The live screen: keys, order, size; on a terminal it is drawn, and restored."""

import io
import os
import pty
import select
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from rich.console import Console

from mqadmin.output.screens.live import Screen, drawing, has_terminal
from mqadmin.output.values import rate_text

PROGRAM = """
from mqadmin.output.screens.live import Screen, show
screen = Screen(("name", "rate"), "rate", {})
show(screen, lambda: "TITLE", lambda: ([{"name": "row-1", "rate": 5}], "problem"),
     interval_s=0.1, color=False)
print("END")
"""


class Row(msgspec.Struct):
    name: str
    rate: float | None
    state: str = "ok"


@pytest.fixture
def screen() -> Screen:
    made = Screen(("name", "rate"), "rate", {"rate": rate_text})
    made.take([Row("a", 1), Row("b", None), Row("c", 3, "down")])
    return made


def names(screen: Screen) -> list[str]:
    return [row["name"] for row in screen.sorted_rows()]


def test_keys_sort_reverse_freeze_and_quit(screen: Screen) -> None:
    assert names(screen) == ["c", "a", "b"]
    screen.press("r")
    assert names(screen) == ["a", "c", "b"]
    screen.press("s")
    assert (screen.sort, names(screen)) == ("name", ["a", "b", "c"])
    screen.press("f")
    screen.take([Row("d", 1)])
    assert (names(screen), "FROZEN" in screen.status) == (["a", "b", "c"], True)
    screen.press("f")
    screen.take([Row("d", 1)])
    assert names(screen) == ["d"]
    screen.press("x")
    assert not screen.ended
    screen.press("q")
    assert screen.ended


def test_values_are_formatted_and_unknown_ones_are_a_dash(screen: Screen) -> None:
    assert list(screen.cells()) == [
        (["c", "3.0/s"], "bold red"),
        (["a", "1.0/s"], ""),
        (["b", "-"], ""),
    ]


def test_rows_that_do_not_fit_are_counted() -> None:
    screen = Screen(("name",), "name", {})
    screen.take([Row(str(number), 1) for number in range(50)], "one failed")
    console = Console(width=60, file=io.StringIO(), record=True)
    console.print(drawing(screen, "TITLE", 14))
    lines = console.export_text().splitlines()
    assert (lines[0], len(lines)) == ("TITLE   40 more rows", 14)
    assert lines[-2] == "one failed"


def test_a_test_run_has_no_terminal() -> None:
    assert not has_terminal() or sys.stdin.isatty()


def read_until(descriptor: int, text: str) -> str:
    got = ""
    while text not in got:
        assert select.select([descriptor], [], [], 30)[0], got
        got += os.read(descriptor, 65_536).decode("utf-8", "replace")
    return got


def test_a_screen_is_drawn_on_a_terminal_and_q_ends_it() -> None:
    ours, theirs = pty.openpty()
    environ: dict[str, Any] = {**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "20"}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=theirs, stdout=theirs, stderr=theirs, env=environ
    ) as child:
        os.close(theirs)
        assert "TITLE" in read_until(ours, "row-1")
        os.write(ours, b"q")
        read_until(ours, "END")
        assert child.wait(30) == 0
    os.close(ours)
