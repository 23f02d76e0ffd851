"""Inspection rows: field names of RocketMQ in camelCase, values that cannot change."""

import msgspec
import pytest

from mqadmin.inspector import rows
from mqadmin.inspector.rows import DamageRow, IndexRow, QueueUnitRow

CLASSES = [
    value
    for value in vars(rows).values()
    if isinstance(value, type) and issubclass(value, msgspec.Struct)
]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_names_in_json_are_camel_case_without_underscores(cls) -> None:
    for name, wire in zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True):
        first, *rest = name.split("_")
        assert wire == first + "".join(word.capitalize() for word in rest)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_rows_are_values_that_cannot_change(cls) -> None:
    assert cls.__struct_config__.frozen


def test_absent_values_are_null_and_not_left_out() -> None:
    row = DamageRow(
        kind="gap",
        severity="error",
        path="/s",
        physical_offset=None,
        length=None,
        detail="",
        suggestion="",
    )
    assert msgspec.json.decode(msgspec.json.encode(row))["physicalOffset"] is None


def test_fields_of_the_other_record_are_null() -> None:
    row = msgspec.to_builtins(IndexRow(record="entry", path="/s", entry=1))
    assert row["beginTimestamp"] is None
    unit = QueueUnitRow(
        topic="T",
        queue_id=0,
        queue_offset=1,
        physical_offset=2,
        store_size=3,
        tags_code=4,
        path="/s",
    )
    assert unit.batch_size is None
