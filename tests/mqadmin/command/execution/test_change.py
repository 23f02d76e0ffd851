from typing import Any

import pytest

from mqadmin.command.execution.change import change_view, difference
from mqadmin.command.execution.rows import ChangeRow
from mqadmin.output.schema import view_schema


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ({"perm": 6, "order": False}, {"perm": 4, "order": False}, "perm 6 -> 4"),
        ({"a": 1, "b": 2}, {"a": 2, "b": 3}, "a 1 -> 2, b 2 -> 3"),
        ({"a": 1}, {"a": 1}, "-"),
        (None, {"a": 1, "b": None}, "a=1 b=-"),
        ({"a": 1}, None, "exists -> gone"),
        (None, None, "-"),
        ({}, {"a": {"k": "v"}}, "a - -> k=v"),
    ],
)
def test_a_difference_lists_only_changing_values(before: Any, after: Any, text: str) -> None:
    assert difference(before, after) == text


def test_changes_have_a_schema_with_before_after_and_read_back() -> None:
    item = view_schema(change_view("topic.perm"), ChangeRow)["properties"]["items"]["items"]
    assert {"before", "after", "readBack", "status"} <= set(item["properties"])
