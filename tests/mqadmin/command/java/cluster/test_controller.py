from collections.abc import Callable
from typing import Any

import pytest

from mqadmin.admin.controllers.library import (
    ControllerAdmin,
    ControllerMetadata,
    Election,
    ReplicaRecord,
    SyncStateRecord,
)

Run = Callable[..., Any]

REFUSED = [
    ("getControllerMetaData -a $B", "CONTROLLER_GET_METADATA_INFO"),
    ("getControllerConfig -a $B", "GET_CONTROLLER_CONFIG"),
    ("updateControllerConfig -a $B -k a -v b", "UPDATE_CONTROLLER_CONFIG"),
    ("getSyncStateSet -a $B -b broker-a", "CONTROLLER_GET_METADATA_INFO"),
    ("electMaster -a $B -b 1 -bn broker-a -c DefaultCluster", "CONTROLLER_GET_METADATA_INFO"),
    ("cleanBrokerMetadata -a $B -bn broker-a -c C -b 1;2", "CONTROLLER_GET_METADATA_INFO"),
    ("addBroker -c $B -b /x", "ADD_BROKER"),
    ("removeBroker -c $B -b c:n:1", "REMOVE_BROKER"),
]


@pytest.mark.parametrize(("line", "request_name"), REFUSED)
def test_a_peer_of_another_kind_refuses_and_is_named(
    java: Run, embedded: Any, line: str, request_name: str
) -> None:
    places = {"$B": embedded.address}
    done = java(line)
    assert (done.status, done.out) == (4, "")
    assert f"{request_name} ({places['$B']}): REQUEST_CODE_NOT_SUPPORTED" in done.err


def test_ids_and_targets_are_checked_before_anything_is_sent(java: Run) -> None:
    assert java("cleanBrokerMetadata -a $B -bn broker-a -c C -b x").status == 2
    assert java("cleanBrokerMetadata -a $B -bn broker-a").status == 2
    assert java("getSyncStateSet -a $B").status == 2
    assert java("getSyncStateSet -a $B -c NoSuch").status == 1
    assert java("removeBroker -c $B -b nope").status == 1


def test_answers_of_a_controller_are_printed_as_java_does(
    java: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = ReplicaRecord(broker_name="b", broker_id=1, broker_address="x:1", alive=True)
    state = SyncStateRecord(
        broker_name="b",
        master_broker_id=1,
        master_address="x:1",
        master_epoch=2,
        sync_state_set_epoch=3,
        in_sync=[member],
        not_in_sync=[],
    )
    meta = ControllerMetadata(group="g", leader_id="n0", leader_address="x:2", peers="n0-x:2;n1-y")
    elected = Election(
        broker_name="b",
        master_broker_id=1,
        master_address="x:1",
        master_epoch=2,
        sync_state_set_epoch=3,
        members={1: "x:1"},
    )
    for name, value in (
        ("sync_states", [state]),
        ("metadata", meta),
        ("elect", elected),
        ("config", {"a": "1"}),
    ):
        monkeypatch.setattr(ControllerAdmin, name, lambda *_, value=value: value)
    rows = java("getSyncStateSet -a $B -b b").out.splitlines()
    assert rows[1:3] == ["#brokerName\tb", "#MasterBrokerId\t1"]
    assert rows[-1].startswith("InSyncReplica:\tReplicaIdentity{brokerName='b', brokerId=1, ")
    rows = java("getControllerMetaData -a $B").out.splitlines()
    assert rows[-2:] == ["#Peer:\tn0-x:2", "#Peer:\tn1-y"]
    rows = java("electMaster -a $B -b 1 -bn b -c C").out.splitlines()
    assert rows[-1] == "\t#Broker\t1\tx:1"
    rows = java("getControllerConfig -a $B").out.splitlines()
    assert rows[-1] == f"{'a':<50}=  1"
