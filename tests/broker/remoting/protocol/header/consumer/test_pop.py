"""Headers of POP consumption: wire names, types, required fields, defaults."""

import pytest

from broker.remoting.protocol.header.consumer import pop
from tests.support.header_fields import check_header, headers_of

# The notation is explained in tests/support/header_fields.py.
DECLARED = {
    pop.PopMessageRequestHeader: (
        "consumerGroup:s!, topic:s!, queueId:i!, maxMsgNums:i!, invisibleTime:l!, "
        "pollTime:l!, bornTime:l!, initMode:i!, expType:s?, exp:s?, order:b=false, "
        "attemptId:s?"
    ),
    pop.PopMessageResponseHeader: (
        "popTime:l!, invisibleTime:l!, reviveQid:i!, restNum:l!, startOffsetInfo:s?, "
        "msgOffsetInfo:s?, orderCountInfo:s?"
    ),
    pop.AckMessageRequestHeader: (
        "consumerGroup:s!, topic:s!, queueId:i!, extraInfo:s!, offset:l!"
    ),
    pop.ChangeInvisibleTimeRequestHeader: (
        "consumerGroup:s!, topic:s!, queueId:i!, extraInfo:s!, offset:l!, invisibleTime:l!"
    ),
    pop.ChangeInvisibleTimeResponseHeader: "popTime:l!, invisibleTime:l!, reviveQid:i!",
    pop.PeekMessageRequestHeader: ("topic:s!, queueId:i!, maxMsgNums:i!, consumerGroup:s!"),
    pop.NotificationRequestHeader: (
        "consumerGroup:s!, topic:s!, queueId:i!, pollTime:l!, bornTime:l!, order:b=false, "
        "attemptId:s?"
    ),
    pop.NotificationResponseHeader: "hasMsg:b!, pollingFull:b=false",
    pop.PollingInfoRequestHeader: "consumerGroup:s!, topic:s!, queueId:i!",
    pop.PollingInfoResponseHeader: "pollingNum:i!",
}


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.__name__)
def test_the_fields_are_those_of_java(cls) -> None:
    check_header(cls, DECLARED[cls])


def test_every_header_of_the_module_is_declared() -> None:
    assert headers_of(pop) == set(DECLARED)
