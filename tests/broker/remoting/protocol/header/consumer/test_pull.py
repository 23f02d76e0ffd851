"""Headers of pull requests: wire names, types, required fields, defaults."""

import pytest

from broker.remoting.protocol.header.consumer import pull
from tests.support.header_fields import check_header, headers_of

# The notation is explained in tests/support/header_fields.py.
DECLARED = {
    pull.PullMessageRequestHeader: (
        "consumerGroup:s!, topic:s!, queueId:i!, queueOffset:l!, maxMsgNums:i!, sysFlag:i!, "
        "commitOffset:l!, suspendTimeoutMillis:l!, subscription:s?, subVersion:l!, "
        "expressionType:s?, maxMsgBytes:i?, requestSource:i?, proxyFrowardClientId:s?"
    ),
    pull.PullMessageResponseHeader: (
        "suggestWhichBrokerId:l!, nextBeginOffset:l!, minOffset:l!, maxOffset:l!, "
        "offsetDelta:l?, topicSysFlag:i?, groupSysFlag:i?, forbiddenType:i?"
    ),
}


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.__name__)
def test_the_fields_are_those_of_java(cls) -> None:
    check_header(cls, DECLARED[cls])


def test_every_header_of_the_module_is_declared() -> None:
    assert headers_of(pull) == set(DECLARED)
