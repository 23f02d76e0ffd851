"""TLS settings: Java's names, contradictions."""

import msgspec
import pytest

from broker.common.config.settings import read_settings, write_settings
from broker.errors import ConfigError
from broker.remoting.security.tls_settings import TLS_SETTINGS, TlsConfig, check_tls

EXAMPLES = {
    "tls.server.mode": "enforcing",
    "tls.server.certPath": "/c",
    "tls.server.keyPath": "/k",
    "tls.server.keyPassword": "p",
    "tls.server.need.client.auth": "require",
    "tls.server.authClient": "true",
    "tls.server.trustCertPath": "/t",
    "tls.enable": "true",
    "tls.client.certPath": "/cc",
    "tls.client.keyPath": "/ck",
    "tls.client.keyPassword": "cp",
    "tls.client.authServer": "false",
    "tls.client.trustCertPath": "/ct",
}


def test_each_field_has_a_setting_with_its_java_name() -> None:
    assert set(TLS_SETTINGS) == {field.name for field in msgspec.structs.fields(TlsConfig)}
    keys = [setting.key for setting in TLS_SETTINGS.values()]
    assert all(key.startswith("tls.") for key in keys)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"tls_server_mode": "strict"}, r"tls\.server\.mode=strict: unknown mode"),
        ({"tls_server_mode": "enforcing"}, r"tls\.server\.mode=enforcing: no certificate"),
        ({"tls_server_need_client_auth": "maybe"}, "need.client.auth=maybe: unknown value"),
        ({"tls_server_need_client_auth": "require"}, "no certificate of a client would be"),
        ({"tls_server_auth_client": True}, "nothing to verify with"),
        ({"tls_server_cert_path": "a"}, r"tls\.server\.certPath and tls\.server\.keyPath"),
        ({"tls_client_key_path": "a"}, r"tls\.client\.certPath and tls\.client\.keyPath"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(changes: dict, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        check_tls(TlsConfig(**changes))
    assert caught.value.hint


def test_every_setting_is_read_and_written_back() -> None:
    config = read_settings(TLS_SETTINGS, EXAMPLES, TlsConfig())
    check_tls(config)
    assert write_settings(TLS_SETTINGS, config) == EXAMPLES
    defaults = write_settings(TLS_SETTINGS, TlsConfig())
    assert all(defaults[key] != value for key, value in EXAMPLES.items())
