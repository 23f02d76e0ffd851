"""Live commands without a terminal."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fake_brokers import FakeCluster


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ((), "needs a terminal"),
        (("--once", "--sort", "nosuch"), "--sort nosuch: not a column"),
        (("--interval", "soon"), "--interval"),
    ],
)
def test_a_screen_that_cannot_be_shown_is_a_usage_error(
    mqadmin: Callable[..., Any], cluster: FakeCluster, words: tuple[str, ...], part: str
) -> None:
    done = mqadmin("cluster", "top", *words)
    assert (done.status, done.out) == (2, "")
    assert part in done.err


def test_another_form_than_a_table_needs_no_once(
    mqadmin: Callable[..., Any], cluster: FakeCluster
) -> None:
    assert mqadmin("cluster", "top", "-o", "ndjson").status == 0
