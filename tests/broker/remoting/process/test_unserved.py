"""TLS settings that would need TLS stop the start; those that allow plain connections do not."""

import pytest

from broker.common.config.settings import refuse_unserved
from broker.errors import ConfigError
from broker.remoting.process.unserved import UNSERVED_TLS


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("useTLS", "true"),
        ("tls.enable", "true"),
        ("tls.server.mode", "enforcing"),
        ("tls.server.need.client.auth", "require"),
        ("tls.server.authClient", "true"),
        ("tls.client.authServer", "true"),
        ("tls.server.mode", "unknown"),
    ],
)
def test_a_setting_that_needs_tls_is_refused_with_key_and_value(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}={value}") as caught:
        refuse_unserved(UNSERVED_TLS, {key: value})
    assert key in caught.value.hint


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("useTLS", "false"),
        ("tls.enable", "FALSE"),
        ("tls.server.mode", "disabled"),
        ("tls.server.mode", "permissive"),
        ("tls.server.need.client.auth", "none"),
        ("tls.server.need.client.auth", "optional"),
    ],
)
def test_a_setting_that_allows_plain_connections_is_accepted(key: str, value: str) -> None:
    refuse_unserved(UNSERVED_TLS, {key: value, "tls.server.keyPath": "/x"})


def test_each_key_is_declared_once() -> None:
    keys = [unserved.key for unserved in UNSERVED_TLS]
    assert len(set(keys)) == len(keys)
