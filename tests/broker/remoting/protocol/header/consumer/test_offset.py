"""Headers of offset requests: wire names, types, required fields, defaults."""

import pytest

from broker.remoting.protocol.header.consumer import offset
from tests.support.header_fields import check_header, headers_of

# The notation is explained in tests/support/header_fields.py.
DECLARED = {
    offset.QueueRequestHeader: "topic:s!, queueId:i!",
    offset.GetMaxOffsetRequestHeader: "topic:s!, queueId:i!, committed:b?",
    offset.SearchOffsetRequestHeader: ("topic:s!, queueId:i!, timestamp:l!, boundaryType:s?"),
    offset.QueryConsumerOffsetRequestHeader: (
        "topic:s!, queueId:i!, consumerGroup:s!, setZeroIfNotFound:b?"
    ),
    offset.UpdateConsumerOffsetRequestHeader: (
        "topic:s!, queueId:i!, consumerGroup:s!, commitOffset:l!"
    ),
    offset.OffsetResponseHeader: "offset:l!",
    offset.EarliestMsgStoretimeResponseHeader: "timestamp:l!",
    offset.ResetOffsetRequestHeader: (
        "topic:s!, group:s!, timestamp:l!, isForce:b!, queueId:i=-1, offset:l?"
    ),
    offset.GetConsumerStatusRequestHeader: "topic:s!, group:s!, clientAddr:s?",
    offset.CloneGroupOffsetRequestHeader: ("srcGroup:s!, destGroup:s!, topic:s?, offline:b=false"),
}


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.__name__)
def test_the_fields_are_those_of_java(cls) -> None:
    check_header(cls, DECLARED[cls])


def test_every_header_of_the_module_is_declared() -> None:
    assert headers_of(offset) == set(DECLARED)
