"""Answers of a real 5.3.3 cluster, as recorded when Java's mqadmin asked: we read the same."""

import pytest

from mqadmin.admin.message.record import BodyView

UNIQ = "C000020267B44E0E2F2A64BC714B0001"


@pytest.fixture(params=["5.3.3", "4.9.8"])
def tool(request, replay):
    """Recordings of the two releases of Java's tool, both against the 5.3.3 cluster."""
    return lambda *labels: replay(*labels, version=request.param)


def test_cluster_list(tool) -> None:
    (record,) = tool("clusterList").cluster.list().items
    assert (record.cluster_name, record.broker_name, record.broker_id) == (
        "DefaultCluster",
        "broker-a",
        0,
    )
    assert (record.address, record.version) == ("127.0.0.2:40911", "V5_3_3")
    assert 0 < record.commit_log_disk_ratio < 1
    assert record.active is True


def test_topic_route(tool) -> None:
    route = tool("topicRoute").topic.route("AdmTopic")
    assert route.brokers[0].broker_addrs == {"0": "127.0.0.2:40911"}
    (queue,) = route.queues
    assert (queue.perm, queue.topic_sys_flag) == (6, 0)
    assert queue.read_queue_nums == queue.write_queue_nums


def test_topic_status(replay) -> None:
    items = replay("topicStatus").topic.status("RecAdm").items
    assert [(i.queue_id, i.min_offset, i.max_offset) for i in items] == [
        (0, 0, 3),
        (1, 0, 3),
        (2, 0, 4),
        (3, 0, 4),
    ]
    assert items[3].last_update_timestamp % 1000 == 624


def test_topic_list_with_configurations(replay) -> None:
    listing = replay("exportMetadata").topic.list(include_system=False)
    table = {record.topic: record for record in listing.items}
    assert table["RecAdm"].read_queue_nums == 4
    assert table["RecAdm"].cluster_name == "DefaultCluster"
    assert not listing.errors


def test_groups(replay) -> None:
    admin = replay("getConsumerConfig")
    (record,) = admin.group.show("AdmGroup").items
    assert (record.consume_from_min_enable, record.consume_broadcast_enable) == (False, False)
    assert (record.retry_max_times, record.consume_timeout_minute) == (16, 15)
    assert record.group_retry_policy == {"type": "CUSTOMIZED"}


def test_connections(replay) -> None:
    found = replay("clusterList", "consumerConnection").consumer.connections("OnlineGroup")
    (client,) = found.connections
    assert (client.client_id, client.client_addr) == ("127.0.0.1@online", "127.0.0.1:56072")
    assert (client.language, client.version) == ("JAVA", "V5_3_3")
    assert {one.topic: one.sub_string for one in found.subscriptions} == {
        "RecAdm": "*",
        "%RETRY%OnlineGroup": "*",
    }
    assert found.consume_from_where == "CONSUME_FROM_LAST_OFFSET"


def test_an_offline_group_is_reported(replay) -> None:
    found = replay("clusterList", "consumerConnection-offline").consumer.connections("AdmGroup")
    assert (found.connections, found.errors) == ([], [])


def test_lag(replay) -> None:
    admin = replay("clusterList", "consumerProgress", "topicStatus")
    rows = [
        (i.topic, i.queue_id, i.broker_offset, i.consumer_offset, i.lag, i.inflight)
        for i in admin.consumer.lag("OnlineGroup").items
    ]
    assert rows == [
        ("%RETRY%OnlineGroup", 0, 0, 0, 0, 0),
        ("RecAdm", 0, 3, 3, 0, 0),
        ("RecAdm", 1, 3, 3, 0, 0),
        ("RecAdm", 2, 4, 4, 0, 0),
        ("RecAdm", 3, 4, 4, 0, 0),
    ]


def test_query_by_key(replay) -> None:
    result = replay("queryMsgByKey").message.query_key("RecAdm", "key1")
    assert [(i.uniq_key, i.queue_id, i.queue_offset) for i in result.items] == [
        ("C000020255B64E0E2F2A64BBB3D30001", 2, 0),
        (UNIQ, 3, 1),
    ]


def test_query_by_key_that_is_not_there(replay) -> None:
    result = replay("queryMsgByKey", "queryMsgByKey-nothing").message.query_key(
        "RecAdm", "nosuchkey"
    )
    assert result.kind == "notInIndex"


def test_query_by_unique_key(replay) -> None:
    (record,) = replay("queryMsgByUniqueKey").message.query_id(UNIQ, topic="RecAdm").items
    assert (record.tags, record.keys, record.physical_offset) == ("TagB", ["key1"], 23754)
    assert (record.born_host, record.store_host) == ("127.0.0.1:58190", "127.0.0.2:40911")
    assert record.properties["colour"] == "blue"
    assert record.crc_ok


def test_query_by_offset_id(replay) -> None:
    admin = replay("queryMsgById", "clusterList")
    result = admin.message.query_id(
        "7F00000200009FCF0000000000005CCA", topic="RecAdm", body=BodyView(encoding="text")
    )
    (record,) = result.items
    assert (record.queue_id, record.queue_offset, record.uniq_key) == (3, 1, UNIQ)
    assert record.broker_name == "broker-a"
    assert record.body


def test_query_by_queue_offset(replay) -> None:
    (record,) = replay("queryMsgByOffset").message.query_offset("RecAdm", 3, 1).items
    assert record.offset_msg_id == "7F00000200009FCF0000000000005CCA"


def test_broker_status_and_config(replay) -> None:
    (status,) = replay("brokerStatus-c").broker.status().items
    assert status.runtime["brokerVersionDesc"] == "V5_3_3"
    (config,) = replay("getBrokerConfig-c").broker.config().items
    assert config.config["brokerName"] == "broker-a"
    assert len(config.config) > 300
