"""``mqadmin check disk``."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fake_brokers import FakeCluster


@pytest.mark.parametrize(
    ("words", "status"),
    [((), 0), (("--warn", "40%"), 1), (("--warn", "0.3", "--crit", "45"), 2), (("-c", "X"), 3)],
)
def test_the_limits_decide_the_exit_status(
    check: Callable[..., Any], cluster: FakeCluster, words: tuple[str, ...], status: int
) -> None:
    assert check("disk", *words).status == status


def test_the_samples_have_the_names_and_units_of_the_exporter(check: Callable[..., Any]) -> None:
    text = check("disk", "-o", "prometheus").out
    assert 'rocketmq_brokeruntime_commitlog_disk_ratio{cluster="DefaultCluster",' in text
    assert text.splitlines()[4].endswith("} 0.5")
