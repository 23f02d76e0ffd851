"""Settings of replication: keys, bounds, and roles that contradict each other."""

import pytest

from broker.errors import ConfigError
from broker.remoting.protocol.rpc import Access
from broker.server.configuration import config as role
from broker.server.ha import config
from broker.server.ha.config import SETTINGS, HaConfig, access_rules, check_roles

EXAMPLES = {
    "haListenPort": "40912",
    "haMasterAddress": "10.0.0.1:10912",
    "haSendHeartbeatInterval": "4000",
    "haHousekeepingInterval": "30000",
    "haTransferBatchSize": "65536",
    "haMaxGapNotInSync": "1000000",
    "haFlowControlEnable": "true",
    "maxHaTransferByteInSecond": "5000",
    "slaveTimeout": "1000",
    "inSyncReplicas": "2",
    "minInSyncReplicas": "2",
    "enableAutoInSyncReplicas": "true",
    "allAckInSyncStateSet": "true",
    "haSlaveFallbehindMax": "1000000",
    "enableSlaveActingMaster": "true",
    "clusterMembers": "10.0.0.0/8",
}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=lambda one: one.key)
def test_each_setting_is_read_and_written(setting) -> None:
    text = EXAMPLES[setting.key]
    assert config.to_properties(config.from_properties({setting.key: text}))[setting.key] == text
    assert config.to_properties(HaConfig())[setting.key] != text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("haListenPort", "70000"),
        ("slaveTimeout", "0"),
        ("haTransferBatchSize", "99999999"),
        ("inSyncReplicas", "0"),
        ("haMasterAddress", "nowhere"),
        ("clusterMembers", "host.example"),
    ],
)
def test_an_invalid_value_is_named(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        config.from_properties({key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("inSyncReplicas", "2"),
        ("minInSyncReplicas", "2"),
        ("allAckInSyncStateSet", "true"),
        ("haSlaveFallbehindMax", "1000"),
    ],
)
def test_copies_need_a_synchronous_master(key: str, value: str) -> None:
    wanted = config.from_properties({key: value})
    with pytest.raises(ConfigError, match=f"{key}={value}: with brokerRole=ASYNC_MASTER"):
        check_roles(role.BrokerConfig(), wanted)
    check_roles(role.BrokerConfig(broker_role="SYNC_MASTER"), wanted)


def test_only_members_and_administrators_may_copy_the_log() -> None:
    rules = access_rules(
        role.BrokerConfig(admin_hosts="192.0.2.1"), HaConfig(cluster_members="10.1.0.0/16")
    )
    assert rules.level_of("10.1.2.3") == Access.MEMBER
    assert rules.level_of("192.0.2.1") == Access.ADMINISTRATOR
    assert rules.level_of("192.0.2.2") < Access.MEMBER
