"""Targets: brokers that are read, brokers that are changed, and their names."""

import pytest

from broker.errors import ClientError
from broker.remoting.protocol.body.namesrv.route import BrokerData
from mqadmin.admin.topology import Topology


def data(name, **addresses):
    return BrokerData(
        broker_name=name, broker_addrs={int(key[1:]): text for key, text in addresses.items()}
    )


TOPOLOGY = Topology(
    {"C1": ["b", "a", "ghost"], "C2": ["z"]},
    {
        "a": data("a", i0="h:1", i1="h:2"),
        "b": data("b", i2="h:4", i1="h:3"),
        "z": data("z", i0="h:5"),
    },
)


def addresses(targets):
    return [target.address for target in targets]


def test_all_in_order_of_cluster_name_and_id() -> None:
    assert addresses(TOPOLOGY.all()) == ["h:1", "h:2", "h:3", "h:4", "h:5"]
    assert addresses(TOPOLOGY.all(cluster="C2")) == ["h:5"]
    assert addresses(TOPOLOGY.all(broker="a")) == ["h:1", "h:2"]


@pytest.mark.parametrize("select", [TOPOLOGY.all, TOPOLOGY.readers, TOPOLOGY.writers])
def test_a_broker_is_selected_only_in_the_named_cluster(select) -> None:
    assert addresses(select(cluster="C2", broker="z")) == ["h:5"]
    assert addresses(select(cluster="C1", broker="h:1")) == ["h:1"]
    for outside in ("z", "h:5", "10.0.0.7:10911"):
        with pytest.raises(ClientError, match=f"{outside} is not registered in cluster C1"):
            select(cluster="C1", broker=outside)
    with pytest.raises(ClientError, match="no cluster is named x"):
        select(cluster="x", broker="z")


def test_readers_prefer_the_master_then_the_smallest_id() -> None:
    assert addresses(TOPOLOGY.readers()) == ["h:1", "h:3", "h:5"]


def test_a_cluster_without_brokers_is_an_error_not_an_empty_result() -> None:
    with pytest.raises(ClientError, match="no broker is registered"):
        Topology({}, {}).readers()
    with pytest.raises(ClientError, match="no broker is registered"):
        Topology({}, {}).processes()
    assert Topology({}, {}).all() == []


def test_writers_are_masters() -> None:
    assert addresses(TOPOLOGY.writers(cluster="C1")) == ["h:1"]
    assert addresses(TOPOLOGY.writers(broker="h:5")) == ["h:5"]
    with pytest.raises(ClientError, match="no master among the brokers of b"):
        TOPOLOGY.writers(broker="b")


def test_an_unregistered_address_is_taken_at_its_word() -> None:
    (target,) = TOPOLOGY.writers(broker="10.0.0.7:10911")
    assert (target.address, target.broker_name, target.label) == (
        "10.0.0.7:10911",
        None,
        "10.0.0.7:10911",
    )


def test_names_that_fit_nothing() -> None:
    with pytest.raises(ClientError, match="no broker is named x"):
        TOPOLOGY.named("x")
    with pytest.raises(ClientError, match="no cluster is named x"):
        TOPOLOGY.all(cluster="x")


def test_the_only_cluster() -> None:
    with pytest.raises(ClientError, match="2 clusters"):
        TOPOLOGY.only_cluster()
    with pytest.raises(ClientError, match="no broker is registered"):
        Topology({}, {}).only_cluster()
    assert Topology({"C": ["z"]}, {"z": data("z", i0="h:5")}).only_cluster() == "C"
