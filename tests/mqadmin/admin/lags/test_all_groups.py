"""The lag of every group: exact, and None where nothing is committed."""

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.lags.all_groups import all_lags
from tests.support.fake_brokers import FakeBroker


@pytest.fixture
def filled(broker_a: FakeBroker) -> FakeBroker:
    """Group g: queue 0 of orders at 4 of 9, queue 1 at 0 of 2 committed, queue 2 nothing of 1."""
    for queue_id, count in ((0, 9), (1, 2), (2, 1)):
        for _ in range(count):
            broker_a.store("orders", queue_id)
    broker_a.groups["g"] = SubscriptionGroupConfig(group_name="g")
    broker_a.committed("g", "orders").update({0: 4, 1: 0})
    return broker_a


def test_a_queue_without_an_offset_is_not_a_lag_of_0(admin: MQAdmin, filled: FakeBroker) -> None:
    (row,) = all_lags(admin).items
    assert (row.group, row.topic, row.queues) == ("g", "orders", 4)
    assert (row.lag, row.max_lag, row.no_offset, row.state) == (7, 5, 1, "noOffset")


def test_without_the_offset_table_the_zeros_are_unknown(admin: MQAdmin, filled: FakeBroker) -> None:
    filled.refuse(RequestCode.GET_ALL_CONSUMER_OFFSET, 1)
    listing = all_lags(admin)
    (row,) = listing.items
    assert (row.lag, row.no_offset, row.state) == (5, 0, "unknown")
    assert [error.target for error in listing.errors] == ["broker-a"]


def test_an_offset_past_the_end_does_not_reduce_the_sum(admin: MQAdmin, filled: FakeBroker) -> None:
    filled.committed("g", "orders").update({0: 99, 1: 1, 2: 1})
    (row,) = all_lags(admin).items
    assert (row.lag, row.state) == (1, "ahead")


def test_brokers_are_added_up(admin: MQAdmin, filled: FakeBroker, broker_b: FakeBroker) -> None:
    for _ in range(3):
        broker_b.store("orders")
    broker_b.groups["g"] = SubscriptionGroupConfig(group_name="g")
    broker_b.committed("g", "orders")[0] = 1
    filled.committed("g", "orders")[2] = 1
    (row,) = all_lags(admin).items
    assert (row.queues, row.lag, row.max_lag, row.state) == (8, 9, 5, "ok")
    assert row.last_timestamp == filled.clock.now_ms()


def test_system_groups_are_left_out(admin: MQAdmin, filled: FakeBroker) -> None:
    filled.groups = {"CID_ONSAPI_OWNER": SubscriptionGroupConfig(group_name="CID_ONSAPI_OWNER")}
    filled.committed("CID_ONSAPI_OWNER", "orders")[0] = 1
    assert all_lags(admin).items == []
    assert len(all_lags(admin, include_system=True).items) == 1


def test_a_refusing_broker_is_an_error(admin: MQAdmin, filled: FakeBroker) -> None:
    filled.refuse(RequestCode.GET_BROKER_CONSUME_STATS, 1)
    listing = all_lags(admin)
    assert listing.items == []
    assert [error.target for error in listing.errors] == ["broker-a"]
