"""Tables on a terminal: nothing is lost, columns keep their width, colour only if wanted."""

import pytest

from mqadmin.output.terminal import draw_on_terminal

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")


def draw(lines: list[list[str]], widths: list[int], right: list[bool], color: bool = False) -> None:
    draw_on_terminal(["NAME", "COUNT"], lines, widths, right, gap=2, color=color)


def test_a_long_cell_is_folded_within_its_column(capsys: Capture) -> None:
    draw([["x" * 25, "1"], ["y", "2"]], [10, 5], [False, True])
    lines = capsys.readouterr().out.splitlines()
    assert [line[:10].strip() for line in lines] == ["NAME", "x" * 10, "x" * 10, "x" * 5, "y"]
    assert [line[10:].strip() for line in lines] == ["COUNT", "1", "", "", "2"]


def test_numbers_are_aligned_to_the_right(capsys: Capture) -> None:
    draw([["a", "1"], ["b", "12345"]], [4, 5], [False, True])
    ends = [len(line.rstrip()) for line in capsys.readouterr().out.splitlines()]
    assert len(set(ends)) == 1


def test_text_is_never_markup(capsys: Capture) -> None:
    draw([["[red]x[/red]", ":smile:"]], [20, 10], [False, False])
    assert "[red]x[/red]" in capsys.readouterr().out


def test_without_colour_no_colour_code_is_written(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    draw([["a", "1"]], [4, 5], [False, True])
    assert "\x1b[3" not in capsys.readouterr().out
