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


def account_of(given: Any) -> tuple[str, str] | None:
    """The access key and the secret with which a session of these settings signs."""
    found = online.cluster_access(given).credentials
    return None if found is None else (found.access_key, found.secret_key)


@pytest.fixture
def java_home(tmp_path: Path) -> Path:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "tools.yml").write_text("accessKey: java\nsecretKey: j4va\n")
    return tmp_path


def test_the_account_of_the_java_tool_is_found_where_it_finds_it(java_home: Path) -> None:
    environ = {"HOME": "/nonexistent", "ROCKETMQ_HOME": str(java_home)}
    assert account_of(resolve({}, environ)) == ("java", "j4va")
    own = {**environ, "MQADMIN_ACCESS_KEY": "me", "MQADMIN_SECRET_KEY": "m3"}
    assert account_of(resolve({}, own)) == ("me", "m3")
    named = {"tools_yml": str(java_home / "conf" / "tools.yml")}
    assert account_of(resolve(named, own)) == ("java", "j4va")
    (java_home / "conf" / "tools.yml").write_text("accessKey: ''\n")
    assert account_of(resolve({}, environ)) is None  # as Java: requests without a signature
    with pytest.raises(UsageFault, match="no accessKey and secretKey"):
        account_of(resolve(named, environ))


def test_an_installation_without_the_file_has_no_account(tmp_path: Path) -> None:
    environ = {"HOME": "/nonexistent", "ROCKETMQ_HOME": str(tmp_path)}
    assert account_of(resolve({}, environ)) is None
    named = resolve({"tools_yml": str(tmp_path / "none.yml")}, environ)
    with pytest.raises(ConfigError, match=r"none\.yml"):
        account_of(named)


def test_a_command_prints_the_secret() -> None:
    given = settings(access_key="ak", secret_key_command="printf s3cret")
    assert account_of(given) == ("ak", "s3cret")
