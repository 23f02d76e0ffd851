"""Rates of topics and groups over all brokers."""

from typing import Any

import pytest

from broker.errors import ClientError
from broker.remoting.protocol.body.consumer.consume import BrokerStatsData, BrokerStatsItem
from broker.remoting.protocol.body.consumer.group import GroupList
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.load.topics import topic_loads
from tests.support.fake_brokers import Answer, FakeBroker, FakeCluster


def count(broker: FakeBroker, counters: dict[tuple[str, str], tuple[float, int]]) -> None:
    """Let a broker answer with counters: (name, key) → (per second, messages of the hour)."""

    def stats(header: Any, command: Any) -> BrokerStatsData:
        found = counters.get((header.stats_name, header.stats_key))
        if found is None:
            raise Answer(1, "the stats does not exist")
        return BrokerStatsData(
            stats_minute=BrokerStatsItem(tps=found[0]), stats_hour=BrokerStatsItem(sum=found[1])
        )

    groups = sorted({key.partition("@")[2] for _, key in counters if "@" in key})
    broker.on_315 = stats  # type: ignore[attr-defined]
    broker.on_300 = lambda *_: GroupList(group_list=groups)  # type: ignore[attr-defined]


def test_counters_of_the_brokers_are_summed_and_a_missing_one_is_0(
    admin: MQAdmin, cluster: FakeCluster
) -> None:
    first, second = cluster.brokers
    for broker in cluster.brokers:
        broker.store("orders")
    count(
        first, {("TOPIC_PUT_NUMS", "orders"): (1.0, 10), ("GROUP_GET_NUMS", "orders@g"): (0.5, 5)}
    )
    count(second, {("TOPIC_PUT_NUMS", "orders"): (2.0, 20)})
    first.offsets["orders@g"] = {0: 0}
    (row,) = topic_loads(admin).items
    assert (row.topic, row.group, row.in_tps, row.in_messages24_hours) == ("orders", "g", 3.0, 30)
    assert (row.out_tps, row.out_messages24_hours, row.in_bytes_per_second) == (0.5, 5, 0.0)


def test_a_topic_without_groups_is_a_row_and_a_broker_that_fails_makes_values_unknown(
    admin: MQAdmin, cluster: FakeCluster
) -> None:
    for broker in cluster.brokers:
        broker.store("orders")
        count(broker, {})
    (row,) = topic_loads(admin, ["orders"]).items
    assert (row.group, row.in_tps, row.lag) == (None, 0.0, None)
    cluster.brokers[1].down = True
    listing = topic_loads(cluster.admin(), ["orders"])
    assert listing.items[0].in_tps is None
    assert len(listing.errors) == 1


def test_system_topics_are_left_out_unless_asked_for(admin: MQAdmin, cluster: FakeCluster) -> None:
    for topic in ("orders", "%RETRY%g", "broker-a", "DefaultCluster_REPLY_TOPIC", "TBW102"):
        cluster.brokers[0].store(topic)
    count(cluster.brokers[0], {})
    assert [row.topic for row in topic_loads(admin).items] == ["orders"]
    assert len(topic_loads(admin, include_system=True).items) == 5


def test_a_named_topic_without_a_route_is_an_error(admin: MQAdmin) -> None:
    with pytest.raises(ClientError, match="nosuch"):
        topic_loads(admin, ["nosuch"])
