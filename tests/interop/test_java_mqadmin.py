"""The real mqadmin works on our cluster: the commands an operator of the Java broker knows by heart."""

import re
from typing import Any

import pytest

Cluster = tuple[str, str]


@pytest.fixture(scope="module")
def filled(our_cluster: Cluster, peer_533: Any) -> dict[str, Any]:
    """A topic with messages, a group that consumed them, a producer that is still there."""
    namesrv, broker = our_cluster
    peer_533.mqadmin(
        *(
            "updateTopic",
            "-n",
            namesrv,
            "-c",
            "DefaultCluster",
            "-t",
            "Orders",
            "-r",
            "4",
            "-w",
            "4",
        )
    )
    sent = peer_533.produce(
        namesrv=namesrv, topic="Orders", count=12, tags="A,B", keys="order{i}", group="shop"
    )
    peer_533.ask("consume", consumer="till-1", namesrv=namesrv, topic="Orders", group="till")
    peer_533.messages("till-1", 12)
    return {"namesrv": namesrv, "broker": broker, "sent": sent}


def test_cluster_list(filled: dict[str, Any], peer: Any) -> None:
    text = peer.mqadmin("clusterList", "-n", filled["namesrv"])
    assert "DefaultCluster" in text
    assert "broker-a" in text
    assert filled["broker"] in text


def test_topic_list_and_route(filled: dict[str, Any], peer: Any) -> None:
    assert "Orders" in peer.mqadmin("topicList", "-n", filled["namesrv"]).split()
    assert re.search(
        r"DefaultCluster\s+Orders\s+till", peer.mqadmin("topicList", "-n", filled["namesrv"], "-c")
    )
    route = peer.mqadmin("topicRoute", "-n", filled["namesrv"], "-t", "Orders")
    assert '"writeQueueNums":4' in route.replace(" ", "")
    assert filled["broker"] in route


def test_topic_status(filled: dict[str, Any], peer: Any) -> None:
    text = peer.mqadmin("topicStatus", "-n", filled["namesrv"], "-t", "Orders")
    rows = [line.split() for line in text.splitlines() if line.startswith("broker-a")]
    assert [int(row[1]) for row in rows] == [0, 1, 2, 3]
    assert sum(int(row[3]) - int(row[2]) for row in rows) == 12


def test_update_and_delete_topic(filled: dict[str, Any], peer: Any) -> None:
    name = f"Temporary{peer.version.replace('.', '')}"
    namesrv = filled["namesrv"]
    text = peer.mqadmin("updateTopic", "-n", namesrv, "-b", filled["broker"], "-t", name, "-w", "3")
    assert "success" in text
    assert name in peer.mqadmin("topicList", "-n", namesrv).split()
    assert "success" in peer.mqadmin(
        "deleteTopic", "-n", namesrv, "-c", "DefaultCluster", "-t", name
    )
    assert name not in peer.mqadmin("topicList", "-n", namesrv).split()


def test_update_sub_group(filled: dict[str, Any], peer: Any) -> None:
    group = f"made-{peer.version.replace('.', '')}"
    text = peer.mqadmin(
        *("updateSubGroup", "-n", filled["namesrv"], "-b", filled["broker"], "-g", group, "-r", "5")
    )
    assert "success" in text
    assert "success" in peer.mqadmin(
        *("deleteSubGroup", "-n", filled["namesrv"], "-b", filled["broker"], "-g", group)
    )


def test_broker_status_and_config(filled: dict[str, Any], peer: Any) -> None:
    status = peer.mqadmin("brokerStatus", "-n", filled["namesrv"], "-b", filled["broker"])
    keys = {line.split(":", 1)[0].strip() for line in status.splitlines() if ":" in line}
    assert {"bootTimestamp", "brokerVersionDesc", "commitLogMaxOffset", "putTps"} <= keys
    config = peer.mqadmin("getBrokerConfig", "-n", filled["namesrv"], "-b", filled["broker"])
    assert re.search(r"brokerName\s*=\s*broker-a", config)
    assert re.search(r"flushDiskType\s*=\s*ASYNC_FLUSH", config)


def test_messages_are_found_by_every_handle(filled: dict[str, Any], peer: Any) -> None:
    namesrv, sent = filled["namesrv"], filled["sent"][5]
    by_id = peer.mqadmin("queryMsgById", "-n", namesrv, "-t", "Orders", "-i", sent["offsetMsgId"])
    assert "order5" in by_id
    by_key = peer.mqadmin("queryMsgByKey", "-n", namesrv, "-t", "Orders", "-k", "order5")
    assert sent["msgId"] in by_key
    by_uniq_key = peer.mqadmin(
        "queryMsgByUniqueKey", "-n", namesrv, "-t", "Orders", "-i", sent["msgId"]
    )
    assert "order5" in by_uniq_key
    by_offset = peer.mqadmin(
        *("queryMsgByOffset", "-n", namesrv, "-t", "Orders", "-b", "broker-a"),
        *("-i", str(sent["queueId"]), "-o", str(sent["queueOffset"])),
    )
    assert "order5" in by_offset


def test_print_msg(filled: dict[str, Any], peer: Any) -> None:
    text = peer.mqadmin("printMsg", "-n", filled["namesrv"], "-t", "Orders", "-d", "true")
    assert len(re.findall(r"MSGID", text)) >= 12


def test_consumer_progress(filled: dict[str, Any], peer: Any) -> None:
    text = peer.mqadmin("consumerProgress", "-n", filled["namesrv"], "-g", "till")
    rows = [line.split() for line in text.splitlines() if line.startswith("Orders")]
    assert [int(row[2]) for row in rows] == [0, 1, 2, 3]
    assert "Diff Total" in text


def test_consumer_connection(filled: dict[str, Any], peer: Any) -> None:
    text = peer.mqadmin("consumerConnection", "-n", filled["namesrv"], "-g", "till")
    assert "till-1" in text
    assert "Orders" in text
    assert "CONSUME_PASSIVELY" in text


def test_producer_connection(filled: dict[str, Any], peer: Any) -> None:
    # a producer is known after its first heartbeat; sending made the connection, this one is fresh
    text = ""
    for _ in range(60):
        try:
            text = peer.mqadmin(
                "producerConnection", "-n", filled["namesrv"], "-g", "shop", "-t", "Orders"
            )
        except AssertionError:
            continue
        if "JAVA" in text:
            break
    assert "JAVA" in text


def test_send_message(filled: dict[str, Any], peer: Any) -> None:
    text = peer.mqadmin(
        "sendMessage", "-n", filled["namesrv"], "-t", "Orders", "-p", "by hand", "-k", "hand"
    )
    assert "SEND_OK" in text
