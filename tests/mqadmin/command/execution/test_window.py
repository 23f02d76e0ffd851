"""The window of a search: two options or one word, printed back with its zone."""

from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]

FORMS = (
    ("--begin", "2026-01-02T03:04:00Z", "--end", "2026-01-02T04:04:00Z"),
    ("--time", "2026-01-02T03:04:00Z..2026-01-02T04:04:00Z"),
    ("--time=1767323040..1767326640000",),
)
BEGIN_MS, END_MS = 1_767_323_040_000, 1_767_326_640_000


@pytest.mark.parametrize("words", FORMS)
def test_all_forms_name_the_same_window(mqadmin: Run, admin: Any, words: tuple[str, ...]) -> None:
    admin.answers["message.query_key"] = KeyboardInterrupt()
    done = mqadmin("msg", "query", "--topic", "t", "--key", "k", *words)
    asked = admin.calls[0][2]
    assert (asked["begin_ms"], asked["end_ms"]) == (BEGIN_MS, END_MS)
    assert done.err.splitlines()[0].startswith("stored from 2026-01-0")


@pytest.mark.parametrize(
    ("text", "begin", "end"), [("..1767326640", 0, END_MS), ("1767323040..", BEGIN_MS, None)]
)
def test_either_side_of_a_range_may_be_open(
    mqadmin: Run, admin: Any, text: str, begin: int, end: int | None
) -> None:
    admin.answers["message.query_key"] = KeyboardInterrupt()
    mqadmin("msg", "query", "--topic", "t", "--key", "k", "--time", text)
    asked = admin.calls[0][2]
    assert (asked["begin_ms"], asked["end_ms"]) == (begin, end)


@pytest.mark.parametrize(
    "words",
    [
        ("--begin", "-1h", "--end", "-2h"),
        ("--time=-1h..-2h",),
        ("--time", ".."),
        ("--time", "now"),
        ("--time", "x..y"),
        ("--time=-1h..", "--begin", "-2h"),
        ("--time=-1h..", "--all-time"),
    ],
)
def test_a_window_that_is_none_is_a_usage_error(
    mqadmin: Run, admin: Any, words: tuple[str, ...]
) -> None:
    done = mqadmin("msg", "query", "--topic", "t", "--key", "k", *words)
    assert (done.status, admin.calls) == (2, [])
