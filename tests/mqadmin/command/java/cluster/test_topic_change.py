import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


def test_update_topic_with_order_writes_the_order_configuration(java: Run) -> None:
    done = java("updateTopic -c DefaultCluster -t in-order -w 3 -o true")
    text = "set cluster orderConf. isOrder=true, orderConf=[broker-a:3]"
    assert done.out.splitlines()[1] == text
    assert "[broker-a:3]" in java("updateOrderConf -t in-order -m get").out


def test_update_topic_list_applies_every_topic(java: Run, topic: str, tmp_path: Path) -> None:
    rows = [
        {"topicName": topic, "readQueueNums": 4, "writeQueueNums": 4},
        {"topicName": "listed", "readQueueNums": 2, "writeQueueNums": 2, "perm": 4},
    ]
    path = tmp_path / "topics.json"
    path.write_text(json.dumps(rows))
    done = java("updateTopicList -b $B -f", str(path))
    assert done.status == 0
    assert done.out.count("submit batch of topic config to") == 1
    assert '"perm":4' in java("topicRoute -t listed").out


@pytest.mark.parametrize("text", ["{}", "[]", "no json", "[1]", '[{"perm":6}]', '[{"perm":"x"}]'])
def test_a_file_that_is_not_a_list_of_topics_is_a_usage_error(
    java: Run, tmp_path: Path, text: str
) -> None:
    path = tmp_path / "topics.json"
    path.write_text(text)
    assert java("updateTopicList -b $B -f", str(path)).status == 2
    assert java("updateTopicList -b $B -f", str(tmp_path / "absent")).status == 2


def test_update_topic_perm_changes_nothing_else(java: Run, topic: str, embedded: Any) -> None:
    first, second = java(f"updateTopicPerm -t {topic} -b $B -p 4").out.splitlines()
    assert first == f"update topic perm from 6 to 4 in {embedded.address} success."
    assert "readQueueNums=4" in second
    done = java(f"updateTopicPerm -t {topic} -c DefaultCluster -p 4")
    assert done.out == "new perm equals to the old one!\n"
    assert java(f"updateTopicPerm -t {topic} -p 4").status == 2


def test_delete_topic_removes_it_from_brokers_and_name_servers(java: Run, topic: str) -> None:
    done = java(f"deleteTopic -t {topic} -c DefaultCluster")
    assert done.out.splitlines() == [
        f"delete topic [{topic}] from cluster [DefaultCluster] success.",
        f"delete topic [{topic}] from NameServer success.",
    ]
    assert java(f"topicRoute -t {topic}").status == 1
    assert java(f"deleteTopic -t {topic} -c DefaultCluster").status == 1
    assert java("deleteTopic -t x -c NoSuch").status == 1


def test_changed_attributes_are_printed_with_their_sign(java: Run) -> None:
    done = java("updateTopic -b $B -t signed -a +message.type=FIFO")
    assert done.out.rstrip().endswith("attributes={+message.type=FIFO}]")
    assert "attributes={message.type=FIFO}" in java("updateTopic -b $B -t signed -r 3").out
