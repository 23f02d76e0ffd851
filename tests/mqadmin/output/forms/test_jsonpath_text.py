"""Values selected by a JSONPath expression."""

from typing import Any

import pytest

from mqadmin.output.emit import emit, emit_one
from mqadmin.output.forms import jsonpath_text
from mqadmin.output.forms.jsonpath_text import Query
from mqadmin.output.view import ExpressionError, Outcome, View

Capture = pytest.CaptureFixture[str]

VIEW = View("demo.list", ("topic", "perm"))
ROWS: list[dict[str, Any]] = [
    {"topic": "orders", "perm": 6, "attributes": {"a": "x"}},
    {"topic": "bills\n\x1b[31m", "perm": 4, "attributes": None},
]


def selected(capsys: Capture, text: str) -> list[str]:
    query = Query(text)
    assert emit(VIEW, ROWS, form="jsonpath", query=query) == len(ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == query.matches
    return lines


def test_texts_are_plain_lines_and_other_values_are_json(capsys: Capture) -> None:
    assert selected(capsys, "$.items[*].topic") == ["orders", "bills\\n\\u001b[31m"]
    assert selected(capsys, "$.items[0]['perm', 'attributes']") == ["6", '{"a":"x"}']
    assert selected(capsys, "$.items[?@.perm > 4].topic") == ["orders"]


def test_the_document_is_that_of_json(capsys: Capture) -> None:
    assert selected(capsys, "$.schema") == ["mqadmin.demo.list/1"]
    assert selected(capsys, "$['truncated', 'errors']") == ["false", "[]"]
    query = Query("$.errors[*].kind")
    emit(VIEW, [], form="jsonpath", query=query, outcome=Outcome(errors=[{"kind": "timeout"}]))
    assert capsys.readouterr().out == "timeout\n"


def test_one_object_has_no_envelope(capsys: Capture) -> None:
    emit_one(VIEW, ROWS[0], form="jsonpath", query=Query("$['schema', 'perm']"))
    assert capsys.readouterr().out == "mqadmin.demo.list/1\n6\n"


@pytest.mark.parametrize(
    ("text", "position"),
    [("$.items[", 9), ("$.a b", 5), ("$.items[?@.a ==]", 16), ("$[?foo(@.a)]", 4), ("{.a}", 1)],
)
def test_an_error_names_its_position(text: str, position: int) -> None:
    with pytest.raises(ExpressionError, match=f"^position {position}: "):
        Query(text)


@pytest.mark.parametrize("text", ["", " ", "$[?" + "(" * 5000])
def test_an_expression_that_cannot_be_used_is_an_error(text: str) -> None:
    with pytest.raises(ExpressionError):
        Query(text)


def test_a_document_over_the_limit_prints_nothing(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonpath_text, "MAX_DOCUMENT_BYTES", 20)
    with pytest.raises(ExpressionError, match="MiB"):
        emit(VIEW, ROWS, form="jsonpath", query=Query("$"))
    assert capsys.readouterr().out == ""
