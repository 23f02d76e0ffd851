"""Settings: the table, reading, writing, patching the file."""

import msgspec
import pytest

from broker.errors import ConfigError
from broker.namesrv import config as keys
from broker.namesrv.config import FIELD_OF_KEY, SETTINGS, NamesrvConfig
from broker.remoting.security.tls_settings import TLS_SETTINGS

EXAMPLES = {
    "bindAddress": "127.0.0.5",
    "listenPort": "9877",
    "kvConfigPath": "/tmp/kv.json",
    "configStorePath": "/tmp/namesrv.properties",
    "rocketmqHome": "/opt/rocketmq",
    "scanNotActiveBrokerInterval": "1000",
    "supportActingMaster": "true",
    "notifyMinBrokerIdChanged": "true",
    "orderMessageEnable": "true",
    "returnOrderTopicConfigToBroker": "false",
    "enableAllTopicList": "false",
    "enableTopicList": "false",
    "needWaitForService": "true",
    "waitSecondsForService": "5",
    "deleteTopicWithBrokerRegistration": "true",
    "configBlackList": "a;b",
    "clientRequestThreadPoolQueueCapacity": "10",
    "defaultThreadPoolQueueCapacity": "11",
    "serverChannelMaxIdleTimeSeconds": "60",
    "maxConnections": "12",
    "adminHosts": "192.0.2.7",
    "clusterMembers": "10.0.0.0/8",
    "allowRemoteAdmin": "true",
}


def test_every_field_is_documented_and_has_an_example() -> None:
    assert set(SETTINGS) == set(NamesrvConfig.__struct_fields__)
    tls = {setting.key for setting in TLS_SETTINGS.values()}
    assert set(EXAMPLES) == set(FIELD_OF_KEY) - tls  # those of TLS: test_tls_settings
    assert all(setting.meaning for setting in SETTINGS.values())


def test_every_example_is_read_and_written_back() -> None:
    config = keys.from_properties(EXAMPLES)
    defaults = keys.to_properties(NamesrvConfig())
    assert keys.to_properties(config) == {**defaults, **EXAMPLES}
    assert all(defaults[key] != value for key, value in EXAMPLES.items())


def test_unknown_keys_are_found_and_ignored() -> None:
    properties = {"listenPort": "1", "zzz": "1", "clusterTest": "false"}
    assert keys.unknown_keys(properties) == ["clusterTest", "zzz"]
    assert keys.from_properties(properties).listen_port == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("listenPort", "many"),
        ("listenPort", "70000"),
        ("listenPort", "-1"),
        ("enableTopicList", "yes"),
        ("scanNotActiveBrokerInterval", "5"),
        ("serverChannelMaxIdleTimeSeconds", "0"),
    ],
)
def test_an_invalid_value_is_reported_with_its_key(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        keys.from_properties({key: value})


@pytest.mark.parametrize("field", sorted(keys.SETTINGS))
def test_every_number_has_bounds_that_are_checked(field: str) -> None:
    setting, default = keys.SETTINGS[field], getattr(keys.DEFAULTS, field)
    if isinstance(default, bool) or not isinstance(default, int):
        assert setting.bounds is None
        return
    low, high = setting.bounds
    assert low <= default <= high
    for value in (low - 1, high + 1, -(1 << 70), 1 << 70):
        with pytest.raises(ConfigError) as caught:
            keys.from_properties({setting.key: str(value)})
        assert f"{setting.key}={value}: must be between {low} and {high}" in caught.value.message


def test_blanks_around_values_are_ignored() -> None:
    config = keys.from_properties({"listenPort": " 9 ", "enableTopicList": " FALSE "})
    assert (config.listen_port, config.enable_topic_list) == (9, False)


def test_paths_default_to_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/mq")
    assert NamesrvConfig().kv_path == "/home/mq/namesrv/kvConfig.json"
    assert NamesrvConfig().store_path == "/home/mq/namesrv/namesrv.properties"
    assert NamesrvConfig(kv_config_path="/x").kv_path == "/x"


def test_the_black_list_always_contains_itself_and_the_paths() -> None:
    config = msgspec.structs.replace(NamesrvConfig(), config_black_list="listenPort; ;")
    assert keys.black_list(config) == {
        "configBlackList",
        "configStorePath",
        "kvConfigPath",
        "rocketmqHome",
        "listenPort",
    }
