"""Which settings are secrets."""

import pytest

from broker.common.config.secrets import MASK, is_secret, mask_secrets
from broker.namesrv import config as namesrv_config
from broker.server.configuration import config as broker_config
from broker.server.configuration.settings import REPORTED
from broker.store import config as store_config


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("innerClientAuthenticationCredentials", '{"accessKey":"a","secretKey":"b"}'),
        ("initAuthenticationUser", '{"username":"a","password":"b"}'),
        ("tls.server.keyPassword", "x"),
        ("accessKey", "x"),
        ("ACCESS_KEY", "x"),
        ("secretKey", "x"),
        ("metricsGrpcExporterHeader", "Authorization:x,token:y"),
        ("apiToken", "x"),
        ("my.private-key", "x"),
        ("dbPasswd", "x"),
        ("someUrl", "jdbc:mysql://root:hunter2@db/mq"),
        ("plugin", "user=a;password=b"),
    ],
)
def test_secrets_are_masked(key: str, value: str) -> None:
    assert is_secret(key, value)
    assert mask_secrets({key: value, "brokerName": "a"}) == {key: MASK, "brokerName": "a"}
    assert mask_secrets({key: ""}) == {key: ""}


@pytest.mark.parametrize(
    "key",
    ["tls.server.keyPath", "tls.server.certPath", "brokerName", "namesrvAddr", "keyFile"],
)
def test_paths_and_names_are_shown(key: str) -> None:
    assert not is_secret(key, "/etc/rocketmq/server.key")


def test_no_setting_of_ours_is_masked() -> None:
    ours = {
        **broker_config.to_properties(broker_config.DEFAULTS),
        **store_config.to_properties(store_config.MessageStoreConfig()),
        **namesrv_config.to_properties(namesrv_config.DEFAULTS),
        **REPORTED,
    }
    assert mask_secrets(ours) == ours
