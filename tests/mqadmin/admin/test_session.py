"""The session: several name servers, start-up cost, refusals with hints."""

import subprocess
import sys

import pytest

from broker.errors import BrokerError, ClientError, ConnectError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.session import ClusterAccess

HEAVY = [
    "asyncio",
    "ssl",
    "dataclasses",
    "json",
    "threading",
    "http",
    "logging",
    "typer",
    "rich",
    "tabulate",
    "httpx",
    "yaml",
    "lz4",
    "multiprocessing",
    "subprocess",
    "concurrent",
]


def test_no_name_server_is_an_error() -> None:
    with pytest.raises(ClientError, match="no name server"):
        MQAdmin([])


def test_the_next_name_server_answers_for_a_dead_one(cluster) -> None:
    cluster.add_namesrv("127.0.0.1:9877")
    cluster.namesrvs[0].down = True
    assert len(cluster.admin().topology.targets) == 2


def test_a_young_name_server_is_not_believed_alone(cluster, broker_a) -> None:
    broker_a.store("orders")
    cluster.namesrvs[0].forgotten.add(("orders", "broker-a"))
    cluster.add_namesrv("127.0.0.1:9877")
    assert cluster.admin().topic.route("orders").topic == "orders"


def test_when_all_fail_the_answer_outranks_the_silence(cluster) -> None:
    cluster.add_namesrv("127.0.0.1:9877")
    cluster.namesrvs[1].down = True
    with pytest.raises(BrokerError) as caught:
        cluster.admin().topic.route("orders")
    assert caught.value.code == ResponseCode.TOPIC_NOT_EXIST
    cluster.namesrvs[0].down = True
    with pytest.raises(ConnectError):
        cluster.admin().topic.route("orders")


def test_other_refusals_of_a_name_server_are_final(cluster) -> None:
    cluster.add_namesrv("127.0.0.1:9877")
    cluster.namesrvs[0].refuse(RequestCode.GET_BROKER_CLUSTER_INFO, ResponseCode.SYSTEM_ERROR)
    with pytest.raises(BrokerError):
        _ = cluster.admin().topology
    assert cluster.calls == [("127.0.0.1:9876", 106)]


def test_the_topology_is_asked_once(admin, cluster) -> None:
    admin.topic.list()
    admin.cluster.list()
    assert len(cluster.asked(RequestCode.GET_BROKER_CLUSTER_INFO)) == 1


@pytest.mark.parametrize("noun", ["topic", "consumer", "message"])
def test_a_question_loads_no_heavy_module(noun) -> None:
    program = (
        "import sys; from mqadmin.admin.facade import MQAdmin; "
        "a = MQAdmin(['127.0.0.1:1']); "
        f"a.{noun}; "
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_a_refused_connection_is_reported_with_its_address() -> None:
    with MQAdmin(["127.0.0.1:1"], timeout_ms=2_000) as admin, pytest.raises(ConnectError) as caught:
        admin.topic.list()
    assert caught.value.address == "127.0.0.1:1"


def test_renewing_replaces_the_connections() -> None:
    with MQAdmin(["127.0.0.1:1"]) as admin:
        before = admin.client
        admin.renew()
        assert admin.client is not before
        other = admin.without_deadline()
        assert other.client.total_ms is None
        other.close()


def test_a_url_is_not_an_address() -> None:
    assert ClusterAccess(namesrv=("h:1",), timeout_ms=1).namesrv_url == ""
    for url in ("http://names/list", "https://names/list"):
        assert ClusterAccess(namesrv=(url,), timeout_ms=1).namesrv_url == url


def test_the_brokers_that_responded_are_known(cluster) -> None:
    cluster.brokers[1].down = True
    admin = cluster.admin()
    assert admin.brokers_responded() == set()
    admin.group.list()
    assert admin.brokers_responded() == {cluster.brokers[0].address}
    assert admin.without_deadline().brokers_responded() == {cluster.brokers[0].address}
