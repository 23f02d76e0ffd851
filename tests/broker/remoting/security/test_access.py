"""Access levels by address."""

import pytest

from broker.errors import ConfigError
from broker.remoting.protocol.rpc import Access
from broker.remoting.security.access import AccessRules


@pytest.mark.parametrize(
    ("host", "level"),
    [
        ("127.0.0.1", Access.ADMINISTRATOR),
        ("::1", Access.ADMINISTRATOR),
        ("192.0.2.7", Access.ADMINISTRATOR),
        ("2001:db8::1", Access.ADMINISTRATOR),
        ("10.1.255.1", Access.MEMBER),
        ("10.2.0.1", Access.CLIENT),
        ("192.0.2.8", Access.CLIENT),
        ("0.0.0.0", Access.CLIENT),
        ("/run/socket", Access.CLIENT),
    ],
)
def test_the_level_follows_from_the_address(host: str, level: Access) -> None:
    rules = AccessRules(admin_hosts="192.0.2.7; 2001:db8::/32", cluster_members="10.1.0.0/16,")
    assert rules.level_of(host) is level


def test_without_lists_only_loopback_is_more_than_a_client() -> None:
    assert AccessRules().level_of("10.1.1.1") is Access.CLIENT
    assert AccessRules(allow_remote_admin=True).level_of("10.1.1.1") is Access.ADMINISTRATOR


@pytest.mark.parametrize("entry", ["broker-a.example", "10.0.0.0/99", "10.0.0", "*"])
def test_an_invalid_address_entry_is_named(entry: str) -> None:
    with pytest.raises(ConfigError, match="adminHosts") as caught:
        AccessRules(admin_hosts=f"10.0.0.1;{entry}")
    assert entry in caught.value.message
    with pytest.raises(ConfigError, match="clusterMembers"):
        AccessRules(cluster_members=entry)
