"""Consumers: lag and its states, clients, lists."""

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.errors import ClientError
from broker.remoting.protocol.codes import RequestCode, ResponseCode

VERSION_4_9_8 = 409


def fill(broker, count, topic="orders", queue_id=0):
    for _ in range(count):
        broker.store(topic, queue_id)


class TestLag:
    def test_every_state(self, admin, cluster, broker_a):
        fill(broker_a, 5)
        fill(broker_a, 3, queue_id=1)
        fill(broker_a, 4, queue_id=2)
        broker_a.expire("orders", 2, 2)
        broker_a.committed("g", "orders").update({0: 2, 1: 9, 2: 1})
        cluster.clock.advance(2_500)
        rows = {
            item.queue_id: (item.state, item.consumer_offset, item.lag)
            for item in admin.consumer.lag("g").items
        }
        assert rows == {
            0: ("ok", 2, 3),
            1: ("ahead", 9, -6),
            2: ("belowMin", 1, 3),
            3: ("noOffset", None, None),
        }

    def test_age_of_the_oldest_message_not_consumed(self, admin, cluster, broker_a):
        fill(broker_a, 1)
        cluster.clock.advance(1_000)
        fill(broker_a, 1)
        broker_a.committed("g", "orders").update({0: 1, 1: 0})
        cluster.clock.advance(2_500)
        first, second = admin.consumer.lag("g").items[:2]
        assert first.lag_seconds == 2.5
        assert first.last_timestamp == cluster.clock.now_ms() - 3_500
        assert (second.lag, second.lag_seconds, second.state) == (0, 0.0, "ok")

    def test_committed_zero_is_an_offset(self, admin, broker_a):
        fill(broker_a, 2)
        broker_a.committed("g", "orders")[0] = 0
        assert [item.state for item in admin.consumer.lag("g").items] == [
            "ok",
            "noOffset",
            "noOffset",
            "noOffset",
        ]

    def test_an_old_broker_is_recognised_by_its_table(self, admin, cluster, broker_a):
        broker_a.version = VERSION_4_9_8
        fill(broker_a, 2)
        broker_a.committed("g", "orders")[0] = 0
        items = admin.consumer.lag("g").items
        assert [item.state for item in items[:2]] == ["ok", "noOffset"]
        assert items[0].inflight == 0
        assert cluster.asked(RequestCode.GET_ALL_CONSUMER_OFFSET) == [broker_a.address]

    def test_all_brokers_and_all_topics(self, admin, broker_a, broker_b):
        fill(broker_a, 1)
        fill(broker_b, 1, "bills")
        broker_a.committed("g", "orders")[0] = 1
        broker_b.committed("g", "bills")[0] = 1
        places = {(item.topic, item.broker_name) for item in admin.consumer.lag("g").items}
        assert places == {("orders", "broker-a"), ("bills", "broker-b")}

    def test_a_dead_broker_leaves_unknown_queues(self, admin, broker_a, broker_b):
        fill(broker_a, 1)
        fill(broker_b, 1)
        broker_b.down = True
        listing = admin.consumer.lag("g", topic="orders")
        states = {item.broker_name: item.state for item in listing.items}
        assert states == {"broker-a": "noOffset", "broker-b": "unknown"}
        assert [error.target for error in listing.errors] == ["broker-b"]

    def test_no_offsets_at_all_is_a_note(self, admin):
        listing = admin.consumer.lag("g")
        assert (listing.items, listing.errors) == ([], [])
        assert "no broker has an offset of group g" in listing.notes[0]

    def test_an_unknown_topic_is_an_error(self, admin):
        with pytest.raises(ClientError, match="topic nope has no route"):
            admin.consumer.lag("g", topic="nope")

    def test_a_new_online_group_shows_its_subscriptions(self, admin, broker_a):
        fill(broker_a, 1)
        broker_a.connect("g", "c1", "orders")
        assert {item.state for item in admin.consumer.lag("g").items} == {"noOffset"}

    def test_owners_come_from_the_clients(self, admin, broker_a):
        fill(broker_a, 1)
        broker_a.committed("g", "orders")[0] = 0
        broker_a.connect("g", "c1", "orders")
        items = admin.consumer.lag("g", clients=True).items
        assert [item.client_id for item in items] == ["c1", None, None, None]

    def test_ages_may_be_missing(self, admin, broker_a):
        fill(broker_a, 2)
        broker_a.committed("g", "orders")[0] = 1
        broker_a.refuse(RequestCode.QUERY_CONSUME_TIME_SPAN, ResponseCode.SYSTEM_ERROR)
        listing = admin.consumer.lag("g")
        assert listing.items[0].lag_seconds is None
        assert not listing.errors

    def test_missing_ranges_are_errors(self, admin, broker_a):
        fill(broker_a, 2)
        broker_a.committed("g", "orders")[0] = 1
        broker_a.refuse(RequestCode.GET_TOPIC_STATS_INFO, ResponseCode.SYSTEM_ERROR)
        listing = admin.consumer.lag("g")
        assert listing.items[0].lag == 1
        assert [error.request_code for error in listing.errors] == [202]


class TestList:
    def test_groups_of_all_brokers(self, admin, broker_a, broker_b):
        fill(broker_a, 5)
        broker_a.committed("g1", "orders")[0] = 2
        broker_a.connect("g1", "c1", "orders")
        broker_b.groups["g2"] = SubscriptionGroupConfig(group_name="g2")
        broker_b.groups["TOOLS_CONSUMER"] = SubscriptionGroupConfig(group_name="TOOLS_CONSUMER")
        rows = [(r.group, r.clients, r.lag) for r in admin.consumer.list().items]
        assert rows == [("g1", 1, 3), ("g2", 0, None)]
        assert len(admin.consumer.list(include_system=True).items) == 3

    def test_a_queue_without_an_offset_has_no_lag(self, admin, broker_a):
        for group in ("young", "fresh", "zero"):
            broker_a.groups[group] = SubscriptionGroupConfig(group_name=group)
        fill(broker_a, 5)
        fill(broker_a, 7, queue_id=1)
        broker_a.committed("young", "orders")[0] = 2  # queue 1 has none
        broker_a.committed("zero", "orders")[1] = 0
        lags = {item.group: item.lag for item in admin.consumer.list().items}
        assert lags == {"young": 3, "fresh": None, "zero": 7}

    def test_a_value_that_no_broker_reports_is_absent_and_an_error(self, admin, broker_a):
        broker_a.groups["g"] = SubscriptionGroupConfig(group_name="g")
        broker_a.refuse(RequestCode.GET_CONSUMER_CONNECTION_LIST, ResponseCode.SYSTEM_ERROR)
        broker_a.refuse(RequestCode.GET_CONSUME_STATS, ResponseCode.SYSTEM_ERROR)
        listing = admin.consumer.list()
        (item,) = [one for one in listing.items if one.group == "g"]
        assert (item.clients, item.lag) == (None, None)
        assert {error.request_code for error in listing.errors} == {203, 208}

    def test_clients_on_a_silent_broker_are_not_counted_as_none(self, admin, broker_a, broker_b):
        broker_a.groups["g"] = SubscriptionGroupConfig(group_name="g")
        broker_b.silent = True
        (item,) = [one for one in admin.consumer.list().items if one.group == "g"]
        assert item.clients is None

    def test_an_offline_group_has_zero_members(self, admin, broker_a):
        broker_a.groups["g"] = SubscriptionGroupConfig(group_name="g")
        listing = admin.consumer.list()
        assert [one.clients for one in listing.items if one.group == "g"] == [0]
        assert listing.errors == []

    def test_without_lag_half_as_much_is_asked(self, admin, cluster, broker_a):
        broker_a.connect("g1", "c1", "orders")
        (record,) = admin.consumer.list(lag=False).items
        assert (record.lag, record.consume_tps) == (None, None)
        assert not cluster.asked(RequestCode.GET_CONSUME_STATS)

    def test_a_dead_broker_is_not_asked_again_and_again(self, admin, cluster, broker_a, broker_b):
        broker_a.connect("g1", "c1", "orders")
        broker_b.down = True
        listing = admin.consumer.list()
        assert len(listing.items) == 1
        assert len([a for a, _ in cluster.calls if a == broker_b.address]) == 1
