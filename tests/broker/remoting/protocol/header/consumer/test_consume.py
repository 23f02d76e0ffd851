"""Headers of consumption state: wire names, types, required fields, defaults."""

import pytest

from broker.remoting.protocol.header.consumer import consume
from tests.support.header_fields import check_header, headers_of

# The notation is explained in tests/support/header_fields.py.
DECLARED = {
    consume.GetConsumeStatsRequestHeader: "consumerGroup:s!, topic:s?, topicList:s?",
    consume.GetBrokerConsumeStatsRequestHeader: "isOrder:b!",
    consume.QueryConsumeTimeSpanRequestHeader: "topic:s!, group:s!",
    consume.QueryCorrectionOffsetRequestHeader: ("filterGroups:s?, compareGroup:s!, topic:s!"),
    consume.QueryTopicsByConsumerRequestHeader: "group:s!",
    consume.QuerySubscriptionByConsumerRequestHeader: "group:s!, topic:s?",
    consume.ViewBrokerStatsDataRequestHeader: "statsName:s!, statsKey:s!",
    consume.CheckRocksdbCqWriteProgressRequestHeader: "topic:s!, checkStoreTime:l?",
}


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.__name__)
def test_the_fields_are_those_of_java(cls) -> None:
    check_header(cls, DECLARED[cls])


def test_every_header_of_the_module_is_declared() -> None:
    assert headers_of(consume) == set(DECLARED)
