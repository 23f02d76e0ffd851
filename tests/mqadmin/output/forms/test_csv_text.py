"""CSV: a header always, one line per row, nested values as JSON."""

import csv
import io

import msgspec
import pytest

from mqadmin.output.forms.csv_text import write_one, write_rows
from mqadmin.output.view import Outcome, View

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
