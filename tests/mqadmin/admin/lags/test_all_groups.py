"""The lag of every group: exact, and None where nothing is committed."""

from typing import Any

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.remoting.protocol.body.consumer.consume import ConsumeStatsList
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.lags.all_groups import all_lags
from tests.support.fake_brokers import Answer


@pytest.fixture
def filled(broker_a: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Group g: queue 0 of orders at 4 of 9, queue 1 at 0 of 2 committed, queue 2 nothing of 1."""
    for queue_id, count in ((0, 9), (1, 2), (2, 1)):
        for _ in range(count):
            broker_a.store("orders", queue_id)
    broker_a.groups["g"] = SubscriptionGroupConfig(group_name="g")
    broker_a.committed("g", "orders").update({0: 4, 1: 0})

    def on_317(header: Any, command: Any) -> ConsumeStatsList:
        assert header.is_order is False

        class Asked:
            consumer_group = "g"
            topic = "orders"

        return ConsumeStatsList(consume_stats_list=[{"g": [broker_a.on_208(Asked, command)]}])

    monkeypatch.setattr(broker_a, "on_317", on_317, raising=False)
    return broker_a


def test_a_queue_without_an_offset_is_not_a_lag_of_0(admin: Any, filled: Any) -> None:
    (row,) = all_lags(admin).items
    assert (row.group, row.topic, row.queues) == ("g", "orders", 4)
    assert (row.lag, row.max_lag, row.no_offset, row.state) == (7, 5, 1, "noOffset")


def test_each_broker_gets_one_question_for_all_groups(
    admin: Any, filled: Any, cluster: Any
) -> None:
    listing = all_lags(admin)
    assert [error.target for error in listing.errors] == ["broker-b"]  # it does not know the code
    assert len(cluster.asked(RequestCode.GET_BROKER_CONSUME_STATS)) == 2
    assert len(cluster.asked(RequestCode.GET_ALL_CONSUMER_OFFSET)) == 2


def test_without_the_offset_table_the_zeros_are_unknown(admin: Any, filled: Any) -> None:
    filled.refuse(RequestCode.GET_ALL_CONSUMER_OFFSET, 1)
    listing = all_lags(admin)
    (row,) = listing.items
    assert (row.lag, row.no_offset, row.state) == (5, 0, "unknown")
    assert {error.target for error in listing.errors} == {"broker-a", "broker-b"}


def test_an_offset_past_the_end_does_not_reduce_the_sum(admin: Any, filled: Any) -> None:
    filled.committed("g", "orders").update({0: 99, 1: 1, 2: 1})
    (row,) = all_lags(admin).items
    assert (row.lag, row.state) == (1, "ahead")


def test_system_groups_are_left_out(
    admin: Any, filled: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = filled.on_317

    def on_317(header: Any, command: Any) -> ConsumeStatsList:
        (entry,) = own(header, command).consume_stats_list
        return ConsumeStatsList(consume_stats_list=[{"CID_ONSAPI_OWNER": entry["g"]}])

    monkeypatch.setattr(filled, "on_317", on_317)
    assert all_lags(admin).items == []
    assert len(all_lags(admin, include_system=True).items) == 1


def test_a_refusing_broker_is_an_error(admin: Any, filled: Any) -> None:
    def refuse(header: Any, command: Any) -> None:
        raise Answer(1, "no")

    filled.on_317 = refuse
    listing = all_lags(admin)
    assert listing.items == []
    assert len(listing.errors) == 2
