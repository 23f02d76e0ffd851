from collections.abc import Callable
from typing import Any

from broker.common.topic import TopicConfig
from mqadmin.command.java.cluster.topic_change import config_text

Run = Callable[..., Any]


def test_a_configuration_is_printed_as_java_does() -> None:
    config = TopicConfig(topic_name="T", read_queue_nums=4, attributes={"message.type": "FIFO"})
    assert config_text(config) == (
        "TopicConfig [topicName=T, readQueueNums=4, writeQueueNums=16, perm=RW-, "
        "topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false, attributes={message.type=FIFO}]"
    )


def test_update_topic_creates_with_the_defaults_of_java(java: Run, embedded: Any) -> None:
    done = java("updateTopic -c DefaultCluster -t created")
    assert done.status == 0
    first, second = done.out.splitlines()
    assert first == f"create topic to {embedded.address} success."
    assert "readQueueNums=8, writeQueueNums=8, perm=RW-" in second


def test_update_topic_keeps_the_fields_that_are_not_named(java: Run, topic: str) -> None:
    done = java(f"updateTopic -b $B -t {topic} -p 4")
    assert "readQueueNums=4, writeQueueNums=4, perm=R--" in done.out


def test_update_topic_refuses_bad_values(java: Run) -> None:
    assert java("updateTopic -b $B -t T -r 0").status == 2
    assert java("updateTopic -b $B -t T -o maybe").status == 2
    assert java("updateTopic -b $B -t bad.name!").status == 1
    assert java("updateTopic -c NoSuch -t T").status == 1
