"""Round robin over queues."""

from collections import Counter

import pytest

from broker.client.publish.publish_info import TopicPublishInfo
from broker.common.message_queue import MessageQueue
from broker.errors import ClientError

QUEUES = [MessageQueue("T", name, number) for name in "ab" for number in range(4)]


def test_each_queue_comes_once_per_round() -> None:
    info = TopicPublishInfo("T", QUEUES)
    assert sorted(info.select() for _ in range(8)) == QUEUES


def test_the_first_queue_of_new_producers_is_spread() -> None:
    first = Counter(TopicPublishInfo("T", QUEUES).select() for _ in range(2_000))
    assert set(first) == set(QUEUES)
    assert max(first.values()) < 2 * min(first.values())


def test_the_counter_wraps_without_becoming_negative() -> None:
    info = TopicPublishInfo("T", QUEUES, index=0x7FFFFFFE)
    assert [info.next_index() for _ in range(3)] == [0x7FFFFFFF, 0, 1]


def test_a_retry_skips_the_broker_that_failed_if_there_is_another() -> None:
    info = TopicPublishInfo("T", QUEUES)
    assert {info.select_skipping("a").broker_name for _ in range(16)} == {"b"}
    assert {info.select_skipping(None).broker_name for _ in range(16)} == {"a", "b"}
    alone = TopicPublishInfo("T", QUEUES[:4])
    assert alone.select_skipping("a").broker_name == "a"


def test_a_new_route_continues_the_counter() -> None:
    before = TopicPublishInfo("T", QUEUES, index=5)
    after = TopicPublishInfo("T", QUEUES)
    after.continue_from(before)
    assert after.next_index() == 6


def test_queues_per_broker_are_counted() -> None:
    info = TopicPublishInfo("T", QUEUES)
    assert (info.write_queue_nums("a"), info.write_queue_nums("x")) == (4, 0)


def test_a_topic_without_queues_is_an_error() -> None:
    with pytest.raises(ClientError, match="no queue"):
        TopicPublishInfo("T", [])
