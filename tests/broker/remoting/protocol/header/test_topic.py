"""Headers of topics on a broker: wire names, types, required fields, defaults."""

import pytest

from broker.remoting.protocol.header import topic
from tests.support.header_fields import check_header, headers_of

# The notation is explained in tests/support/header_fields.py.
DECLARED = {
    topic.TopicNameRequestHeader: "topic:s!",
    topic.CreateTopicRequestHeader: (
        "topic:s!, defaultTopic:s=TBW102, readQueueNums:i!, writeQueueNums:i!, perm:i!, "
        "topicFilterType:s=SINGLE_TAG, topicSysFlag:i?, order:b=false, attributes:s?, "
        "force:b?"
    ),
    topic.GetAllTopicConfigRequestHeader: "topicSeq:i?, dataVersion:s?, maxTopicNum:i?",
    topic.GetAllTopicConfigResponseHeader: "totalTopicNum:i?",
}


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.__name__)
def test_the_fields_are_those_of_java(cls) -> None:
    check_header(cls, DECLARED[cls])


def test_every_header_of_the_module_is_declared() -> None:
    assert headers_of(topic) == set(DECLARED)
