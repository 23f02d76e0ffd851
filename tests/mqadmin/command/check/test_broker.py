"""``mqadmin check broker``: limits by name, statuses, an invalid command line."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fake_brokers import FakeCluster

Check = Callable[..., Any]


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ((), 0),
        (("--warn", "pageCacheLock=10ms"), 1),
        (("--crit", "pageCacheLock=10ms"), 2),
        (("--crit", "pageCacheLock=none", "broker-a"), 0),
    ],
)
def test_the_limits_decide_the_exit_status(
    check: Check, cluster: FakeCluster, words: tuple[str, ...], status: int
) -> None:
    cluster.brokers[0].runtime["pageCacheLockTimeMills"] = "20"
    done = check("broker", *words)
    assert done.status == status, done.err
    word = ("OK", "WARNING", "CRITICAL")[status]
    assert done.out.startswith(f"BROKER {word} - broker-a: ")
    assert done.out.count("\n") == 1


def test_a_broker_that_does_not_answer_is_critical(check: Check, cluster: FakeCluster) -> None:
    cluster.brokers[0].down = True
    assert check("broker").status == 2


def test_a_dead_name_server_is_unknown(check: Check, cluster: FakeCluster) -> None:
    cluster.namesrvs[0].down = True
    done = check("broker")
    assert (done.status, done.out[:14]) == (3, "BROKER UNKNOWN")


@pytest.mark.parametrize(
    "words", [("--warn", "nosuch=1"), ("--warn", "pageCacheLock=5MiB"), ("--nosuch",), ("a", "b")]
)
def test_an_invalid_command_line_is_unknown_and_not_critical(
    check: Check, words: tuple[str, ...]
) -> None:
    done = check("broker", *words)
    assert (done.status, done.out) == (3, "")
    assert done.err.startswith("error: ")
