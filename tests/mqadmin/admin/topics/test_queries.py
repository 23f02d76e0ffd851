import pytest

from broker.errors import ClientError
from broker.remoting.protocol.body.consumer.consume import (
    ConsumeQueueData,
    QueryConsumeQueueResponseBody,
)
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.topics.queries import (
    allocate,
    clusters_of,
    consumers_of,
    queue_units,
    route_data,
    topic_names,
)
from tests.support.fake_brokers import FakeBroker, FakeCluster


@pytest.fixture(autouse=True)
def topic(admin: MQAdmin) -> None:
    assert admin.apply(admin.topic.plan_create("T", queues=2)).ok


def test_names_and_routes_are_those_of_the_name_server(admin: MQAdmin) -> None:
    assert topic_names(admin) == ["T"]
    assert len(route_data(admin, "T").broker_datas) == 2
    assert clusters_of(admin, "T") == ["DefaultCluster"]


def test_groups_of_every_broker_are_merged(
    admin: MQAdmin, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    broker_a.on_300 = lambda header, command: b'{"groupList":["g2","g1"]}'
    broker_b.on_300 = lambda header, command: b'{"groupList":["g1"]}'
    assert consumers_of(admin, ["T", "nope"]) == {
        "T": (["DefaultCluster"], ["g1", "g2"]),
        "nope": ([], []),
    }


def test_units_come_from_the_first_broker_or_the_one_named(
    admin: MQAdmin, cluster: FakeCluster, broker_a: FakeBroker, broker_b: FakeBroker
) -> None:
    body = QueryConsumeQueueResponseBody(
        queue_data=[ConsumeQueueData(physic_offset=5)], max_queue_index=1
    )
    for broker in (broker_a, broker_b):
        broker.on_321 = lambda header, command: body
    assert queue_units(admin, "T", 0, 0, 1).max_queue_index == 1
    queue_units(admin, "T", 0, 0, 1, address=broker_b.address)
    assert cluster.asked(321) == [broker_a.address, broker_b.address]


def test_an_allocation_gives_every_queue_to_one_client(admin: MQAdmin) -> None:
    found = allocate(admin, "T", ["b", "a", "c"])
    assert list(found) == ["a", "b", "c"]
    assert [len(queues) for queues in found.values()] == [2, 1, 1]
    every = [queue for queues in found.values() for queue in queues]
    assert len(set(every)) == len(every) == 4


def test_client_ids_must_differ(admin: MQAdmin) -> None:
    with pytest.raises(ClientError, match="different client ids"):
        allocate(admin, "T", ["a", "a"])
