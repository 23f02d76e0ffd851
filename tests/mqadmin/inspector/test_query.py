"""Queries: frozen values; the default selects every row."""

import pytest

from mqadmin.inspector.query import ALL_ROWS, Query


def test_the_default_selects_every_row_without_bodies() -> None:
    assert Query() == ALL_ROWS
    assert (ALL_ROWS.topic, ALL_ROWS.key, ALL_ROWS.begin_ms, ALL_ROWS.body) == (
        None,
        None,
        None,
        "none",
    )


def test_a_query_does_not_change() -> None:
    with pytest.raises(AttributeError):
        ALL_ROWS.topic = "orders"  # type: ignore[misc]
