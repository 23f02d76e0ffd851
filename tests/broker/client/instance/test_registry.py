"""Which clients share an instance."""

import asyncio

from broker.client.config import ClientConfig
from broker.client.instance.registry import acquire_instance, release_instance


def test_clients_of_one_instance_name_share_and_the_last_one_stops_it() -> None:
    async def main() -> None:
        config = ClientConfig(namesrv="ns:1", instance_name="shared", client_ip="10.0.0.1")
        first, second = acquire_instance(config), acquire_instance(config)
        assert first is second
        await release_instance(first)
        assert acquire_instance(config) is second
        await release_instance(second)
        await release_instance(second)
        assert acquire_instance(config) is not second

    asyncio.run(main())


def test_the_default_name_gives_each_client_its_own() -> None:
    async def main() -> None:
        config = ClientConfig(namesrv="ns:1", client_ip="10.0.0.1")
        assert acquire_instance(config) is not acquire_instance(config)

    asyncio.run(main())


def test_broadcasting_consumers_keep_a_client_id_that_survives_the_process() -> None:
    async def main() -> None:
        config = ClientConfig(namesrv="ns:1", client_ip="10.0.0.1")
        instance = acquire_instance(config, broadcasting=True)
        assert instance.client_id == "10.0.0.1@DEFAULT"

    asyncio.run(main())


def test_loops_do_not_share_instances() -> None:
    config = ClientConfig(namesrv="ns:1", instance_name="shared", client_ip="10.0.0.1")

    async def acquire() -> object:
        return acquire_instance(config)

    assert asyncio.run(acquire()) is not asyncio.run(acquire())
