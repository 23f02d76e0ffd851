"""Routes and the queues derived from them."""

from typing import Any

import pytest

from broker.client.instance.client_instance import MQClientInstance
from broker.client.instance.topic_routes import TopicRoutes
from broker.errors import ClientError
from tests.support.fake_cluster import FakeCluster
from tests.support.virtual_time import run_virtual


def run(cluster: FakeCluster, work: Any) -> None:
    async def main() -> None:
        instance = MQClientInstance(
            cluster.config(), clock=cluster.clock, transport=cluster.transport
        )
        await work(instance.routes)
        await instance.shutdown()

    run_virtual(main(), cluster.clock)


def test_a_route_is_asked_once_and_shared_by_concurrent_callers() -> None:
    import asyncio

    cluster = FakeCluster()
    cluster.create("T")

    async def main(routes: TopicRoutes) -> None:
        await asyncio.gather(*(routes.get("T") for _ in range(10)))
        await routes.get("T")
        assert len(cluster.asked) == 1

    run(cluster, main)


def test_queues_without_write_permission_are_not_sent_to() -> None:
    cluster = FakeCluster(brokers=2)
    cluster.create("T", queues=2)
    cluster.perms["T", "broker-a"] = 4

    async def main(routes: TopicRoutes) -> None:
        info = await routes.publish_info("T")
        assert info.broker_names == {"broker-b"}
        cluster.perms["T", "broker-b"] = 4
        await routes.refresh("T")
        with pytest.raises(ClientError, match="no queue"):
            await routes.publish_info("T")
        cluster.perms.clear()
        await routes.refresh("T")
        assert (await routes.publish_info("T")).broker_names == {"broker-a", "broker-b"}

    run(cluster, main)


def test_an_unknown_topic_is_sent_to_by_the_template_until_it_exists() -> None:
    cluster = FakeCluster()
    cluster.create("TBW102", queues=8)

    async def main(routes: TopicRoutes) -> None:
        with pytest.raises(ClientError, match="does not exist"):
            await routes.publish_info("T")
        info = await routes.publish_info("T", create_key="TBW102", create_queues=4)
        assert len(info.queues) == 4
        cluster.create("T", queues=6)
        await routes.refresh_all(["T"])
        assert len((await routes.publish_info("T")).queues) == 6

    run(cluster, main)


def test_a_known_route_survives_name_servers_that_do_not_answer() -> None:
    cluster = FakeCluster()
    cluster.create("T")

    async def main(routes: TopicRoutes) -> None:
        await routes.get("T")
        cluster.name_servers["ns-0:9876"] = "down"
        await routes.refresh_all(["T"])
        assert routes.known("T") is not None

    run(cluster, main)


def test_changes_are_reported_once() -> None:
    cluster = FakeCluster(brokers=2)
    cluster.create("T")
    cluster.registered = {"broker-a"}
    changed: list[str] = []

    async def main(routes: TopicRoutes) -> None:
        routes.on_change.append(changed.append)
        await routes.get("T")
        await routes.refresh("T")
        cluster.registered.add("broker-b")
        await routes.refresh("T")
        await routes.refresh("T")

    run(cluster, main)
    assert changed == ["T", "T"]


def move(cluster: FakeCluster, name: str) -> str:
    """Give a broker another address; returns it."""
    broker = cluster.brokers[name]
    broker.address = "127.0.1.1:10911"
    cluster.by_address[broker.address] = broker
    return broker.address


def test_the_address_learned_last_replaces_the_earlier_ones_of_a_broker() -> None:
    cluster = FakeCluster()
    cluster.create("Deleted")
    cluster.create("T")

    async def main(routes: TopicRoutes) -> None:
        await routes.get("Deleted")
        await routes.get("T")
        del cluster.topics["Deleted"]
        address = move(cluster, "broker-a")
        await routes.refresh_all(["Deleted", "T"])
        assert routes.master("broker-a") == address
        assert routes.reader("broker-a", 0) == (address, False)
        assert routes.all_addresses() == {address: True}

    run(cluster, main)


def test_the_template_of_a_topic_does_not_keep_an_address_that_is_gone() -> None:
    cluster = FakeCluster()
    cluster.create("TBW102")

    async def main(routes: TopicRoutes) -> None:
        await routes.publish_info("T", create_key="TBW102", create_queues=4)
        cluster.create("T")
        address = move(cluster, "broker-a")
        await routes.refresh_all(["T"])
        assert routes.master("broker-a") == address

    run(cluster, main)


def test_brokers_that_only_unused_topics_name_are_dropped() -> None:
    cluster = FakeCluster(brokers=2)
    cluster.create("T")
    cluster.create("Unused")

    async def main(routes: TopicRoutes) -> None:
        await routes.get("Unused")
        await routes.get("T")
        cluster.registered = {"broker-a"}
        await routes.refresh_all(["T"])
        assert routes.master("broker-b") is not None
        routes.retain(["T"])
        assert routes.known("Unused") is None
        assert routes.master("broker-b") is None
        assert routes.all_addresses() == {cluster.brokers["broker-a"].address: True}

    run(cluster, main)


def test_reading_falls_back_from_a_missing_slave_to_any_address() -> None:
    cluster = FakeCluster()
    cluster.create("T")
    address = cluster.brokers["broker-a"].address

    async def main(routes: TopicRoutes) -> None:
        assert routes.reader("broker-a", 0) is None
        await routes.get("T")
        assert routes.reader("broker-a", 0) == (address, False)
        assert routes.reader("broker-a", 1) == (address, False)
        assert routes.master("broker-a") == address
        assert routes.master("unknown") is None
        assert routes.all_addresses() == {address: True}
        routes.forget("T")
        assert routes.known("T") is None

    run(cluster, main)
