"""Lists with other fields and another order."""

import pytest

from mqadmin.output.emit import UnknownFieldError, arranged, chosen, field_of
from mqadmin.output.view import Arrangement

ROWS = [
    {"brokerName": "b", "lag": 2},
    {"brokerName": "a", "lag": None},
    {"brokerName": "c", "lag": 10},
]


@pytest.mark.parametrize(
    ("sort", "descending", "order"),
    [
        ("lag", False, "bca"),
        ("lag", True, "cba"),
        ("BROKER-NAME", False, "abc"),
        ("brokername", True, "cba"),
        ("", False, "bac"),
    ],
)
def test_rows_are_sorted_and_those_without_a_value_are_last(
    sort: str, descending: bool, order: str
) -> None:
    rows, _ = arranged(iter(ROWS), Arrangement(sort=sort, descending=descending))
    assert "".join(row["brokerName"] for row in rows) == order


def test_columns_are_fields_or_headings_in_the_wanted_order() -> None:
    rows, names = arranged(iter(ROWS), Arrangement(columns=["LAG", "brokerName"]))
    assert names == ["lag", "brokerName"]
    assert next(chosen(rows, names)) == {"lag": 2, "brokerName": "b"}


@pytest.mark.parametrize("name", ["lagSeconds", "LAG-SECONDS", "lagseconds", "LAG-TIME"])
def test_a_heading_may_have_the_unit_of_its_field(name: str) -> None:
    assert field_of({"lag": 3, "lagSeconds": 1.5}, name) == "lagSeconds"


def test_a_field_that_does_not_exist_is_refused_and_the_others_are_named() -> None:
    with pytest.raises(UnknownFieldError, match=r"'nosuch'.*brokerName, lag"):
        field_of(ROWS[0], "nosuch")
    assert list(arranged(iter(()), Arrangement(sort="nosuch"))[0]) == []


def test_values_of_different_types_have_an_order() -> None:
    rows = [{"v": "x"}, {"v": 3}, {"v": [1]}, {"v": 1.5}]
    found, _ = arranged(iter(rows), Arrangement(sort="v"))
    assert [row["v"] for row in found] == [1.5, 3, [1], "x"]
