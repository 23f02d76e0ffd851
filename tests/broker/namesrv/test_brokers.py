"""Broker groups, liveness entries and registrations."""

from broker.namesrv.brokers import MASTER_ID, BrokerGroup, BrokerLive
from broker.remoting.protocol.body.version import DataVersion


def test_a_group_has_a_master_iff_broker_id_0_is_registered() -> None:
    group = BrokerGroup("C", "a")
    assert not group.has_master
    group.addresses[1] = "10.0.0.2:10911"
    assert not group.has_master
    group.addresses[MASTER_ID] = "10.0.0.1:10911"
    assert group.has_master


def test_broker_data_lists_the_ids_in_order() -> None:
    group = BrokerGroup("C", "a")
    group.addresses = {2: "z:1", 0: "y:1", 1: "x:1"}
    group.acting_master = True
    group.zone = "z1"
    data = group.data()
    assert list(data.broker_addrs.items()) == [(0, "y:1"), (1, "x:1"), (2, "z:1")]
    assert (data.cluster, data.broker_name) == ("C", "a")
    assert (data.enable_acting_master, data.zone_name) == (True, "z1")
    group.addresses.clear()
    assert data.broker_addrs  # a copy: later changes of the group do not alter it


def test_a_liveness_entry_keeps_its_connection() -> None:
    channel = object()
    live = BrokerLive(1, 120_000, DataVersion(), channel, "10.0.0.1:10912")
    assert live.channel is channel


def test_a_registration_is_keyed_by_cluster_and_address(make_registration) -> None:
    assert make_registration("T").key == ("C", "10.0.0.1:10911")
