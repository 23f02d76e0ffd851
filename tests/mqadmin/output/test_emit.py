import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from mqadmin.output.emit import emit, emit_one
from mqadmin.output.schema import view_schema
from mqadmin.output.table import TABLE_WINDOW
from mqadmin.output.view import Outcome, View


class Row(msgspec.Struct, rename="camel", kw_only=True):
    topic: str
    read_queue_nums: int | None = None
    store_timestamp: int | None = None
    note: str | None = None


VIEW = View("demo.list", ("topic", "readQueueNums", "note"))
ROWS = [Row(topic="a", read_queue_nums=4), Row(topic="longer", read_queue_nums=16)]

Capture = pytest.CaptureFixture[str]


def out(capsys: Capture) -> str:
    return capsys.readouterr().out


def test_a_table_aligns_and_keeps_its_columns_in_a_pipe(capsys: Capture) -> None:
    assert emit(VIEW, ROWS) == 2
    assert out(capsys) == (
        "TOPIC   READ-QUEUE-NUMS  NOTE\n"
        "a                     4  -\n"
        "longer               16  -\n"
    )  # fmt: skip


def test_a_kept_column_stays_on_a_terminal_with_a_dash(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqadmin.output.table.stdout_is_terminal", lambda: True)
    view = View("demo.list", ("topic", "note"), keep=("note",))
    emit(view, [Row(topic="a")], color=False)
    assert out(capsys).split() == ["TOPIC", "NOTE", "a", "-"]


def test_no_row_draws_nothing(capsys: Capture) -> None:
    assert emit(VIEW, []) == 0
    assert out(capsys) == ""


def test_no_cell_is_truncated_without_a_terminal(capsys: Capture) -> None:
    long = "x" * 5000
    emit(VIEW, [Row(topic=long)])
    assert long in out(capsys)


def test_rows_beyond_the_window_are_drawn_too(capsys: Capture) -> None:
    rows = (Row(topic=f"t{i}") for i in range(TABLE_WINDOW + 3))
    assert emit(VIEW, rows) == TABLE_WINDOW + 3
    text = out(capsys)
    assert text.count("\n") == TABLE_WINDOW + 4
    assert "NOTE" in text  # a later row might have filled it


def test_wide_shows_every_field_and_the_time_in_words(capsys: Capture) -> None:
    emit(VIEW, [Row(topic="a", store_timestamp=0)], form="wide")
    assert out(capsys).splitlines()[0].split() == ["TOPIC", "READ-QUEUE-NUMS", "STORE-TIME", "NOTE"]


def test_json_is_one_envelope_with_one_item_per_line(capsys: Capture) -> None:
    emit(VIEW, ROWS, form="json")
    text = out(capsys)
    assert json.loads(text) == {
        "schema": "mqadmin.demo.list/1",
        "items": [
            {
                "topic": row.topic,
                "readQueueNums": row.read_queue_nums,
                "storeTimestamp": None,
                "storeTime": None,
                "note": None,
            }
            for row in ROWS
        ],
        "truncated": False,
        "errors": [],
    }
    assert len(text.splitlines()) == 4


def test_an_empty_json_answer_is_whole(capsys: Capture) -> None:
    emit(VIEW, [], form="json")
    assert json.loads(out(capsys))["items"] == []


def test_json_names_truncation_and_errors(capsys: Capture) -> None:
    outcome = Outcome(truncated=True, errors=[{"kind": "unreachable"}])
    emit(VIEW, ROWS, form="json", outcome=outcome)
    document = json.loads(out(capsys))
    assert document["truncated"] is True
    assert document["errors"] == [{"kind": "unreachable"}]


def test_an_outcome_may_be_filled_by_the_rows_themselves(capsys: Capture) -> None:
    outcome = Outcome()

    def rows() -> Iterator[Row]:
        yield ROWS[0]
        outcome.truncated = True

    emit(VIEW, rows(), form="json", outcome=outcome)
    assert json.loads(out(capsys))["truncated"] is True


@pytest.mark.parametrize("before", [0, 1])
def test_json_stays_well_formed_when_the_rows_fail(capsys: Capture, before: int) -> None:
    def rows() -> Iterator[Row]:
        yield from ROWS[:before]
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        emit(VIEW, rows(), form="json")
    document = json.loads(out(capsys))
    assert len(document["items"]) == before
    assert document["truncated"] is True


def test_ndjson_is_one_item_per_line_without_envelope(capsys: Capture) -> None:
    emit(VIEW, ROWS, form="ndjson")
    assert [json.loads(line)["topic"] for line in out(capsys).splitlines()] == ["a", "longer"]


def test_live_rows_are_written_as_they_come(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def rows() -> Iterator[Row]:
        for row in ROWS:
            yield row
            seen.append(out(capsys))

    emit(VIEW, rows(), form="ndjson", live=True)
    assert [json.loads(text)["topic"] for text in seen] == ["a", "longer"]


def test_csv_quotes_and_keeps_nested_values_as_json(capsys: Capture) -> None:
    view = View("demo.list")
    emit(view, [{"a": 'say "x", y', "b": None, "c": {"k": 1}, "d": True}], form="csv")
    assert out(capsys) == 'a,b,c,d\n"say ""x"", y",,"{""k"":1}",true\n'


def test_yaml_is_the_same_document(capsys: Capture) -> None:
    import yaml

    emit(VIEW, ROWS, form="yaml")
    document = yaml.safe_load(out(capsys))
    assert document["schema"] == "mqadmin.demo.list/1"
    assert [item["topic"] for item in document["items"]] == ["a", "longer"]


def test_yaml_is_whole_when_rows_fail_or_are_none(capsys: Capture) -> None:
    import yaml

    def rows(count: int) -> Iterator[Row]:
        yield from ROWS[:count]
        raise OSError("gone")

    for count in (0, 1):
        with pytest.raises(OSError, match="gone"):
            emit(VIEW, rows(count), form="yaml")
        document = yaml.safe_load(out(capsys))
        assert (len(document["items"]), document["truncated"]) == (count, True)
    emit(VIEW, [], form="yaml")
    assert yaml.safe_load(out(capsys))["items"] == []


def test_one_thing_has_its_schema_beside_its_fields(capsys: Capture) -> None:
    emit_one(VIEW, ROWS[0], form="json")
    document = json.loads(out(capsys))
    assert document["schema"] == "mqadmin.demo.list/1"
    assert document["topic"] == "a"


def test_one_thing_is_drawn_as_lines_and_sections(capsys: Capture) -> None:
    thing = {
        "topic": "t",
        "none": None,
        "brokers": [{"name": "a", "id": 0}, {"name": "b", "id": 1}],
        "empty": [],
        "table": {"k": "v"},
    }
    emit_one(View("demo.show", single=True), thing)
    assert out(capsys) == (
        "topic  t\n"
        "none   -\n"
        "empty  -\n"
        "\n"
        "BROKERS\n"
        "NAME  ID\n"
        "a      0\n"
        "b      1\n"
        "\n"
        "TABLE\n"
        "  k  v\n"
    )  # fmt: skip


def test_64_bit_numbers_stay_numbers(capsys: Capture) -> None:
    emit(View("demo.list"), [{"offset": 2**63 - 1}], form="json")
    assert "9223372036854775807" in out(capsys)


def test_unpaired_surrogates_do_not_end_the_program(capsysbinary: Any) -> None:
    emit(View("demo.list"), [{"key": "a\udcffb"}])
    assert capsysbinary.readouterr().out == b"KEY\na\\udcffb\n"


def test_the_schema_describes_envelope_text_fields_and_nulls() -> None:
    schema = view_schema(View("demo.list"), Row)
    assert schema["required"] == ["schema", "items", "truncated", "errors"]
    item = schema["properties"]["items"]["items"]["properties"]
    assert list(item) == ["topic", "readQueueNums", "storeTimestamp", "storeTime", "note"]
    assert item["storeTime"]["type"] == ["string", "null"]


def test_an_unknown_form_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="xml"):
        emit(VIEW, [], form="xml")
