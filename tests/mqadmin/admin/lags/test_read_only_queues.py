"""A topic with more read queues than write queues: its remaining messages are a lag, too."""

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.common.topic import TopicConfig
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.lags.all_groups import all_lags
from mqadmin.admin.lags.queues import queues_of_all_groups
from tests.support.fake_brokers import FakeBroker, FakeCluster


@pytest.fixture
def shrunk(broker_a: FakeBroker) -> FakeBroker:
    """Topic orders: 2 of 4 queues are written; each queue has 5 messages, group g is at 5."""
    for queue_id in range(4):
        for _ in range(5):
            broker_a.store("orders", queue_id)
    broker_a.topics["orders"] = TopicConfig(
        topic_name="orders", read_queue_nums=4, write_queue_nums=2
    )
    broker_a.groups["g"] = SubscriptionGroupConfig(group_name="g")
    broker_a.committed("g", "orders").update({0: 5, 1: 5})
    return broker_a


def lags(admin: MQAdmin) -> list[tuple[int, int | None, str]]:
    queues = queues_of_all_groups(admin).groups["g"]
    return [(one.queue.queue_id, one.lag, one.state) for one in queues]


def test_the_lag_of_queues_that_are_only_read_is_counted(
    admin: MQAdmin, shrunk: FakeBroker
) -> None:
    shrunk.committed("g", "orders").update({2: 1, 3: 9})
    assert lags(admin) == [(0, 0, "ok"), (1, 0, "ok"), (2, 4, "ok"), (3, -4, "ahead")]
    (row,) = all_lags(admin).items
    assert (row.queues, row.lag, row.max_lag) == (4, 4, 4)


def test_without_an_offset_their_lag_is_not_known_unless_they_are_empty(
    admin: MQAdmin, shrunk: FakeBroker
) -> None:
    shrunk.queues["orders", 3] = []
    assert lags(admin)[2:] == [(2, None, "noOffset"), (3, 0, "ok")]


def test_a_topic_without_write_queues_has_its_lag(admin: MQAdmin, shrunk: FakeBroker) -> None:
    shrunk.topics["orders"] = TopicConfig(
        topic_name="orders", read_queue_nums=2, write_queue_nums=0
    )
    shrunk.committed("g", "orders").update({0: 1, 1: 5})
    assert lags(admin) == [(0, 4, "ok"), (1, 0, "ok")]


def test_without_offset_table_or_end_their_lag_is_unknown(
    admin: MQAdmin, shrunk: FakeBroker
) -> None:
    shrunk.committed("g", "orders").update({2: 1, 3: 1})
    for code in (RequestCode.GET_ALL_CONSUMER_OFFSET, RequestCode.GET_MAX_OFFSET):
        shrunk.refuse(code, 1)
        found = queues_of_all_groups(admin)
        assert [(one.lag, one.state) for one in found.groups["g"]][2:] == [(None, "unknown")] * 2
        assert {error.target for error in found.errors} == {"broker-a"}
        assert all_lags(admin).items[0].state == "unknown"
        shrunk.refusals.clear()


def test_topics_with_equal_counts_need_no_further_request(
    cluster: FakeCluster, admin: MQAdmin, shrunk: FakeBroker
) -> None:
    shrunk.topics["orders"] = TopicConfig(
        topic_name="orders", read_queue_nums=2, write_queue_nums=2
    )
    assert len(lags(admin)) == 2
    assert cluster.asked(RequestCode.GET_ALL_CONSUMER_OFFSET) == []
    assert cluster.asked(RequestCode.GET_MAX_OFFSET) == []
