import json

from mqadmin.admin.brokers.statistics import put_tps, statistics
from mqadmin.admin.facade import MQAdmin
from tests.support.fake_brokers import FakeBroker, FakeCluster


def counted(tps: float, hour: int) -> bytes:
    return json.dumps(
        {
            "statsMinute": {"sum": 1, "tps": tps, "avgpt": 0},
            "statsHour": {"sum": hour, "tps": 0, "avgpt": 0},
            "statsDay": {"sum": 0, "tps": 0, "avgpt": 0},
        }
    ).encode()


def prepare(admin: MQAdmin, cluster: FakeCluster) -> None:
    assert admin.apply(admin.topic.plan_create("T", queues=2)).ok
    for broker in cluster.brokers:
        broker.on_300 = lambda header, command: b'{"groupList":["g"]}'
        broker.on_315 = lambda header, command: counted(1.5, 30)


def test_rates_are_added_over_the_brokers(admin: MQAdmin, cluster: FakeCluster) -> None:
    prepare(admin, cluster)
    (item,) = statistics(admin, topic="T").items
    assert (item.topic, item.group) == ("T", "g")
    assert (item.in_tps, item.out_tps) == (3.0, 3.0)
    assert (item.in_msg24_hour, item.out_msg24_hour) == (60, 60)
    assert put_tps(admin, "T") == 3.0


def test_a_topic_without_groups_has_one_row_without_a_group(
    admin: MQAdmin, cluster: FakeCluster
) -> None:
    prepare(admin, cluster)
    for broker in cluster.brokers:
        broker.on_300 = lambda header, command: b'{"groupList":[]}'
    (item,) = statistics(admin, topic="T").items
    assert (item.group, item.accumulation, item.out_tps) == (None, None, None)


def test_a_broker_that_counted_nothing_is_zero_and_one_that_is_down_an_error(
    admin: MQAdmin, cluster: FakeCluster, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    prepare(admin, cluster)
    broker_a.refuse(315, 1, "stats item not found")
    broker_b.down = True
    listing = statistics(admin, topic="T")
    assert listing.items[0].in_tps == 0.0
    assert [error.target for error in listing.errors] == ["broker-b"]


def test_all_topics_without_retry_and_dead_letter_topics(
    admin: MQAdmin, cluster: FakeCluster
) -> None:
    prepare(admin, cluster)
    assert admin.apply(admin.topic.plan_create("%DLQ%g", queues=1)).ok
    assert {item.topic for item in statistics(admin).items} == {"T"}
