"""The load of brokers and their states."""

import pytest

from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.load.brokers import broker_loads
from tests.support.fake_brokers import FakeCluster


@pytest.mark.parametrize(
    ("runtime", "state"),
    [
        ({}, "ok"),
        ({"commitLogDiskRatio": "0.9"}, "full"),
        ({"pageCacheLockTimeMills": "600"}, "slow"),
        ({"sendThreadPoolQueueHeadWaitTimeMills": "150"}, "slow"),
    ],
)
def test_the_state_follows_from_the_runtime_information(
    admin: MQAdmin, cluster: FakeCluster, runtime: dict[str, str], state: str
) -> None:
    cluster.brokers[0].runtime |= runtime
    first, second = broker_loads(admin).items
    assert (first.broker_name, first.state, second.state) == ("broker-a", state, "ok")
    assert (first.in_tps, first.out_tps) == (1.5, None)


def test_a_broker_that_does_not_answer_is_down_and_an_error(
    admin: MQAdmin, cluster: FakeCluster
) -> None:
    cluster.brokers[1].silent = True
    listing = broker_loads(admin, cluster="DefaultCluster")
    assert [row.state for row in listing.items] == ["ok", "down"]
    assert [error.target for error in listing.errors] == ["broker-b"]
