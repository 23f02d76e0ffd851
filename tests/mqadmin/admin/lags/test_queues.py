"""The queues of all groups: two requests per broker, more only where they do not decide."""

from broker.common.group import SubscriptionGroupConfig
from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.lags.queues import queues_of_all_groups
from tests.support.fake_brokers import FakeBroker, FakeCluster


def fill(broker: FakeBroker, groups: int, committed: dict[int, int]) -> None:
    """Store a message in each queue of the topic; commit the same offsets for each group."""
    for queue_id in range(4):
        broker.store("orders", queue_id)
    for number in range(groups):
        name = f"g{number}"
        broker.groups[name] = SubscriptionGroupConfig(group_name=name)
        broker.committed(name, "orders").update(committed)


def test_each_broker_gets_two_requests_for_all_groups(
    cluster: FakeCluster, admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    for broker in (broker_a, broker_b):
        fill(broker, 50, dict.fromkeys(range(4), 1))
    found = queues_of_all_groups(admin)
    assert (len(found.groups), found.errors) == (50, [])
    assert all(len(queues) == 8 for queues in found.groups.values())
    assert sorted(cluster.calls) == sorted(
        [
            (cluster.namesrvs[0].address, RequestCode.GET_BROKER_CLUSTER_INFO),
            (broker_a.address, RequestCode.GET_BROKER_CONSUME_STATS),
            (broker_b.address, RequestCode.GET_BROKER_CONSUME_STATS),
            (broker_a.address, RequestCode.GET_ALL_TOPIC_CONFIG),
            (broker_b.address, RequestCode.GET_ALL_TOPIC_CONFIG),
        ]
    )


def test_only_a_broker_with_an_ambiguous_0_is_asked_for_its_offset_table(
    cluster: FakeCluster, admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    fill(broker_a, 50, {0: 1, 1: 1, 2: 1, 3: 0})
    fill(broker_b, 50, dict.fromkeys(range(4), 1))
    found = queues_of_all_groups(admin)
    assert cluster.asked(RequestCode.GET_ALL_CONSUMER_OFFSET) == [broker_a.address]
    lags = [one.lag for one in found.groups["g7"] if one.address == broker_a.address]
    assert lags == [0, 0, 0, 1]


def test_a_queue_without_a_committed_offset_has_no_lag(
    admin: MQAdmin, broker_a: FakeBroker
) -> None:
    fill(broker_a, 1, {0: 1, 1: 0})
    queues = queues_of_all_groups(admin).groups["g0"]
    assert [(one.lag, one.state) for one in queues] == [
        (0, "ok"),
        (1, "ok"),
        (None, "noOffset"),
        (None, "noOffset"),
    ]


def test_an_empty_queue_has_lag_0_without_a_further_request(
    cluster: FakeCluster, admin: MQAdmin, broker_a: FakeBroker
) -> None:
    broker_a.store("orders", 0)
    broker_a.groups["g"] = SubscriptionGroupConfig(group_name="g")
    broker_a.committed("g", "orders")[0] = 1
    queues = queues_of_all_groups(admin).groups["g"]
    assert [(one.lag, one.state) for one in queues] == [(0, "ok")] * 4
    assert cluster.asked(RequestCode.GET_ALL_CONSUMER_OFFSET) == []


def test_without_the_offset_table_an_ambiguous_0_is_unknown(
    admin: MQAdmin, broker_a: FakeBroker
) -> None:
    fill(broker_a, 1, {0: 1, 1: 0, 2: 1, 3: 1})
    broker_a.refuse(RequestCode.GET_ALL_CONSUMER_OFFSET, 16)
    found = queues_of_all_groups(admin)
    assert [(one.lag, one.state) for one in found.groups["g0"]] == [
        (0, "ok"),
        (None, "unknown"),
        (0, "ok"),
        (0, "ok"),
    ]
    assert [error.target for error in found.errors] == ["broker-a"]


def test_a_group_without_offsets_is_known_without_queues(
    admin: MQAdmin, broker_a: FakeBroker
) -> None:
    broker_a.groups["idle"] = SubscriptionGroupConfig(group_name="idle")
    assert queues_of_all_groups(admin).groups == {"idle": []}


def test_a_broker_that_does_not_respond_is_an_error_and_the_others_are_kept(
    admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    for broker in (broker_a, broker_b):
        fill(broker, 1, dict.fromkeys(range(4), 1))
    broker_b.silent = True
    found = queues_of_all_groups(admin)
    assert [error.target for error in found.errors] == ["broker-b"]
    assert len(found.groups["g0"]) == 4


def test_a_broker_whose_topics_cannot_be_read_is_an_error_and_its_lags_are_kept(
    admin: MQAdmin, broker_a: FakeBroker
) -> None:
    fill(broker_a, 1, dict.fromkeys(range(4), 1))
    broker_a.refuse(RequestCode.GET_ALL_TOPIC_CONFIG, 1)
    found = queues_of_all_groups(admin)
    assert [error.target for error in found.errors] == ["broker-a"]
    assert len(found.groups["g0"]) == 4
