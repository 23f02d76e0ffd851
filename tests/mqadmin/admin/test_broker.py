"""Brokers: runtime information, configuration, changes to it."""

import pytest

from broker.errors import ClientError
from broker.remoting.protocol.codes import RequestCode, ResponseCode


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


def test_config_change_reads_back(admin, broker_a) -> None:
    plan = admin.broker.plan_config({"flushDelayOffsetInterval": "9"}, broker="broker-a")
    assert plan.changes[0].before == {"flushDelayOffsetInterval": "10000"}
    assert admin.apply(plan).ok
    assert broker_a.config["flushDelayOffsetInterval"] == "9"


def test_an_unknown_key_is_refused_before_it_is_sent(admin, cluster) -> None:
    with pytest.raises(ClientError, match="knows no setting nope"):
        admin.broker.plan_config({"nope": "1"})
    assert not cluster.asked(RequestCode.UPDATE_BROKER_CONFIG)


def test_a_black_listed_key_is_a_refusal(admin, broker_a) -> None:
    broker_a.refuse(RequestCode.UPDATE_BROKER_CONFIG, ResponseCode.NO_PERMISSION, "black list")
    plan = admin.broker.plan_config({"flushDelayOffsetInterval": "9"}, broker="broker-a")
    (item,) = admin.apply(plan).items
    assert (item.status, item.error.response_code) == ("failed", 16)
