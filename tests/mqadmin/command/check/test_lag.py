"""``mqadmin check lag``."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.common.group import SubscriptionGroupConfig
from tests.support.fake_brokers import FakeCluster


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ((), 0),
        (("--warn", "1"), 1),
        (("g", "--warn", "0", "--crit", "1"), 2),
        (("g", "--crit", "30s"), 2),
        (("g", "--online", "1"), 2),
        (("nosuch",), 3),
        (("--topic", "nosuch"), 3),
        (("--topic", "orders", "--warn", "1"), 1),
        (("--warn", "much"), 3),
    ],
)
def test_messages_age_and_clients_decide_the_exit_status(
    check: Callable[..., Any], cluster: FakeCluster, words: tuple[str, ...], status: int
) -> None:
    broker = cluster.brokers[0]
    for _ in range(3):
        broker.store("orders")
    broker.groups["g"] = SubscriptionGroupConfig(group_name="g")
    broker.offsets["orders@g"] = {0: 1}
    cluster.clock.advance(60_000)
    done = check("lag", *words)
    assert done.status == status, done.out + done.err


def test_a_broker_that_does_not_answer_is_unknown(
    check: Callable[..., Any], cluster: FakeCluster
) -> None:
    cluster.brokers[0].silent = True
    assert check("lag").status == 3
    assert check("lag", "g").status == 3
