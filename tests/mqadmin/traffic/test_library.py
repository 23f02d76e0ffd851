from collections.abc import Callable
from pathlib import Path

import pytest

from broker.client import ClientConfig
from broker.errors import ConfigError
from mqadmin.admin.group import GroupAdmin
from mqadmin.admin.session import AdminSession
from mqadmin.admin.topic import TopicAdmin
from mqadmin.traffic.library import TrafficLibrary, client_config
from mqadmin.traffic.options import BenchOptions


def test_the_settings_of_the_command_line_are_those_of_the_client() -> None:
    found = client_config(
        ["a:1", "b:2"],
        timeout_ms=2_000,
        address_map={"a:1": "c:3"},
        access_key="me",
        secret_key="hidden",
    )
    assert found.namesrv == ("a:1", "b:2")
    assert found.address_map == {"a:1": "c:3"}
    assert found.credentials is not None
    assert found.credentials.access_key == "me"
    assert found.tls is None
    assert found.mq_client_api_timeout_ms == found.connect_timeout_ms == 2_000


def test_a_url_is_discovered_over_http() -> None:
    found = client_config(["http://names/addr"], timeout_ms=1_000)
    assert (found.namesrv, found.namesrv_url) == ((), "http://names/addr")


def test_tls_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="TLS"):
        client_config(["a:1"], timeout_ms=1, tls_files={"ca": str(tmp_path / "none.pem")})


def test_files_are_opened_in_order(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    library = TrafficLibrary(ClientConfig(namesrv="x:1"), timeout_ms=1)
    with open(tmp_path / "a", "rb") as stdin:
        paths = [str(tmp_path / "b"), "-"]
        found = [(one.name, one.stream.read1(9)) for one in library.sources(paths, stdin)]
    assert found == [(str(tmp_path / "b"), b"b"), ("stdin", b"a")]


def test_the_group_of_one_run_leaves_nothing(
    client: ClientConfig, admin: AdminSession, new_topic: Callable[..., str]
) -> None:
    library = TrafficLibrary(client, timeout_ms=20_000)
    group = library.temporary_group()
    topic = new_topic("LibraryBench")
    options = BenchOptions(topic=topic, idle_ms=300, duration_ms=2_000, warm_up_ms=0)
    library.bench(options, library.stop_signal(), lambda _: None).consume(group)
    assert group in {one.group for one in GroupAdmin(admin).list().items}
    library.delete_group(admin, group)
    assert group not in {one.group for one in GroupAdmin(admin).list().items}
    assert not [one for one in TopicAdmin(admin).list().items if group in one.topic]


def test_an_existing_topic_is_accepted(
    client: ClientConfig, admin: AdminSession, new_topic: Callable[..., str]
) -> None:
    library = TrafficLibrary(client, timeout_ms=20_000)
    topic = new_topic("LibraryTopic", queues=3)
    library.create_topic(admin, topic, 8)
    library.create_topic(admin, "LibraryCreated", 2)
    queues = {one.topic: one.write_queue_nums for one in TopicAdmin(admin).list().items}
    assert (queues[topic], queues["LibraryCreated"]) == (3, 2)
