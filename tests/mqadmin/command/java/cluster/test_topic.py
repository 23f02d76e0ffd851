from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]


def test_topic_route_prints_the_route_as_json(java: Run, topic: str) -> None:
    done = java(f"topicRoute -t {topic}")
    assert done.status == 0
    assert done.out.startswith('{\n\t"brokerDatas":[\n\t\t{\n\t\t\t"brokerAddrs":{0:"127.0.0.1:')
    assert '\t\t\t"readQueueNums":4,\n' in done.out


def test_topic_route_as_a_list_has_a_total(java: Run, topic: str) -> None:
    header, row, rule, total = java(f"topicRoute -t {topic} -l").out.splitlines()
    assert header.split() == [
        *("#ClusterName", "#BrokerName", "#BrokerAddrs"),
        *("#ReadQueue", "#WriteQueue", "#Perm"),
    ]
    assert row.split()[:2] == ["DefaultCluster", "broker-a"]
    assert row.split()[3:] == ["4", "4", "6"]
    assert rule == "-" * 158
    assert total.split() == ["Total:", "1", "4", "4"]


def test_a_topic_without_a_route_is_status_1(java: Run) -> None:
    done = java("topicRoute -t NoSuch")
    assert (done.status, done.out) == (1, "")
    assert "TOPIC_NOT_EXIST" in done.err
