"""Headers of a broker: wire names, types, required fields, defaults."""

import pytest

from broker.remoting.protocol.header import broker
from tests.support.header_fields import check_header, headers_of

# The notation is explained in tests/support/header_fields.py.
DECLARED = {
    broker.GetBrokerConfigResponseHeader: "version:s!",
    broker.SetCommitLogReadModeRequestHeader: "READ_AHEAD_MODE:s!",
    broker.ExportRocksdbConfigRequestHeader: "configType:s!",
    broker.ExchangeHAInfoHeader: (
        "masterHaAddress:s?, masterFlushOffset:l?, masterAddress:s?,"
        " replicaConnection:s?, replicaAddress:s?"  # of this project
    ),
    broker.ResetMasterFlushOffsetRequestHeader: "masterFlushOffset:l!",
    broker.NotifyMinBrokerIdChangeRequestHeader: (
        "minBrokerId:l?, brokerName:s?, minBrokerAddr:s?, offlineBrokerAddr:s?, haBrokerAddr:s?"
    ),
    broker.NotifyBrokerRoleChangedRequestHeader: (
        "masterAddress:s?, masterEpoch:i?, syncStateSetEpoch:i?, masterBrokerId:l?"
    ),
    broker.AddBrokerRequestHeader: "configPath:s!",
    broker.RemoveBrokerRequestHeader: "brokerName:s!, brokerClusterName:s!, brokerId:l!",
}


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.__name__)
def test_the_fields_are_those_of_java(cls) -> None:
    check_header(cls, DECLARED[cls])


def test_every_header_of_the_module_is_declared() -> None:
    assert headers_of(broker) == set(DECLARED)
