from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.admin.broker import BrokerAdmin, ReplicationRecord
from mqadmin.admin.brokers.epochs import Epoch, EpochRecord
from mqadmin.admin.result import Listing

Run = Callable[..., Any]


def link(**fields: Any) -> ReplicationRecord:
    unknown = dict.fromkeys(ReplicationRecord.__struct_fields__)
    return ReplicationRecord(**{**unknown, "address": "10.0.0.1:10911", **fields})


def test_ha_status_of_a_master_without_slaves(java: Run, embedded: Any) -> None:
    rows = java("haStatus -b $B").out.splitlines()
    assert rows[:2] == ["", f"#MasterAddr\t{embedded.address}"]
    assert rows[2].startswith("#MasterCommitLogMaxOffset\t")
    assert rows[3:5] == ["#SlaveNum\t0", "#InSyncSlaveNum\t0"]
    assert rows[5].split() == [
        *("#SlaveAddr", "#SlaveAckOffset", "#Diff", "#TransferSpeed(KB/s)", "#Status"),
        "#TransferFromWhere",
    ]
    assert java("haStatus").status == 2


def test_ha_status_shows_each_slave_and_the_side_of_a_slave(
    java: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = [
        link(role="MASTER", peer="10.0.0.2:1", end_offset=90, ack_offset=80, gap_bytes=10,
             in_sync=False, bytes_per_second=2048),
        link(role="SLAVE", address="10.0.0.2:10911", peer="10.0.0.1:2", ack_offset=80),
    ]  # fmt: skip
    monkeypatch.setattr(BrokerAdmin, "ha", lambda *_, **__: Listing(items=links))
    rows = java("haStatus -c DefaultCluster").out.splitlines()
    assert rows[6].split() == ["10.0.0.2:1", "80", "10", "2.00", "Fall", "Behind", "-"]
    assert rows[8:] == [
        "#MasterAddr\t10.0.0.1:2",
        "#CommitLogMaxOffset\t80",
        "#TransferSpeed(KB/s)\t0.00",
        "#MasterFlushOffset\t-",
    ]


def test_get_broker_epoch_of_a_broker_without_a_controller_is_its_error(java: Run) -> None:
    done = java("getBrokerEpoch -b broker-a")
    assert (done.status, done.out) == (4, "")
    assert "GET_BROKER_EPOCH_CACHE" in done.err


def test_get_broker_epoch_prints_each_term(java: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    record = EpochRecord(
        cluster_name="C",
        broker_name="b",
        broker_id=1,
        address="10.0.0.1:1",
        max_offset=9,
        epochs=[Epoch(epoch=1, start_offset=0, end_offset=9)],
    )
    path = "mqadmin.command.java.cluster.replication.epochs"
    monkeypatch.setattr(path, lambda *_, **__: Listing(items=[record]))
    assert java("getBrokerEpoch -c C").out.splitlines() == [
        "",
        "#clusterName\tC",
        "#brokerName\tb",
        "#brokerAddr\t10.0.0.1:1",
        "#brokerId\t1",
        "#Epoch: EpochEntry{epoch=1, startOffset=0, endOffset=9}",
    ]
