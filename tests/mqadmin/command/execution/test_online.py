"""A session is opened with checked addresses, signature, TLS and discovery over HTTP."""

from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigError
from broker.remoting.protocol.command import request
from mqadmin.command.execution import online
from mqadmin.command.execution.failure import UsageFault
from mqadmin.command.execution.online import check_namesrv, connect, read_dead_letters
from mqadmin.settings import resolve


def settings(**options: Any) -> Any:
    return resolve(options, {"HOME": "/nonexistent"})


@pytest.mark.parametrize("address", ["127.0.0.1", "host:", "host:99999", ":9876"])
def test_an_invalid_address_is_refused_with_the_origin_of_the_setting(address: str) -> None:
    with pytest.raises(UsageFault, match=r"namesrv \(option\): not a"):
        check_namesrv(settings(namesrv=address), [address])


def test_an_empty_list_of_addresses_is_refused() -> None:
    with pytest.raises(UsageFault, match="no address") as caught:
        check_namesrv(settings(namesrv=";"), [])
    assert "host:port" in caught.value.hint


def test_an_address_that_is_discovered_over_http_is_not_checked_as_host_and_port() -> None:
    check_namesrv(settings(namesrv="http://names/list"), ["http://names/list"])


def test_discovered_name_servers_replace_the_http_address(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, int]] = []

    def discover(url: str, *, timeout_ms: int) -> tuple[str, ...]:
        asked.append((url, timeout_ms))
        return ("127.0.0.1:1", "127.0.0.1:2")

    monkeypatch.setattr("mqadmin.admin.connect.discovery.discover_namesrv", discover)
    with connect(settings(namesrv="http://names/list", timeout="2s"), None) as admin:
        assert list(admin.namesrv_addresses) == ["127.0.0.1:1", "127.0.0.1:2"]
    assert asked == [("http://names/list", 2000)]


def test_the_client_has_the_settings_of_the_session(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    given = settings(
        namesrv="h:1;h:2",
        timeout="2s",
        address_map="h:1=127.0.0.1:1",
        access_key="ak",
        secret_key_file=str(tmp_path / "secret"),
        tls=True,
    )
    with connect(given, None) as admin:
        for library in (online.producing(given), online.traffic(given)):
            client = library.client
            assert client.namesrv_addresses() == admin.namesrv_addresses
            assert client.address_map == admin.client.address_map
            assert client.credentials is not None
            signed = [request(105, {"topic": "t"}) for _ in range(2)]
            client.credentials.sign(signed[0])
            admin.client.signer(signed[1])
            assert signed[0].ext_fields == signed[1].ext_fields
            assert client.tls is not None
            assert admin.client.tls is not None


def test_an_access_key_without_a_secret_opens_no_session() -> None:
    with pytest.raises(UsageFault, match="no secret") as caught:
        connect(settings(namesrv="h:1", access_key="ak"), None)
    assert "MQADMIN_SECRET_KEY" in caught.value.hint


def test_a_certificate_file_alone_means_tls(tmp_path: Path) -> None:
    """A TLS option that is given but not used would send everything in plain text."""
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ConfigError, match=r"TLS files \(.*ca\.pem"):
        connect(settings(namesrv="h:1", tls_ca=str(tmp_path / "ca.pem")), None)


@pytest.mark.parametrize(
    ("load", "library"),
    [
        (online.topics, "TopicAdmin"),
        (online.groups, "GroupAdmin"),
        (online.message_queries, "MessageQueries"),
        (online.messages, "MessageAdmin"),
        (online.consumers, "ConsumerAdmin"),
        (online.offsets, "OffsetAdmin"),
        (online.dead_letters, "DlqAdmin"),
        (online.clusters, "ClusterAdmin"),
        (online.brokers, "BrokerAdmin"),
    ],
)
def test_each_noun_gets_the_library_of_its_name(load: Any, library: str) -> None:
    with connect(settings(namesrv="127.0.0.1:1"), None) as admin:
        assert type(load(admin)).__name__ == library


def test_a_file_without_dead_letters_is_an_error_that_names_it() -> None:
    with pytest.raises(Exception, match=r"dead\.json"):
        read_dead_letters(b"{ cut off", "dead.json")
