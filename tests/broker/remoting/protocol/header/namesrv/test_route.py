"""Headers of the name server: wire names, types, required fields, defaults."""

import pytest

from broker.remoting.protocol.header.namesrv import route
from tests.support.header_fields import check_header, headers_of

# The notation is explained in tests/support/header_fields.py.
DECLARED = {
    route.RegisterBrokerRequestHeader: (
        "brokerName:s!, brokerAddr:s!, clusterName:s!, haServerAddr:s!, brokerId:l!, "
        "heartbeatTimeoutMillis:l?, enableActingMaster:b?, compressed:b=false, bodyCrc32:i=0, "
        "__ZONE_NAME:s?"
    ),
    route.RegisterBrokerResponseHeader: "haServerAddr:s?, masterAddr:s?",
    route.UnregisterBrokerRequestHeader: (
        "brokerName:s!, brokerAddr:s!, clusterName:s!, brokerId:l!"
    ),
    route.QueryDataVersionRequestHeader: (
        "brokerName:s!, brokerAddr:s!, clusterName:s!, brokerId:l!"
    ),
    route.QueryDataVersionResponseHeader: "changed:b!",
    route.BrokerHeartbeatRequestHeader: (
        "clusterName:s!, brokerAddr:s!, brokerName:s!, brokerId:l?, epoch:i?, maxOffset:l?, "
        "confirmOffset:l?, heartbeatTimeoutMills:l?, electionPriority:i?"
    ),
    route.GetBrokerMemberGroupRequestHeader: "clusterName:s!, brokerName:s!",
    route.GetRouteInfoRequestHeader: (
        "topic:s!, acceptStandardJsonOnly:b?, __ZONE_MODE:b?, __ZONE_NAME:s?"
    ),
    route.GetTopicsByClusterRequestHeader: "cluster:s!",
    route.BrokerNameRequestHeader: "brokerName:s!",
    route.WipeWritePermResponseHeader: "wipeTopicCount:i!",
    route.AddWritePermResponseHeader: "addTopicCount:i!",
    route.DeleteTopicFromNamesrvRequestHeader: "topic:s!, clusterName:s?",
}


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.__name__)
def test_the_fields_are_those_of_java(cls) -> None:
    check_header(cls, DECLARED[cls])


def test_every_header_of_the_module_is_declared() -> None:
    assert headers_of(route) == set(DECLARED)
