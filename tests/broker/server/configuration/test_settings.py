"""Settings: sources, owners, origins, changes."""

from pathlib import Path

import pytest

from broker.common.config.properties import read_properties
from broker.common.config.settings import UnservedKey
from broker.errors import ConfigError
from broker.server.configuration.settings import REPORTED, Settings
from broker.server.configuration.unserved import UNSERVED_KEYS

REAL_FILE = """\
# a broker.conf of the RocketMQ distribution
brokerClusterName = DefaultCluster
brokerName = broker-b
brokerId = 0
deleteWhen = 04
fileReservedTime = 48
brokerRole = ASYNC_MASTER
flushDiskType = SYNC_FLUSH
sendMessageThreadPoolNums=16
useReentrantLockWhenPutMessage=true
"""


@pytest.fixture
def real_file(tmp_path: Path) -> str:
    path = tmp_path / "broker.conf"
    path.write_text(REAL_FILE, encoding="utf-8")
    return str(path)


def test_real_file_is_split_among_its_owners(real_file) -> None:
    settings = Settings(read_properties(real_file), path=real_file)
    assert settings.broker.broker_name == "broker-b"
    assert settings.store.flush_disk_type == "SYNC_FLUSH"
    assert settings.store.file_reserved_time == 48
    assert settings.unknown == ["sendMessageThreadPoolNums", "useReentrantLockWhenPutMessage"]


def test_unknown_keys_are_kept_and_named_once(real_file, caplog) -> None:
    settings = Settings(read_properties(real_file))
    settings.warn_unknown()
    (record,) = caplog.records
    assert "sendMessageThreadPoolNums" in record.getMessage()
    assert settings.shown()["sendMessageThreadPoolNums"] == "16"


def test_without_unknown_keys_nothing_is_logged(caplog) -> None:
    Settings({"brokerName": "b"}).warn_unknown()
    assert caplog.records == []


def test_effective_values_take_precedence_over_written_ones() -> None:
    settings = Settings({"listenPort": "10911", "diskMaxUsedSpaceRatio": "99"})
    settings.set_address("127.0.0.1", 4711, origin="--listen")
    shown = settings.shown()
    assert shown["listenPort"] == "4711"
    assert shown["diskMaxUsedSpaceRatio"] == "95", "clamped as Java clamps it"
    assert settings.origin("listenPort") == "--listen"
    assert settings.origin("brokerName") == "default"


def test_reported_keys_can_be_written_without_effect() -> None:
    settings = Settings({"useEpollNativeSelector": "true"})
    assert settings.unknown == []
    assert settings.shown()["useEpollNativeSelector"] == "true"
    assert set(REPORTED) <= set(settings.shown())


def test_wrong_value_of_either_owner() -> None:
    with pytest.raises(ConfigError, match="listenPort"):
        Settings({"listenPort": "x"})
    with pytest.raises(ConfigError, match="flushDiskType"):
        Settings({"flushDiskType": "SOMETIMES"})


def test_update_without_file_stays_in_memory() -> None:
    settings = Settings({})
    settings.update({"longPollingEnable": "false", "unknown": "1"}, 7)
    assert settings.broker.long_polling_enable is False
    assert (settings.version.counter, settings.version.timestamp) == (1, 7)
    settings.update({"unknown": "1"}, 8)
    assert settings.version.counter == 1


def test_name_server_of_the_same_process() -> None:
    settings = Settings({"namesrvAddr": "elsewhere:1"})
    settings.set_name_server("127.0.0.1:9876")
    assert settings.broker.namesrv_addr == "127.0.0.1:9876"
    assert settings.origin("namesrvAddr") == "--standalone"


@pytest.mark.parametrize("line", ["namesrvAddr=nonsense", "namesrvAddr=a:1;b:x"])
def test_address_that_is_none_is_refused(line: str) -> None:
    key, _, value = line.partition("=")
    with pytest.raises(ConfigError, match=key):
        Settings({key: value})


UNSERVED = [
    "aclEnable=true",
    "authenticationEnabled=TRUE",
    "authorizationEnabled=true",
    "useTLS=true",
    "tls.config.file=/etc/rocketmq/tls.properties",
    "tls.server.mode=enforcing",
    "tls.server.need.client.auth=require",
    "tls.server.authClient=true",
    "enableDLegerCommitLog=true",
    "enableControllerMode=true",
    "inSyncReplicas=2",
    "totalReplicas=2",
    "totalReplicas=3",
    "allAckInSyncStateSet=true",
    "enableRemoteEscape=true",
    "duplicationEnable=true",
    "storeType=defaultRocksDB",
    "configManagerVersion=v2",
    "messageStorePlugIn=org.apache.rocketmq.tieredstore.TieredMessageStore",
    "enabledAppendPropCRC=true",
    "forceVerifyPropCRC=true",
    "readOnlyCommitLogStorePaths=/disk1",
    "storePathCommitLog=/disk1,/disk2",
    "brokerRole=SLAVE",
    "brokerId=1",
]


@pytest.mark.parametrize("line", UNSERVED)
def test_promise_that_is_not_kept_stops_the_start(line: str) -> None:
    """Durability, replication, security: the error names key, value, reason, remedy."""
    key, _, value = line.partition("=")
    with pytest.raises(ConfigError) as caught:
        Settings({key: f" {value} "})
    assert caught.value.message.startswith(f"{line}: ")
    assert f"{key}=" in caught.value.hint


def test_every_refused_key_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        Settings({"brokerRole": "SYNC_MASTER", "totalReplicas": "2", "useTLS": "true"})
    assert "totalReplicas=2: " in caught.value.message
    assert "useTLS=true: " in caught.value.message
    assert "useTLS=false, totalReplicas=1" in caught.value.hint


@pytest.mark.parametrize("key", UNSERVED_KEYS, ids=lambda key: key.key)
def test_value_that_asks_for_nothing_is_accepted(key: UnservedKey) -> None:
    for value in (key.default, key.default.upper(), ""):
        assert Settings({key.key: value}).unknown == []


def test_a_synchronous_master_without_slaves_is_reported(caplog) -> None:
    """RocketMQ 5 with inSyncReplicas=1 does not wait either; RocketMQ 4 does."""
    Settings({"brokerRole": "SYNC_MASTER"}).warn_unknown()
    assert "brokerRole=SYNC_MASTER" in caplog.text
