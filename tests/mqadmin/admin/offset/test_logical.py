"""Progress in a static topic is that of its queues over all brokers."""

from typing import Any

import msgspec
import pytest

from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.body.namesrv.route import LogicQueueMappingItem as Item
from broker.remoting.protocol.body.namesrv.route import TopicQueueMappingInfo
from broker.remoting.protocol.command import RemotingCommand
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.offset.logical import combined, logical_progress
from mqadmin.admin.offset.progress import AHEAD, BELOW_MIN, NO_OFFSET, OK, UNKNOWN, QueueProgress
from tests.support.fake_brokers import FakeBroker, FakeCluster
from tests.support.static_topics import Served, static

QUEUE = MessageQueue("T", "__syslo__global__", 0)
MOVED = [Item(bname="a", queue_id=2), Item(gen=1, bname="b", queue_id=1, logic_offset=10_000)]


def physical(*places: tuple[str, int, int | None, int | None]) -> dict[MessageQueue, QueueProgress]:
    """(broker, queue id, end, committed) as the brokers report them."""
    return {
        queue: QueueProgress(
            queue=queue,
            address=f"{queue.broker_name}:1",
            min_offset=0,
            broker_offset=end,
            committed=committed,
            last_timestamp=committed,
            behind_ms=committed and 70,
        )
        for broker, queue_id, end, committed in places
        for queue in [MessageQueue("T", broker, queue_id)]
    }


@pytest.mark.parametrize(
    ("places", "offsets", "state"),
    [
        ((("a", 2, 5, 5), ("b", 1, 8, 6)), (10_008, 10_006), OK),
        ((("a", 2, 5, 3), ("b", 1, 8, None)), (10_008, 3), OK),
        ((("a", 2, 5, None), ("b", 1, 8, None)), (10_008, None), NO_OFFSET),
        ((("a", 2, 5, 5), ("b", 1, 8, 9)), (10_008, 10_009), AHEAD),
        ((("a", 2, 5, 5), ("b", 1, None, None)), (None, None), UNKNOWN),
        ((("a", 2, 5, 5),), (None, None), UNKNOWN),
        ((("b", 1, 8, 6),), (10_008, 10_006), OK),
        ((("b", 1, 8, None),), (10_008, None), UNKNOWN),
    ],
)
def test_the_newest_segment_with_an_offset_decides(
    places: tuple[tuple[str, int, int | None, int | None], ...],
    offsets: tuple[int | None, int | None],
    state: str,
) -> None:
    one = combined(QUEUE, MOVED, physical(*places))
    assert one.queue == QUEUE
    assert (one.broker_offset, one.committed) == offsets
    assert one.state == state


def test_times_are_those_of_the_segment_with_the_offset() -> None:
    one = combined(QUEUE, MOVED, physical(("a", 2, 5, 3), ("b", 1, 8, None)))
    assert (one.last_timestamp, one.behind_ms, one.address) == (3, 70, "b:1")
    done = combined(QUEUE, MOVED, physical(("a", 2, 5, 5), ("b", 1, 8, 8)))
    assert (done.lag, done.behind_ms) == (0, 0)


def test_a_segment_without_a_first_offset_receives_nothing_yet() -> None:
    items = [Item(bname="a", queue_id=2), Item(gen=1, bname="b", queue_id=1, logic_offset=-1)]
    one = combined(QUEUE, items, physical(("a", 2, 5, 3), ("b", 1, 0, None)))
    assert (one.broker_offset, one.committed, one.state) == (5, 3, OK)


def test_the_first_offset_is_that_of_the_oldest_segment() -> None:
    places = physical(("a", 2, 9, 3), ("b", 1, 8, None))
    places[MessageQueue("T", "a", 2)].min_offset = 4
    one = combined(QUEUE, MOVED, places)
    assert (one.min_offset, one.state) == (4, BELOW_MIN)


@pytest.fixture
def served(cluster: FakeCluster, broker_a: FakeBroker) -> None:
    """Static topic T with two queues at broker-a, three messages in each, and its route."""
    Served(cluster, static("T", 2, ["broker-a"]))
    for number in range(6):
        broker_a.store("T", number % 2)
    info = TopicQueueMappingInfo(topic="T", total_queues=2, bname="broker-a")
    for namesrv in cluster.namesrvs:
        route = namesrv.on_105

        def with_mapping(header: Any, command: RemotingCommand, route: Any = route) -> Any:
            found = route(header, command)
            mappings = {"broker-a": info} if header.topic == "T" else None
            return msgspec.structs.replace(found, topic_queue_mapping_by_broker=mappings)

        namesrv.on_105 = with_mapping  # type: ignore[method-assign]


def test_logical_queues_replace_those_of_the_brokers(
    admin: MQAdmin, served: None, broker_a: FakeBroker
) -> None:
    assert admin.apply(admin.topic.plan_create("Plain", queues=1)).ok
    broker_a.committed("G", "T")[0] = 2
    broker_a.committed("G", "Plain")[0] = 0
    found = logical_progress(admin, "G")
    assert [(one.queue.topic, one.queue.broker_name) for one in found.queues] == [
        ("Plain", "broker-a"),
        ("T", "__syslo__global__"),
        ("T", "__syslo__global__"),
    ]
    assert [one.committed for one in found.queues] == [0, 2, None]
    assert [one.lag for one in logical_progress(admin, "G", "T").queues] == [1, None]


def test_a_mapping_that_cannot_be_read_leaves_the_queues_of_the_brokers(
    admin: MQAdmin, served: None, broker_a: FakeBroker
) -> None:
    broker_a.committed("G", "T")[0] = 2
    broker_a.refuse(351, 1, "no")
    found = logical_progress(admin, "G", "T")
    assert {one.queue.broker_name for one in found.queues} == {"broker-a"}
    assert [error.response_code for error in found.errors] == [1]
