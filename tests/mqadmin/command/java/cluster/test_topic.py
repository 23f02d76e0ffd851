import json
import re
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


def test_topic_list_has_one_name_per_line_or_its_groups(java: Run, topic: str) -> None:
    assert topic in java("topicList").out.splitlines()
    header, *rows = java("topicList -c").out.splitlines()
    assert header.split("#")[1:] == [
        f"{'Cluster Name':<21}",
        f"{'Topic':<65}",
        f"{'Consumer Group':<63}",
    ]
    assert any(row.split() == ["DefaultCluster", topic] for row in rows)


def test_topic_cluster_list_prints_the_clusters(java: Run, topic: str) -> None:
    assert java(f"topicClusterList -t {topic}").out == "DefaultCluster\n"


def test_topic_status_prints_each_queue_and_the_rate(java: Run, topic: str) -> None:
    java(f"msg send {topic} --queue 1 --body x")
    header, *rows, blank, rate = java(f"topicStatus -t {topic}").out.splitlines()
    assert header.startswith("#Broker Name                      #QID  #Min Offset           #Max")
    assert [row.split()[:4] for row in rows] == [
        ["broker-a", str(queue_id), "0", "1" if queue_id == 1 else "0"] for queue_id in range(4)
    ]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", " ".join(rows[1].split()[4:]))
    assert (blank, rate.startswith("Topic Put TPS: ")) == ("", True)


def test_topic_status_of_an_lmq_uses_the_route_of_its_parent(java: Run, topic: str) -> None:
    assert java("topicStatus -t %LMQ%one").status == 1
    assert "TOPIC_NOT_EXIST" in java(f"topicStatus -t %LMQ%one -c {topic}").err


def test_query_cq_prints_the_units(java: Run, topic: str) -> None:
    java(f"msg send {topic} --queue 0 --body x --tag A")
    lines = java(f"queryCq -t {topic} -q 0 -i 0 -c 3").out.splitlines()
    assert lines[:4] == ["Queue data: ", "max: 1, min: 0", "=" * 38, "idx: 0"]
    assert re.fullmatch(
        r"ConsumeQueueData\{physicOffset=\d+, physicSize=\d+, tagsCode=65, extendDataJson='null', "
        r"bitMap='null', eval=false, msg='null'\}",
        lines[4],
    )


def test_allocate_mq_prints_json(java: Run, topic: str) -> None:
    result = json.loads(java(f"allocateMQ -t {topic} -i b,a").out)["result"]
    assert list(result) == ["a", "b"]
    assert result["a"][0] == {"brokerName": "broker-a", "queueId": 0, "topic": topic}


def test_an_order_configuration_is_put_got_and_deleted(java: Run) -> None:
    assert java("updateOrderConf -t ordered -m get").status == 1
    done = java("updateOrderConf -t ordered -m put -v broker-a:4")
    assert done.out == "update orderConf success. topic=[ordered], orderConf=[broker-a:4]\n"
    done = java("updateOrderConf -t ordered -m get")
    assert done.out == "get orderConf success. topic=[ordered], orderConf=[broker-a:4] \n"
    done = java("updateOrderConf -t ordered -m delete")
    assert done.out == "delete orderConf success. topic=[ordered]\n"
    assert java("updateOrderConf -t ordered -m put").status == 2
    assert java("updateOrderConf -t ordered -m GET").status == 2


def test_a_name_server_that_does_not_respond_is_status_3(java: Run) -> None:
    done = java("topicRoute -t T -n 127.0.0.1:1")
    assert (done.status, done.out) == (3, "")
    assert "127.0.0.1:1" in done.err
