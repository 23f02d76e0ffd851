"""Producers, as brokers report them."""

from mqadmin.admin.facade import MQAdmin
from tests.support.online_clients import Online


def test_each_producer_is_listed_with_its_broker(online: Online, library: MQAdmin) -> None:
    (row,) = library.producer.list(group="shop").items
    assert row.client_id.startswith(online.client_id.partition("#")[0])
    assert row.broker_name == "broker-a"
    assert ":" in row.client_addr
    assert not row.client_addr.startswith("/")


def test_the_filter_by_group_leaves_out_others(library: MQAdmin) -> None:
    assert library.producer.list(group="none").items == []
    assert "shop" in {row.producer_group for row in library.producer.list().items}


def test_connections_of_a_group_are_merged_by_client(library: MQAdmin) -> None:
    found = library.producer.connections("shop")
    assert len(found.connections) == 1
    assert found.connections[0].brokers == ["broker-a"]


def test_a_group_without_producers_has_no_connections(library: MQAdmin) -> None:
    found = library.producer.connections("none")
    assert (found.connections, found.errors) == ([], [])
