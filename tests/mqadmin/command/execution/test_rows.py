"""Rows that commands build themselves have the names of JSON and every field in every row."""

import msgspec
import pytest

from mqadmin.command.execution import rows

TYPES = [one for one in vars(rows).values() if isinstance(one, type)]
ROWS = [one for one in TYPES if one.__module__ == rows.__name__]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.__name__)
def test_no_field_of_a_row_has_a_default(row: type[msgspec.Struct]) -> None:
    """A field that may be omitted would be missing in one row and present in another."""
    required = [field.name for field in msgspec.structs.fields(row) if field.required]
    assert tuple(required) == row.__struct_fields__
    assert row.__doc__


def test_names_are_those_of_json() -> None:
    row = rows.ChangeRow(
        target="t", address="a", action="create", before=None, after={"perm": 6},
        read_back=None, status="planned", note=None,
    )  # fmt: skip
    assert list(msgspec.to_builtins(row)) == [
        "target", "address", "action", "before", "after", "readBack", "status", "note"
    ]  # fmt: skip
