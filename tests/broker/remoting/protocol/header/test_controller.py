"""Headers of the controller: wire names, types, required fields, defaults."""

import pytest

from broker.remoting.protocol.header import controller
from tests.support.header_fields import check_header, headers_of

# The notation is explained in tests/support/header_fields.py.
DECLARED = {
    controller.AlterSyncStateSetRequestHeader: (
        "brokerName:s!, masterBrokerId:l!, masterEpoch:i!, invokeTime:l?"
    ),
    controller.AlterSyncStateSetResponseHeader: "newSyncStateSetEpoch:i!",
    controller.ElectMasterRequestHeader: (
        "clusterName:s!, brokerName:s!, brokerId:l=-1, designateElect:b=false, invokeTime:l?"
    ),
    controller.ElectMasterResponseHeader: (
        "masterBrokerId:l?, masterAddress:s?, masterEpoch:i?, syncStateSetEpoch:i?"
    ),
    controller.RegisterBrokerToControllerRequestHeader: (
        "clusterName:s!, brokerName:s!, brokerId:l!, brokerAddress:s!, invokeTime:l?"
    ),
    controller.RegisterBrokerToControllerResponseHeader: (
        "clusterName:s?, brokerName:s?, masterBrokerId:l?, masterAddress:s?, masterEpoch:i?, "
        "syncStateSetEpoch:i?"
    ),
    controller.GetReplicaInfoRequestHeader: "brokerName:s!",
    controller.GetReplicaInfoResponseHeader: (
        "masterBrokerId:l?, masterAddress:s?, masterEpoch:i?"
    ),
    controller.GetMetaDataResponseHeader: (
        "group:s?, controllerLeaderId:s?, controllerLeaderAddress:s?, isLeader:b?, peers:s?"
    ),
    controller.CleanBrokerDataRequestHeader: (
        "clusterName:s?, brokerName:s!, brokerControllerIdsToClean:s?, "
        "isCleanLivingBroker:b=false, invokeTime:l?"
    ),
    controller.GetNextBrokerIdRequestHeader: "clusterName:s!, brokerName:s!",
    controller.GetNextBrokerIdResponseHeader: ("clusterName:s?, brokerName:s?, nextBrokerId:l?"),
    controller.ApplyBrokerIdRequestHeader: (
        "clusterName:s!, brokerName:s!, appliedBrokerId:l!, registerCheckCode:s!"
    ),
    controller.ApplyBrokerIdResponseHeader: "clusterName:s?, brokerName:s?",
}


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.__name__)
def test_the_fields_are_those_of_java(cls) -> None:
    check_header(cls, DECLARED[cls])


def test_every_header_of_the_module_is_declared() -> None:
    assert headers_of(controller) == set(DECLARED)
