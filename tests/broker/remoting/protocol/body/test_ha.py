"""Bodies of replication and controller: names, defaults, terms."""

from broker.remoting.protocol.body.ha import (
    BrokerNameList,
    BrokerReplicasInfo,
    ElectMasterResponseBody,
    EpochEntry,
    EpochEntryCache,
    HAClientRuntimeInfo,
    HAConnectionRuntimeInfo,
    HARuntimeInfo,
    ReplicaIdentity,
    ReplicasInfo,
    SyncStateSet,
)
from broker.remoting.protocol.body.namesrv.cluster import BrokerMemberGroup


def test_a_master_reports_its_slaves() -> None:
    slave = HAConnectionRuntimeInfo(
        addr="10.0.0.2:40000", slave_ack_offset=900, diff=100, in_sync=True
    )
    body = HARuntimeInfo(
        master=True,
        master_commit_log_max_offset=1000,
        in_sync_slave_nums=1,
        ha_connection_info=[slave],
    ).to_bytes()
    assert (
        b'"haConnectionInfo":[{"addr":"10.0.0.2:40000","diff":100,"inSync":true,'
        b'"slaveAckOffset":900,"transferFromWhere":0,"transferredByteInSecond":0}]' in body
    )
    assert HARuntimeInfo.from_bytes(body).ha_connection_info == [slave]


def test_the_state_of_a_slave_is_called_activated() -> None:
    info = HAClientRuntimeInfo(master_addr="10.0.0.1:10912", is_activated=True)
    assert b'"activated":true' in info.to_bytes()
    assert HAClientRuntimeInfo.from_bytes(info.to_bytes()) == info
    assert b"activated" not in HAClientRuntimeInfo().to_bytes()


def test_the_sync_state_set_is_a_set_of_ids_with_an_epoch() -> None:
    body = b'{"syncStateSet":[1,2],"syncStateSetEpoch":3}'
    assert SyncStateSet.from_bytes(body) == SyncStateSet(
        sync_state_set=[1, 2], sync_state_set_epoch=3
    )


def test_an_election_returns_members_and_ids_in_sync() -> None:
    group = BrokerMemberGroup(cluster="C", broker_name="b", broker_addrs={1: "h:1"})
    body = ElectMasterResponseBody(broker_member_group=group, sync_state_set=[1])
    assert body.to_bytes() == (
        b'{"brokerMemberGroup":{"brokerAddrs":{1:"h:1"},"brokerName":"b","cluster":"C"},'
        b'"syncStateSet":[1]}'
    )


def test_replicas_are_listed_in_sync_and_not_in_sync() -> None:
    one = ReplicaIdentity(broker_name="b", broker_id=1, broker_address="h:1", alive=True)
    info = BrokerReplicasInfo(
        replicas_info_table={
            "b": ReplicasInfo(master_broker_id=1, in_sync_replicas=[one], master_epoch=4)
        }
    )
    assert BrokerReplicasInfo.from_bytes(info.to_bytes()) == info
    assert info.to_bytes() == (
        b'{"replicasInfoTable":{"b":{"inSyncReplicas":[{"alive":true,"brokerAddress":"h:1",'
        b'"brokerId":1,"brokerName":"b"}],"masterBrokerId":1,"masterEpoch":4,'
        b'"notInSyncReplicas":[]}}}'
    )


def test_the_current_term_has_no_end_yet() -> None:
    assert EpochEntry(epoch=2, start_offset=500).to_bytes() == (
        b'{"endOffset":9223372036854775807,"epoch":2,"startOffset":500}'
    )
    cache = EpochEntryCache(broker_name="b", epoch_list=[EpochEntry(epoch=2)], max_offset=500)
    assert EpochEntryCache.from_bytes(cache.to_bytes()) == cache


def test_broker_names_are_a_bare_array() -> None:
    assert BrokerNameList.from_bytes(b'["b-a","b-b"]').items == ["b-a", "b-b"]
    assert BrokerNameList(items=["x"]).to_bytes() == b'["x"]'
