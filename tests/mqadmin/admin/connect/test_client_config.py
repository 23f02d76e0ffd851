"""The client of a command reaches the same cluster in the same way as its session."""

from broker.remoting.security.signing import Credentials
from mqadmin.admin.connect.access import tls_context
from mqadmin.admin.connect.client_config import client_config
from mqadmin.admin.session import ClusterAccess


def test_addresses_account_tls_and_timeouts_are_those_of_the_command() -> None:
    account = Credentials(access_key="me", secret_key="hidden")
    tls = tls_context()
    found = client_config(
        ClusterAccess(
            namesrv=("a:1", "b:2"),
            timeout_ms=2_000,
            address_map={"a:1": "c:3"},
            credentials=account,
            tls=tls,
        )
    )
    assert found.namesrv_addresses() == ("a:1", "b:2")
    assert found.address_map == {"a:1": "c:3"}
    assert found.credentials is account
    assert found.tls is tls
    assert found.mq_client_api_timeout_ms == found.connect_timeout_ms == 2_000


def test_a_long_timeout_does_not_lengthen_connecting() -> None:
    found = client_config(ClusterAccess(namesrv=("a:1",), timeout_ms=60_000))
    assert (found.mq_client_api_timeout_ms, found.connect_timeout_ms) == (60_000, 3_000)


def test_the_client_reads_a_list_of_name_servers_by_itself() -> None:
    found = client_config(ClusterAccess(namesrv=("http://names/addr",), timeout_ms=1_000))
    assert (found.namesrv, found.namesrv_url) == ((), "http://names/addr")
