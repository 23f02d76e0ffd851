"""Queues of one broker read without a route: topics it does not have, and failures."""

import pytest

from broker.errors import BrokerError, ConnectError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.delayed.reader import BrokerReader
from mqadmin.admin.topology import Target
from tests.support.fake_brokers import Answer, FakeBroker, FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    made = FakeCluster()
    made.add("broker-a")
    return made


@pytest.fixture
def broker_a(cluster: FakeCluster) -> FakeBroker:
    return cluster.brokers[0]


@pytest.fixture
def reader(cluster: FakeCluster) -> BrokerReader:
    admin = cluster.admin()
    (target,) = admin.topology.readers()
    return BrokerReader(admin, target)


def test_no_route_is_queried(
    reader: BrokerReader, cluster: FakeCluster, broker_a: FakeBroker
) -> None:
    broker_a.store("T", 2, b"x")
    queue = reader.queue("T", 2)
    assert reader.bounds(queue) == (0, 1)
    assert [message.body for message in reader.messages(queue, 0)] == [b"x"]
    assert cluster.asked(RequestCode.GET_ROUTEINFO_BY_TOPIC) == []


def test_bounds_of_expired_messages_start_at_the_minimum(
    reader: BrokerReader, broker_a: FakeBroker
) -> None:
    for _ in range(5):
        broker_a.store("T")
    broker_a.expire("T", 0, 3)
    assert reader.bounds(reader.queue("T", 0)) == (3, 5)


def test_a_negative_offset_counts_as_zero(reader: BrokerReader, broker_a: FakeBroker) -> None:
    """Brokers answer -1 for a queue without files."""
    broker_a.on_30 = broker_a.on_31 = lambda header, command: ({"offset": -1}, b"")
    assert reader.bounds(reader.queue("T", 0)) == (0, 0)


def test_a_topic_that_the_broker_does_not_have_has_no_bounds_and_no_messages(
    reader: BrokerReader, broker_a: FakeBroker
) -> None:
    def unknown(header, command) -> None:
        raise Answer(ResponseCode.TOPIC_NOT_EXIST, "no topic")

    broker_a.on_30 = broker_a.on_31 = unknown
    queue = reader.queue("T", 0)
    assert reader.bounds(queue) == (0, 0)
    assert list(reader.messages(queue, 0)) == []


def test_ends_are_those_of_each_queue_and_zero_without_the_topic(
    reader: BrokerReader, broker_a: FakeBroker
) -> None:
    broker_a.store("T", 1)
    queues = [reader.queue("T", 0), reader.queue("T", 1)]
    assert reader.ends(queues) == [0, 1]
    broker_a.refuse(RequestCode.GET_MAX_OFFSET, ResponseCode.TOPIC_NOT_EXIST)
    assert reader.ends(queues) == [0, 0]
    broker_a.refuse(RequestCode.GET_MAX_OFFSET, ResponseCode.SYSTEM_ERROR)
    with pytest.raises(BrokerError, match="SYSTEM_ERROR"):
        reader.ends(queues)


def test_another_refusal_is_raised(reader: BrokerReader, broker_a: FakeBroker) -> None:
    broker_a.store("T")
    broker_a.refuse(RequestCode.PULL_MESSAGE, ResponseCode.NO_PERMISSION)
    broker_a.refuse(RequestCode.GET_MAX_OFFSET, ResponseCode.SYSTEM_ERROR)
    queue = reader.queue("T", 0)
    with pytest.raises(BrokerError, match="NO_PERMISSION"):
        list(reader.messages(queue, 0))
    with pytest.raises(BrokerError, match="SYSTEM_ERROR"):
        reader.bounds(queue)


def test_a_broker_that_cannot_be_reached_is_an_error(
    reader: BrokerReader, broker_a: FakeBroker
) -> None:
    broker_a.down = True
    with pytest.raises(ConnectError):
        reader.bounds(reader.queue("T", 0))


@pytest.mark.parametrize(("begin", "end"), [(0, 5), (2, 4), (4, 4), (0, 0), (5, 5)])
def test_messages_are_those_from_begin_to_end(
    reader: BrokerReader, broker_a: FakeBroker, begin: int, end: int
) -> None:
    for _ in range(5):
        broker_a.store("T")
    found = [one.queue_offset for one in reader.messages(reader.queue("T", 0), begin, end)]
    assert found == list(range(begin, end))


def test_a_broker_without_a_name_is_read_by_its_address(
    cluster: FakeCluster, broker_a: FakeBroker
) -> None:
    broker_a.store("T", 0, b"x")
    reader = BrokerReader(cluster.admin(), Target(address=broker_a.address))
    queue = reader.queue("T", 0)
    assert queue.broker_name == ""
    assert [message.body for message in reader.messages(queue, 0)] == [b"x"]
