from typing import Any

import pytest

from broker.common.topic import TopicConfig
from broker.errors import BrokerError, ClientError
from broker.remoting.protocol.body.namesrv.route import TopicQueueMappingDetail
from broker.remoting.protocol.body.topic import TopicConfigAndQueueMapping
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.topics.static import EPOCH_STEP, StaticTopics, extended
from tests.support.fake_brokers import FakeBroker, FakeCluster


def test_queues_are_spread_over_the_brokers_with_local_numbers() -> None:
    found = extended("T", 5, ["a", "b"], {}, 1000)
    assert {name: sorted(one.hosted_queues or {}) for name, one in found.items()} == {
        "a": [0, 2, 4],
        "b": [1, 3],
    }
    assert [items[0].queue_id for items in (found["a"].hosted_queues or {}).values()] == [0, 1, 2]
    assert {(one.total_queues, one.epoch) for one in found.values()} == {(5, 1000)}


def test_an_extension_keeps_the_queues_in_place_and_raises_the_epoch() -> None:
    old = extended("T", 2, ["a"], {}, 5000)["a"]
    config = TopicConfig(topic_name="T", read_queue_nums=2, write_queue_nums=2)
    present = {"a": TopicConfigAndQueueMapping(topic_config=config, mapping_detail=old)}
    found = extended("T", 4, ["a", "b"], present, 1000)
    assert sorted(found["a"].hosted_queues or {}) == [0, 1]
    assert sorted(found["b"].hosted_queues or {}) == [2, 3]
    assert found["a"].epoch == 5000 + EPOCH_STEP
    with pytest.raises(ClientError, match="cannot lose queues"):
        extended("T", 1, ["a"], present, 1000)


def test_a_plan_is_sent_to_every_broker_of_the_cluster(
    admin: MQAdmin, cluster: FakeCluster
) -> None:
    details: list[TopicQueueMappingDetail] = []
    headers: list[Any] = []

    def put(header: Any, command: Any) -> None:
        headers.append(header)
        details.append(TopicQueueMappingDetail.from_bytes(command.body_bytes()))

    for broker in cluster.brokers:
        broker.on_513 = put
    library = StaticTopics(admin)
    plan = library.plan("T", 3, now_ms=7, clusters=["DefaultCluster"])
    assert library.apply(plan).ok
    assert [(one.bname, sorted(one.hosted_queues or {})) for one in details] == [
        ("broker-a", [0, 2]),
        ("broker-b", [1]),
    ]
    assert [(one.read_queue_nums, one.write_queue_nums) for one in headers] == [(2, 2), (1, 1)]


def test_an_ordinary_topic_and_a_broker_without_static_topics_are_errors(
    admin: MQAdmin, broker_a: FakeBroker
) -> None:
    library = StaticTopics(admin)
    plan = library.plan("S", 1, now_ms=7, brokers=["broker-a"])
    assert [error.response_code for error in library.apply(plan).errors] == [3]
    assert admin.apply(admin.topic.plan_create("T", queues=2)).ok
    with pytest.raises(ClientError, match="not a static topic"):
        library.plan("T", 3, now_ms=7, brokers=["broker-a"])
    broker_a.refuse(351, 1, "no")
    with pytest.raises(BrokerError):
        library.mappings("S")
