"""Values from messages never drive a terminal or a spreadsheet."""

import csv
import io
import json
from typing import Any

import pytest

from mqadmin.output.emit import emit, emit_one
from mqadmin.output.errors import ErrorReport, emit_error
from mqadmin.output.view import View
from mqadmin.safe_text import csv_cell, json_text, one_line

HOSTILE = "a\x1b[31m\x9b31m\u202eb\x00\r\n\u2066\x7f"
Capture = pytest.CaptureFixture[str]


def is_safe(line: str) -> bool:
    return not any(ord(c) < 32 or 127 <= ord(c) < 160 or c in "\u202e\u2066" for c in line)


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd", "'+cmd"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\\t=1"),
        ("\r=1", "'\\r=1"),
        ("＝1+1", "'＝1+1"),
        ("-5", "-5"),
        ("-1.5e3", "-1.5e3"),
        ("+7", "+7"),
        (-5, -5),
        (-0.5, -0.5),
        (True, "true"),
        (None, ""),
        ("a=b", "a=b"),
        ("订单", "订单"),
        ({"k": "\x9b"}, '{"k":"\\u009b"}'),
    ],
)
def test_a_csv_cell_is_never_a_formula_and_a_number_stays_a_number(value: Any, cell: Any) -> None:
    assert csv_cell(value) == cell
    assert type(csv_cell(value)) is type(cell)


@pytest.mark.parametrize(
    "value", [HOSTILE, "\ud800", "订单 \U0001f600", {"k": [HOSTILE, None, -1]}]
)
def test_json_escapes_terminal_controls_and_keeps_the_value(value: Any) -> None:
    text = json_text(value)
    assert is_safe(text)
    assert json.loads(text) == value
    assert text.encode()


@pytest.mark.parametrize("form", ["table", "wide", "json", "ndjson", "yaml", "csv", "markdown"])
def test_no_form_prints_control_or_bidi_characters(capsys: Capture, form: str) -> None:
    view = View("demo.list")
    row = {"body": HOSTILE, "properties": {HOSTILE: HOSTILE}, "keys": [HOSTILE]}
    emit(view, [row], form=form)
    emit_one(view, row, form=form)
    assert all(is_safe(line) for line in capsys.readouterr().out.split("\n"))


def test_an_indented_document_is_escaped_too(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("mqadmin.output.emit.stdout_is_terminal", lambda: True)
    emit_one(View("demo.show", single=True), {"body": HOSTILE}, form="json")
    out = capsys.readouterr().out
    assert all(is_safe(line) for line in out.split("\n"))
    assert json.loads(out)["body"] == HOSTILE


@pytest.mark.parametrize("form", ["table", "json"])
def test_an_error_names_a_hostile_path_safely(capsys: Capture, form: str) -> None:
    emit_error(ErrorReport("store", f"no {HOSTILE}", path="/tmp/\udcff\x9b"), form=form)
    err = capsys.readouterr().err
    assert all(is_safe(line) for line in err.split("\n"))
    assert err.encode()


def test_rows_of_a_csv_are_lines(capsys: Capture) -> None:
    emit(View("demo.list"), [{"a": "x\ny", "b": "=1"}], form="csv")
    out = capsys.readouterr().out
    assert list(csv.reader(io.StringIO(out))) == [["a", "b"], ["x\\ny", "'=1"]]
    assert out.count("\n") == 2


def test_one_line_has_no_control_characters() -> None:
    assert one_line("a\n\x1b[31mé") == "a\\n\\u001b[31mé"
