"""CSV: a header always, one line per row, nested values as JSON."""

import csv
import io

import msgspec
import pytest

from mqadmin.output.forms.csv_text import write_cells, write_one, write_rows
from mqadmin.output.view import Outcome, View
from mqadmin.safe_text import csv_cell

Capture = pytest.CaptureFixture[str]


class Row(msgspec.Struct, rename="camel"):
    topic: str
    store_timestamp: int


def table(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text)))


def test_a_row_is_one_line_and_nested_values_are_json(capsys: Capture) -> None:
    rows = iter([{"topic": "a,b", "keys": ["k"]}, {"topic": "c", "keys": []}])
    assert write_rows(View("demo.list"), rows, Outcome(), False, None) == 2
    assert table(capsys.readouterr().out) == [["topic", "keys"], ["a,b", '["k"]'], ["c", "[]"]]


def test_a_file_without_rows_has_the_header_of_its_row_type(capsys: Capture) -> None:
    assert write_rows(View("demo.list"), iter(()), Outcome(), False, Row) == 0
    assert table(capsys.readouterr().out) == [["topic", "storeTimestamp", "storeTime"]]


def test_one_object_is_a_file_of_one_row(capsys: Capture) -> None:
    write_one(View("demo.show", single=True), {"topic": "orders", "size": 1})
    assert table(capsys.readouterr().out) == [["topic", "size"], ["orders", "1"]]


def test_the_wide_columns_of_a_view_are_its_header_and_order(capsys: Capture) -> None:
    view = View("demo.list", ("topic",), wide=("size", "topic"))
    write_rows(view, iter([{"topic": "a", "size": 1, "more": 2}]), Outcome(), False, None)
    assert table(capsys.readouterr().out) == [["size", "topic"], ["1", "a"]]


def test_the_columns_are_those_of_the_first_row(capsys: Capture) -> None:
    rows = iter([{"a": 1, "b": 2}, {"b": 3, "c": 4}, {}])
    write_rows(View("demo.list"), rows, Outcome(), False, None)
    assert table(capsys.readouterr().out) == [["a", "b"], ["1", "2"], ["", "3"], ["", ""]]


def test_without_rows_and_row_type_the_columns_of_the_view_are_the_header(capsys: Capture) -> None:
    write_rows(View("demo.list", ("topic", "size")), iter(()), Outcome(), False, None)
    assert table(capsys.readouterr().out) == [["topic", "size"]]
    view = View("demo.list", ("topic",), wide=("topic", "perm"))
    write_rows(view, iter(()), Outcome(), False, Row)
    assert table(capsys.readouterr().out) == [["topic", "perm"]]


def test_cells_have_no_header(capsys: Capture) -> None:
    rows = iter([{"a": 1, "b": "x,y"}, {"c": None}])
    assert write_cells(View("demo.list"), rows, Outcome(), False, None) == 2
    assert table(capsys.readouterr().out) == [["1", "x,y"], [""]]
    assert write_cells(View("demo.list"), iter(()), Outcome(), False, None) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("text", ['a"b', "a\nb", "a,b", " a ", "", "ü", "a\r\nb"])
def test_any_text_is_read_back_from_its_cell(capsys: Capture, text: str) -> None:
    write_rows(View("demo.list"), iter([{"a": text, "b": "end"}]), Outcome(), False, None)
    (_, row) = table(capsys.readouterr().out)
    assert row == [csv_cell(text), "end"]
