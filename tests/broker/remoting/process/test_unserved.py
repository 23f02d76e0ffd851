"""TLS keys that are not read stop the start; values without an effect do not."""

import pytest

from broker.common.config.settings import refuse_unserved
from broker.errors import ConfigError
from broker.remoting.process.unserved import UNSERVED_TLS


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("useTLS", "true"),
        ("tls.config.file", "/etc/rocketmq/tls.properties"),
    ],
)
def test_a_key_that_is_not_read_is_refused_with_key_and_value(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}={value}") as caught:
        refuse_unserved(UNSERVED_TLS, {key: value})
    assert key in caught.value.hint


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("useTLS", "false"),
        ("useTLS", "FALSE"),
        ("tls.config.file", ""),
    ],
)
def test_a_value_without_an_effect_is_accepted(key: str, value: str) -> None:
    refuse_unserved(UNSERVED_TLS, {key: value, "tls.server.keyPath": "/x"})


def test_each_key_is_declared_once() -> None:
    keys = [unserved.key for unserved in UNSERVED_TLS]
    assert len(set(keys)) == len(keys)
