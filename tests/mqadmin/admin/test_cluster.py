"""Clusters: every broker process, with and without its runtime information."""

from broker.remoting.protocol.codes import RequestCode
from mqadmin.admin.cluster import cluster_record, first_number, whole_number
from mqadmin.admin.topology import Target


def test_every_process_has_a_line(admin, cluster) -> None:
    cluster.add("broker-a", broker_id=1)
    rows = [(r.broker_name, r.broker_id, r.in_tps) for r in admin.cluster.list().items]
    assert rows == [("broker-a", 0, 1.5), ("broker-a", 1, 1.5), ("broker-b", 0, 1.5)]


def test_a_dead_broker_keeps_its_line(admin, broker_b) -> None:
    broker_b.down = True
    listing = admin.cluster.list()
    assert [record.version for record in listing.items] == ["V5_3_3", None]
    assert [error.target for error in listing.errors] == ["broker-b"]


def test_without_status_brokers_are_not_asked(admin, cluster) -> None:
    assert len(admin.cluster.list(status=False).items) == 2
    assert not cluster.asked(RequestCode.GET_BROKER_RUNTIME_INFO)


def test_a_4_9_broker_has_other_words() -> None:
    target = Target(address="h:1", cluster_name="c", broker_name="b", broker_id=0)
    record = cluster_record(
        target,
        {
            "brokerVersion": "409",
            "getTransferedTps": "7.0 8.0 9.0",
            "earliestMessageTimeStamp": "-1",
            "commitLogDiskRatio": "no number",
        },
    )
    assert (record.version, record.out_tps) == ("V4_9_8", 7.0)
    assert record.earliest_message_timestamp is None
    assert record.commit_log_disk_ratio is None
    assert record.active is None


def test_numbers_in_texts() -> None:
    assert first_number("1.5 2.5") == 1.5
    assert first_number("") is None
    assert first_number(None) is None
    assert whole_number("12") == 12
    assert whole_number("x") is None
