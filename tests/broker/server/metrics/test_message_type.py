"""The message type of metrics follows the sender's properties, in Java's order."""

import pytest

from broker.server import stats as counted
from broker.server.metrics.message_type import (
    DELAY,
    FIFO,
    NORMAL,
    NUMS,
    SIZE,
    TRANSACTION,
    count_put,
    message_type,
)


@pytest.mark.parametrize(
    ("properties", "kind"),
    [
        ({}, NORMAL),
        ({"TAGS": "DELAY"}, NORMAL),
        ({"TRAN_MSG": "false"}, NORMAL),
        ({"TRAN_MSG": "true", "DELAY": "1", "__SHARDINGKEY": "k"}, TRANSACTION),
        ({"__SHARDINGKEY": "k", "DELAY": "1"}, FIFO),
        ({"DELAY": "3"}, DELAY),
        ({"__STARTDELIVERTIME": "1"}, DELAY),
        ({"TIMER_DELIVER_MS": "1"}, DELAY),
        ({"TIMER_DELAY_SEC": "1"}, DELAY),
        ({"TIMER_DELAY_MS": "1"}, DELAY),
    ],
)
def test_the_first_property_that_matches_decides(properties: dict[str, str], kind: str) -> None:
    assert message_type(properties) == kind


def test_a_put_of_the_broker_counts_for_topic_broker_and_type() -> None:
    stats = counted.BrokerStats(0)
    count_put(stats, "T", 100)
    count_put(stats, "T", 50, DELAY)
    assert stats.counter(counted.TOPIC_PUT_NUMS, "T").value == 2
    assert stats.counter(counted.TOPIC_PUT_SIZE, "T").value == 150
    assert stats.put.value == 2
    assert stats.counter(NUMS[DELAY], "T").value == 1
    assert stats.counter(SIZE[DELAY], "T").value == 50
