"""``mqadmin check dlq``."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fake_brokers import FakeCluster


@pytest.mark.parametrize(
    ("words", "status"),
    [((), 1), (("--crit", "1"), 2), (("--warn", "2"), 0), (("other",), 3), (("--warn", "-"), 3)],
)
def test_the_number_of_dead_letters_decides_the_exit_status(
    check: Callable[..., Any], cluster: FakeCluster, words: tuple[str, ...], status: int
) -> None:
    for _ in range(2):
        cluster.brokers[0].store("%DLQ%g")
    assert check("dlq", *words).status == status


def test_a_broker_that_does_not_answer_is_unknown(
    check: Callable[..., Any], cluster: FakeCluster
) -> None:
    cluster.brokers[0].store("%DLQ%g")
    cluster.brokers[0].silent = True
    assert check("dlq").status == 3
