"""Headers of client requests: wire names, types, required fields, defaults."""

import pytest

from broker.remoting.protocol.header import client
from tests.support.header_fields import check_header, headers_of

# The notation is explained in tests/support/header_fields.py.
DECLARED = {
    client.HeartbeatResponseHeader: "IS_SUPPORT_HEART_BEAT_V2:b?, IS_SUB_CHANGE:b?",
    client.UnregisterClientRequestHeader: ("clientID:s!, producerGroup:s?, consumerGroup:s?"),
    client.ConsumerGroupRequestHeader: "consumerGroup:s!",
    client.ProducerGroupRequestHeader: "producerGroup:s!",
    client.GetConsumerRunningInfoRequestHeader: (
        "consumerGroup:s!, clientId:s!, jstackEnable:b=false"
    ),
    client.ConsumeMessageDirectlyRequestHeader: (
        "consumerGroup:s!, clientId:s?, msgId:s?, brokerName:s?, topic:s?, topicSysFlag:i?, "
        "groupSysFlag:i?"
    ),
}


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.__name__)
def test_the_fields_are_those_of_java(cls) -> None:
    check_header(cls, DECLARED[cls])


def test_every_header_of_the_module_is_declared() -> None:
    assert headers_of(client) == set(DECLARED)
