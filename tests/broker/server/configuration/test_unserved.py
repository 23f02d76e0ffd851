"""Settings for durability, replication and security that are not implemented stop the start."""

import pytest

from broker.common.config.settings import refuse_unserved
from broker.errors import ConfigError
from broker.remoting.process.unserved import UNSERVED_TLS
from broker.server.configuration.unserved import UNSERVED_KEYS

DEFAULTS_OF_JAVA = {
    "aclEnable": "false",
    "authenticationEnabled": "false",
    "enableDLegerCommitLog": "false",
    "enableControllerMode": "false",
    "inSyncReplicas": "1",
    "totalReplicas": "1",
    "storeType": "default",
    "configManagerVersion": "v1",
    "messageStorePlugIn": "",
    "storePathCommitLog": "/store/commitlog",
}


@pytest.mark.parametrize("unserved", UNSERVED_KEYS, ids=lambda unserved: unserved.key)
def test_every_key_refuses_an_unknown_value_or_several_directories(unserved) -> None:
    value = "/a,/b" if unserved.key == "storePathCommitLog" else "something-else"
    with pytest.raises(ConfigError, match=unserved.key) as caught:
        refuse_unserved(UNSERVED_KEYS, {unserved.key: value})
    assert unserved.key in caught.value.hint


@pytest.mark.parametrize(("key", "value"), DEFAULTS_OF_JAVA.items())
def test_the_defaults_of_java_are_accepted(key: str, value: str) -> None:
    refuse_unserved(UNSERVED_KEYS, {key: value})


def test_all_tls_keys_are_included() -> None:
    assert {unserved.key for unserved in UNSERVED_TLS} <= {key.key for key in UNSERVED_KEYS}


def test_no_key_is_declared_twice() -> None:
    keys = [unserved.key for unserved in UNSERVED_KEYS]
    assert len(set(keys)) == len(keys)
