"""Markdown tables: structure, alignment, escapes, and rows in windows of bounded size."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from mqadmin.output.emit import emit, emit_one
from mqadmin.output.forms import markdown
from mqadmin.output.view import View

Capture = pytest.CaptureFixture[str]

VIEW = View("demo.list", ("topic", "perm", "size"), texts={"perm": lambda bits: f"<{bits}>"})
ROWS: list[dict[str, Any]] = [
    {"topic": "orders", "perm": 6, "size": 12},
    {"topic": "payments|eu", "perm": 4, "size": None},
]


def cells(line: str) -> list[str]:
    """Split a line as a Markdown renderer does: at separators that are not escaped."""
    parts = re.split(r"(?<!\\)(?:\\\\)*\|", line)
    return [part.strip() for part in parts[1:-1]]


def test_rows_are_a_table_with_headings_and_numbers_to_the_right(capsys: Capture) -> None:
    assert emit(VIEW, ROWS, form="markdown") == 2
    lines = capsys.readouterr().out.splitlines()
    assert cells(lines[0]) == ["TOPIC", "PERM", "SIZE"]
    assert re.fullmatch(r"\|:-+\|:-+\|-+:\|", lines[1])
    assert cells(lines[2]) == ["orders", "\\<6>", "12"]
    assert cells(lines[3]) == ["payments\\|eu", "\\<4>", "-"]


def test_no_rows_write_nothing(capsys: Capture) -> None:
    assert emit(VIEW, [], form="markdown") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a|b", "a\\|b"),
        ("a\\", "a\\\\"),
        ("a\\|b", "a\\\\\\|b"),
        ("<script>", "\\<script>"),
        ("one\r\ntwo", "one<br>two"),
    ],
)
def test_a_text_cannot_end_its_cell_or_its_line(text: str, written: str) -> None:
    assert markdown.escaped(text) == written


def test_any_text_stays_in_one_cell(capsys: Capture) -> None:
    for text in ("|", "\\|", "\\\\|", "a\nb|c\\", "\\"):
        emit(View("demo.list"), [{"body": text, "next": "x"}], form="markdown")
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == 3
        assert len(cells(lines[2])) == 2, lines[2]
        assert cells(lines[2])[1] == "x"


def test_rows_beyond_a_window_continue_the_same_table(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markdown, "TABLE_WINDOW", 3)
    read = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal read
        for number in range(8):
            read += 1
            if read == 5:  # the first window was written before the second was complete
                assert "t2" in capsys.readouterr().out
            yield {"topic": f"t{number}", "perm": 6, "size": number}

    assert emit(VIEW, rows(), form="markdown") == 8
    rest = capsys.readouterr().out.splitlines()
    assert [cells(line)[0] for line in rest] == ["t3", "t4", "t5", "t6", "t7"]


def test_live_rows_are_written_when_they_arrive(capsys: Capture) -> None:
    def rows() -> Iterator[dict[str, Any]]:
        yield ROWS[0]
        assert "orders" in capsys.readouterr().out
        yield ROWS[1]

    emit(VIEW, rows(), form="markdown", live=True)
    assert capsys.readouterr().out.startswith("| payments\\|eu")


def test_one_object_is_a_table_of_its_fields_and_one_per_list(capsys: Capture) -> None:
    thing = {
        "topic": "orders",
        "storeTimestamp": 0,
        "properties": {"KEYS": "a|b"},
        "queues": [{"queueId": 0, "size": 7}, {"queueId": 1, "size": 12}],
    }
    emit_one(View("demo.show", single=True), thing, form="markdown")
    blocks = capsys.readouterr().out.split("\n\n")
    assert [cells(line) for line in blocks[0].splitlines()[2:]] == [
        ["topic", "orders"],
        ["storeTime", "1970-01-01T00:00:00.000Z"],
    ]
    assert blocks[1::2] == ["**PROPERTIES**", "**QUEUES**"]
    assert cells(blocks[2].splitlines()[2]) == ["KEYS", "a\\|b"]
    assert cells(blocks[4].splitlines()[3]) == ["1", "12"]
    assert blocks[4].splitlines()[1].count("-:|") == 2
