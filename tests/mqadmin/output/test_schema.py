"""``-o schema``: one document per command, definitions at its root."""

import json

import msgspec
import pytest

from mqadmin.output.schema import emit_schema, view_schema
from mqadmin.output.view import View


class Inner(msgspec.Struct, rename="camel"):
    last_timestamp: int | None


class Row(msgspec.Struct, rename="camel"):
    topic: str
    inner: list[Inner]


LIST = View("demo.list")
ONE = View("demo.show", single=True)


def test_one_object_has_its_fields_and_the_schema_name() -> None:
    schema = view_schema(ONE, Row)
    assert schema["properties"]["schema"] == {"const": "mqadmin.demo.show/1"}
    assert schema["required"] == ["schema", "topic", "inner"]


def test_a_time_field_is_added_to_nested_records_too() -> None:
    inner = view_schema(LIST, Row)["$defs"]["Inner"]["properties"]
    assert list(inner) == ["lastTimestamp", "lastTime"]


def test_several_outputs_share_the_definitions_of_the_document(
    capsys: pytest.CaptureFixture[str],
) -> None:
    emit_schema([(LIST, Row), (ONE, Row)])
    document = json.loads(capsys.readouterr().out)
    assert [one["title"] for one in document["anyOf"]] == [
        "mqadmin.demo.list/1",
        "mqadmin.demo.show/1",
    ]
    assert list(document["$defs"]) == ["Inner"]
