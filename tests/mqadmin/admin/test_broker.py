"""Brokers: runtime information and configuration."""

import pytest

from broker.errors import ClientError
from broker.remoting.protocol.body.ha import (
    HAClientRuntimeInfo,
    HAConnectionRuntimeInfo,
    HARuntimeInfo,
)


def test_status_of_all_or_one(admin, broker_a, broker_b) -> None:
    assert len(admin.broker.status().items) == 2
    (record,) = admin.broker.status(broker="broker-b").items
    assert record.address == broker_b.address
    assert record.runtime["putTps"] == "1.5 2.0 3.0"
    assert list(record.runtime) == sorted(record.runtime)


def test_an_address_works_without_name_servers(cluster, broker_a) -> None:
    cluster.namesrvs[0].down = True
    (record,) = cluster.admin().broker.status(broker=broker_a.address).items
    assert record.broker_name is None
    assert record.runtime["brokerVersionDesc"] == "V5_3_3"


def test_an_address_outside_of_the_named_cluster_is_not_asked(admin, broker_a) -> None:
    (record,) = admin.broker.status(broker=broker_a.address, cluster="DefaultCluster").items
    assert record.broker_name == "broker-a"
    with pytest.raises(ClientError, match="no cluster is named nosuch"):
        admin.broker.status(broker=broker_a.address, cluster="nosuch")


def test_an_unknown_name_lists_the_known_ones(admin) -> None:
    with pytest.raises(ClientError, match="registered: broker-a, broker-b"):
        admin.broker.status(broker="nope")


def test_config_is_sorted_text(admin) -> None:
    record = admin.broker.config(broker="broker-a").items[0]
    assert record.config == {
        "flushDelayOffsetInterval": "10000",
        "useServerSideResetOffset": "true",
    }


def test_a_master_gives_one_record_per_slave_with_its_gap(admin, broker_a) -> None:
    broker_a.ha = HARuntimeInfo(
        master=True,
        master_commit_log_max_offset=900,
        ha_connection_info=[
            HAConnectionRuntimeInfo(addr="/10.0.0.7:1", slave_ack_offset=900, in_sync=True),
            HAConnectionRuntimeInfo(addr="10.0.0.8:2", slave_ack_offset=400, diff=500),
        ],
    )
    one, other = admin.broker.ha(broker="broker-a").items
    assert (one.role, one.peer, one.gap_bytes, one.in_sync) == ("MASTER", "10.0.0.7:1", 0, True)
    assert (other.end_offset, other.ack_offset, other.gap_bytes) == (900, 400, 500)
    assert not other.in_sync


def test_a_master_without_slaves_is_one_record_without_a_peer(admin, broker_a) -> None:
    broker_a.ha = HARuntimeInfo(master=True, master_commit_log_max_offset=900)
    (record,) = admin.broker.ha(broker="broker-a").items
    assert (record.role, record.peer, record.end_offset) == ("MASTER", None, 900)
    assert (record.gap_bytes, record.in_sync) == (None, None)


@pytest.mark.parametrize(("master_end", "gap"), [(0, None), (900, 500), (300, 0)])
def test_the_gap_of_a_slave_is_known_once_it_knows_its_masters_end(
    admin, broker_a, master_end: int, gap: int | None
) -> None:
    slave = HAClientRuntimeInfo(
        master_addr="10.0.0.1:10912",
        max_offset=400,
        master_flush_offset=master_end,
        is_activated=True,
    )
    broker_a.ha = HARuntimeInfo(ha_client_runtime_info=slave)
    (record,) = admin.broker.ha(broker="broker-a").items
    assert (record.role, record.peer, record.ack_offset) == ("SLAVE", "10.0.0.1:10912", 400)
    assert (record.gap_bytes, record.in_sync) == (gap, True)


def test_a_broker_before_5_0_is_an_error_beside_the_others(admin, broker_a, broker_b) -> None:
    broker_a.refuse(907, 3)
    found = admin.broker.ha()
    assert [item.address for item in found.items] == [broker_b.address]
    assert len(found.errors) == 1
