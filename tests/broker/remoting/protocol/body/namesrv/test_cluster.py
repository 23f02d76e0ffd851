"""Cluster bodies: broker ids are unquoted integers, in every release."""

import pytest

from broker.remoting.protocol.body.namesrv.cluster import (
    BrokerMemberGroup,
    ClusterInfo,
    GetBrokerMemberGroupResponseBody,
)
from broker.remoting.protocol.body.namesrv.route import BrokerData

CLUSTERS = (
    b'{"brokerAddrTable":{"b-a":{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},'
    b'"brokerName":"b-a","cluster":"C","enableActingMaster":false}},'
    b'"clusterAddrTable":{"C":["b-a"]}}'
)


def test_cluster_info_maps_names_to_brokers_and_clusters_to_names() -> None:
    info = ClusterInfo.from_bytes(CLUSTERS)
    assert info.cluster_addr_table == {"C": ["b-a"]}
    assert info.broker_addr_table == {
        "b-a": BrokerData(
            cluster="C",
            broker_name="b-a",
            broker_addrs={0: "10.0.0.1:10911", 1: "10.0.0.2:10911"},
            enable_acting_master=False,
        )
    }
    assert info.to_bytes() == CLUSTERS


@pytest.mark.parametrize("key", [b"0", b'"0"'])
def test_broker_ids_are_read_with_and_without_quotes(key: bytes) -> None:
    body = b'{"brokerAddrTable":{"b":{"brokerAddrs":{' + key + b':"h:1"},"brokerName":"b"}}}'
    assert ClusterInfo.from_bytes(body).broker_addr_table["b"].broker_addrs == {0: "h:1"}


def test_a_member_group_is_wrapped_in_an_object() -> None:
    group = BrokerMemberGroup(cluster="C", broker_name="b", broker_addrs={2: "h:1"})
    body = GetBrokerMemberGroupResponseBody(broker_member_group=group)
    assert body.to_bytes() == (
        b'{"brokerMemberGroup":{"brokerAddrs":{2:"h:1"},"brokerName":"b","cluster":"C"}}'
    )
    assert GetBrokerMemberGroupResponseBody.from_bytes(b"{}").broker_member_group is None
