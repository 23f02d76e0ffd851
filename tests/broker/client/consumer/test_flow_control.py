"""When a queue may be pulled."""

from broker.client.consumer.flow_control import FlowLimits, FlowReason, check_flow
from broker.client.consumer.process_queue import ProcessQueue
from broker.message.message import MessageExt


def cached(*offsets: int, size: int = 1) -> ProcessQueue:
    queue = ProcessQueue(0)
    queue.put([MessageExt("T", b"x" * size, queue_offset=offset) for offset in offsets])
    return queue


def test_each_limit_stops_pulls_only_when_exceeded() -> None:
    limits = FlowLimits(count=3, size_bytes=100, span=50)
    assert check_flow(cached(1, 2, 3), limits, orderly=False) is None
    assert check_flow(cached(1, 2, 3, 4), limits, orderly=False) is FlowReason.COUNT
    assert check_flow(cached(1, size=100), limits, orderly=False) is None
    assert check_flow(cached(1, size=101), limits, orderly=False) is FlowReason.SIZE
    assert check_flow(cached(1, 51), limits, orderly=False) is None
    assert check_flow(cached(1, 52), limits, orderly=False) is FlowReason.SPAN


def test_the_span_does_not_limit_orderly_consumers() -> None:
    limits = FlowLimits(count=3, span=50)
    assert check_flow(cached(1, 1_000), limits, orderly=True) is None


def test_limits_of_a_topic_are_divided_by_its_owned_queues() -> None:
    limits = FlowLimits()
    assert limits.for_topic(-1, -1, 4) == limits
    divided = limits.for_topic(100, 8 * 1024 * 1024, 4)
    assert (divided.count, divided.size_bytes) == (25, 2 * 1024 * 1024)
    least = limits.for_topic(2, 10, 4)
    assert (least.count, least.size_bytes) == (1, 1024 * 1024)
    assert limits.for_topic(100, -1, 0).count == 100
