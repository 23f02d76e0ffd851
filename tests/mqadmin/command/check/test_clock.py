"""``mqadmin check clock``."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fake_brokers import FakeCluster


@pytest.mark.parametrize(
    ("ahead_s", "status"), [(None, 3), (0, 0), (600, 1), (7200, 2), (-7200, 2)]
)
def test_the_skew_decides_the_exit_status(
    check: Callable[..., Any], cluster: FakeCluster, ahead_s: int | None, status: int
) -> None:
    if ahead_s is not None:
        cluster.brokers[0].runtime |= {
            "bootTimestamp": str(int((time.time() + ahead_s) * 1000) - 60_000),
            "runtime": "[ 0 days, 0 hours, 1 minutes, 0 seconds ]",
        }
    done = check("clock", "--warn", "5m", "--crit", "1h")
    assert done.status == status, done.out
