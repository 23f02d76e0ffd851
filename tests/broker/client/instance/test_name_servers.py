"""Name servers: random start, failover, discovery over HTTP."""

import asyncio
from collections import Counter

import pytest

from broker.client.config import ClientConfig
from broker.client.instance.name_servers import NameServers
from broker.common.clock import ManualClock
from broker.errors import ClientError, RemotingError
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from tests.support.fake_cluster import FakeCluster
from tests.support.virtual_time import run_virtual


def servers(cluster: FakeCluster) -> NameServers:
    config = cluster.config()
    return NameServers(config, cluster.transport(config, {}), cluster.clock)


def route() -> object:
    return request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})


def test_new_clients_spread_over_the_name_servers() -> None:
    cluster = FakeCluster(name_servers=3)
    first = Counter(servers(cluster).current for _ in range(300))
    assert set(first) == set(cluster.name_servers)
    assert min(first.values()) > 50


def test_a_client_stays_with_its_name_server() -> None:
    cluster = FakeCluster(name_servers=3)

    async def main() -> None:
        found = servers(cluster)
        for _ in range(5):
            await found.call(request(105, {"topic": "T"}), 3_000)

    run_virtual(main(), cluster.clock)
    assert len({address for address, _ in cluster.asked}) == 1


@pytest.mark.parametrize("failure", ["down", "hung"])
def test_the_next_one_is_asked_when_one_fails_within_the_same_call(failure: str) -> None:
    cluster = FakeCluster(name_servers=3)
    cluster.create("T")

    async def main() -> None:
        found = servers(cluster)
        cluster.name_servers[found.current] = failure
        answer = await found.call(request(105, {"topic": "T"}), 3_000)
        assert answer.code == 0
        assert cluster.name_servers[found.current] == "up"

    run_virtual(main(), cluster.clock)


def test_name_servers_dying_in_turn_are_all_survived() -> None:
    cluster = FakeCluster(name_servers=3)
    cluster.create("T")

    async def main() -> None:
        found = servers(cluster)
        for number in range(9):
            dead = f"ns-{number % 3}:9876"
            cluster.name_servers[dead] = "down"
            assert (await found.call(request(105, {"topic": "T"}), 3_000)).code == 0
            cluster.name_servers[dead] = "up"

    run_virtual(main(), cluster.clock)


def test_the_error_of_the_last_one_is_raised_when_none_answers() -> None:
    cluster = FakeCluster(name_servers=2)
    for address in cluster.name_servers:
        cluster.name_servers[address] = "hung"

    async def main() -> None:
        began_ms = cluster.clock.monotonic_ms()
        with pytest.raises(RemotingError):
            await servers(cluster).call(request(105, {"topic": "T"}), 3_000)
        assert cluster.clock.monotonic_ms() - began_ms <= 3_100

    run_virtual(main(), cluster.clock)


def discovering(texts: list[str], **settings: object) -> tuple[NameServers, list[str]]:
    cluster = FakeCluster()
    urls: list[str] = []

    def fetch(url: str) -> str:
        urls.append(url)
        text = texts.pop(0)
        if text == "error":
            raise OSError("refused")
        return text

    config = ClientConfig(namesrv_url="http://h/nsaddr", **settings)  # type: ignore[arg-type]
    return NameServers(config, cluster.transport(config, {}), ManualClock(), fetch=fetch), urls


def test_the_list_is_read_over_http_and_kept_when_the_server_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    found, urls = discovering(["a:1;b:2\n", "error", "not an address", "", "c:3"])
    with pytest.raises(ClientError, match="http://h/nsaddr"):
        _ = found.current

    async def main() -> None:
        assert await found.discover()
        assert found.addresses == ("a:1", "b:2")
        for _ in range(3):
            assert not await found.discover()
            assert found.addresses == ("a:1", "b:2")
        assert await found.discover()
        assert found.current == "c:3"

    asyncio.run(main())
    assert urls == ["http://h/nsaddr"] * 5


def test_a_unit_has_a_list_for_its_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    found, urls = discovering(["a:1"], unit_name="u1")
    asyncio.run(found.discover())
    assert urls == ["http://h/nsaddr-u1?nofix=1"]
