"""Brokers: runtime information and configuration."""

import pytest

from broker.errors import ClientError


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


def test_an_unknown_name_lists_the_known_ones(admin) -> None:
    with pytest.raises(ClientError, match="registered: broker-a, broker-b"):
        admin.broker.status(broker="nope")


def test_config_is_sorted_text(admin) -> None:
    record = admin.broker.config(broker="broker-a").items[0]
    assert record.config == {
        "flushDelayOffsetInterval": "10000",
        "useServerSideResetOffset": "true",
    }
