"""A topic with more read queues than write queues: its remaining messages are a lag, too."""

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.common.message_queue import MessageQueue
from broker.common.topic import TopicConfig
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.lags.all_groups import all_lags
from mqadmin.admin.lags.queues import queues_of_all_groups
from mqadmin.admin.lags.read_only_queues import (
    ReadOnlyQueues,
    add_ends,
    committed_in,
    read_only_queues,
)
from mqadmin.admin.offset.progress import QueueProgress
from mqadmin.admin.topology import Target
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


TARGET = Target(address="b:1", broker_name="broker-a", broker_id=0)


def config(read: int, write: int) -> TopicConfig:
    return TopicConfig(topic_name="t", read_queue_nums=read, write_queue_nums=write)


@pytest.mark.parametrize(
    ("read", "write", "ids"), [(4, 4, []), (4, 2, [2, 3]), (2, 4, []), (3, 0, [0, 1, 2])]
)
def test_queues_are_only_read_from_the_number_of_write_queues_on(
    read: int, write: int, ids: list[int]
) -> None:
    found = read_only_queues({"t": config(read, write)})
    assert (found is None) is (not ids)
    if found is not None:
        assert list(found.by_topic["t"]) == ids


@pytest.mark.parametrize(
    ("table", "offset"),
    [({}, None), ({"t@g": {}}, None), ({"t@g": {2: -1}}, None), ({"t@g": {2: 0}}, 0)],
)
def test_an_offset_below_zero_was_removed(table: dict[str, dict[int, int]], offset: object) -> None:
    assert committed_in(table, "g", MessageQueue("t", "broker-a", 2)) == offset


def test_without_an_offset_table_the_state_is_unknown() -> None:
    queues = ReadOnlyQueues({"t": range(2, 4)})
    rows = queues.progress(TARGET, {"g": {"t", "other"}}, None)
    assert [(group, one.queue.queue_id, one.state, one.committed) for group, one in rows] == [
        ("g", 2, "unknown", None),
        ("g", 3, "unknown", None),
    ]


def test_a_group_with_an_offset_only_is_found_in_the_table() -> None:
    queues = ReadOnlyQueues({"t": range(1), "u": range(1)})
    rows = queues.progress(TARGET, {"g": set()}, {"t@g": {0: 7}, "u@g": {}, "t@other": {0: 1}})
    assert [(one.queue.topic, one.committed, one.state) for _, one in rows] == [("t", 7, "ok")]


def test_an_end_that_cannot_be_read_makes_the_state_unknown(
    admin: MQAdmin, shrunk: FakeBroker
) -> None:
    queue = MessageQueue("orders", "broker-a", 2)
    one = QueueProgress(queue=queue, address=shrunk.address, state="ok", committed=3)
    shrunk.down = True
    (error,) = add_ends(admin, [one])
    assert (error.target, error.kind) == ("broker-a", "unreachable")
    assert (one.state, one.committed, one.broker_offset, one.lag) == ("unknown", None, None, None)


@pytest.mark.parametrize(
    ("state", "committed", "after"),
    [
        ("ok", 3, ("ok", 3)),
        ("ok", 5, ("ok", 5)),
        ("ok", 6, ("ahead", 6)),
        ("noOffset", None, ("noOffset", None)),
        ("unknown", None, ("unknown", None)),
    ],
)
def test_the_end_of_a_queue_decides_its_state(
    admin: MQAdmin, shrunk: FakeBroker, state: str, committed: int | None, after: object
) -> None:
    """The queue has 5 messages."""
    queue = MessageQueue("orders", "broker-a", 2)
    one = QueueProgress(queue=queue, address=shrunk.address, state=state, committed=committed)
    assert add_ends(admin, [one]) == []
    assert (one.state, one.committed) == after


def test_the_end_of_a_queue_of_many_groups_is_read_once(
    admin: MQAdmin, cluster: FakeCluster, shrunk: FakeBroker
) -> None:
    queue = MessageQueue("orders", "broker-a", 3)
    rows = [QueueProgress(queue=queue, address=shrunk.address, state="ok") for _ in range(5)]
    add_ends(admin, rows)
    assert cluster.asked(RequestCode.GET_MAX_OFFSET) == [shrunk.address]
    assert {one.broker_offset for one in rows} == {5}
