"""The values for sending to a topic: limits, flags, and topics that need the slow path."""

import pytest

from broker.common import sysflag
from broker.common.topic import TopicConfig
from broker.server.processor.send.send_target import Target


class Counter:
    """Stands for a statistics counter."""


def target(**fields) -> Target:
    return Target(TopicConfig(topic_name=fields.pop("name", "T"), **fields), Counter(), Counter())


@pytest.mark.parametrize(("read", "write", "limit"), [(4, 8, 8), (8, 4, 8), (1, 1, 1)])
def test_a_queue_id_is_below_the_larger_queue_count(read: int, write: int, limit: int) -> None:
    assert target(read_queue_nums=read, write_queue_nums=write).queue_limit == limit


def test_messages_of_a_multi_tag_topic_have_its_flag() -> None:
    assert target(topic_filter_type="MULTI_TAG").sys_flag == sysflag.MULTI_TAGS
    assert target().sys_flag == 0


@pytest.mark.parametrize(
    ("name", "slow"), [("T", False), ("%RETRY%g", True), ("%DLQ%g", False), ("a%RETRY%g", False)]
)
def test_only_retry_topics_take_the_slow_path(name: str, slow: bool) -> None:
    assert target(name=name).slow is slow


@pytest.mark.parametrize(
    ("attributes", "batch"),
    [
        ({}, False),
        ({"queue.type": "BatchCQ"}, True),
        ({"queue.type": "SimpleCQ"}, False),
        ({"x": "BatchCQ"}, False),
    ],
)
def test_a_batch_queue_is_a_topic_with_that_attribute(attributes, batch: bool) -> None:
    assert target(attributes=attributes).batch_queue is batch


def test_counters_are_those_of_the_topic() -> None:
    nums, size = Counter(), Counter()
    made = Target(TopicConfig(topic_name="T"), nums, size)
    assert (made.put_nums, made.put_size) == (nums, size)
