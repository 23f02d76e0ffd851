"""A name server over real sockets: brokers register and leave; name servers are independent."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.common.clock import ManualClock
from broker.common.topic import TopicConfig
from broker.errors import ConnectError, StoreError
from broker.namesrv.config import NamesrvConfig
from broker.namesrv.server import NameServer
from broker.remoting.client import RemotingClient
from broker.remoting.protocol.body.namesrv.register import RegisterBrokerBody
from broker.remoting.protocol.body.topic import TopicConfigAndMappingSerializeWrapper
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., NamesrvConfig]:
    def config(**fields) -> NamesrvConfig:
        paths = {
            "kv_config_path": str(tmp_path / "kv.json"),
            "config_store_path": str(tmp_path / "namesrv.properties"),
        }
        return NamesrvConfig(listen_port=0, **{**paths, **fields})

    return config


def registration(address: str = "10.0.0.1:10911", broker_id: int = 0, **ext) -> RemotingCommand:
    table = {name: TopicConfig(topic_name=name) for name in ("T", "U")}
    body = RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigAndMappingSerializeWrapper(
            topic_config_table=table
        )
    )
    header = {
        "brokerName": "a",
        "brokerAddr": address,
        "clusterName": "C",
        "haServerAddr": "",
        "brokerId": str(broker_id),
        **ext,
    }
    return request(RequestCode.REGISTER_BROKER, header, body.to_bytes())


def route() -> RemotingCommand:
    return request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "T"})


def test_closing_the_connection_of_a_broker_removes_its_routes(run, config) -> None:
    async def main() -> None:
        server = NameServer(config())
        await server.start()
        (address,) = server.addresses
        broker, client = RemotingClient(), RemotingClient()
        assert (await broker.call(address, registration())).code == 0
        assert (await client.call(address, route())).code == 0
        await broker.close()
        while server.routes.groups:
            await asyncio.sleep(0)
        assert (await client.call(address, route())).code == ResponseCode.TOPIC_NOT_EXIST
        await client.close()
        await server.close()

    run(main())


def test_an_expired_broker_is_removed_and_its_connection_closed(run, config) -> None:
    async def main() -> None:
        clock = ManualClock()
        server = NameServer(config(scan_not_active_broker_interval=100), clock=clock)
        await server.start()
        (address,) = server.addresses
        broker = RemotingClient()
        await broker.call(address, registration())
        connection = await broker.connection(address)
        clock.advance(120_001)
        while not connection.closed:
            await asyncio.sleep(0.005)
        assert server.routes.groups == {}
        await broker.close()
        await server.close()

    run(main())


def test_name_servers_do_not_exchange_data(run, config, tmp_path: Path) -> None:
    async def main() -> None:
        servers = [NameServer(config(kv_config_path=str(tmp_path / f"{n}"))) for n in range(2)]
        for server in servers:
            await server.start()
        first, second = (server.addresses[0] for server in servers)
        client = RemotingClient()
        await client.call(first, registration())
        assert (await client.call(first, route())).code == 0
        assert (await client.call(second, route())).code == ResponseCode.TOPIC_NOT_EXIST
        assert len(servers[1].server.connections) == 1
        await client.close()
        for server in servers:
            await server.close()

    run(main())


def test_kv_pairs_survive_a_restart_and_routes_do_not(run, config) -> None:
    async def main() -> None:
        client = RemotingClient()
        pair = {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "a:4"}
        server = NameServer(config())
        await server.start()
        await client.call(server.addresses[0], request(RequestCode.PUT_KV_CONFIG, pair))
        await client.call(server.addresses[0], registration())
        await server.close()
        server = NameServer(config())
        await server.start()
        got = await client.call(server.addresses[0], request(RequestCode.GET_KV_CONFIG, pair))
        assert got.ext_fields == {"value": "a:4"}
        gone = await client.call(server.addresses[0], route())
        assert gone.code == ResponseCode.TOPIC_NOT_EXIST
        again = await client.call(server.addresses[0], registration())
        assert again.body == b'{"table":{"T":"a:4"}}'
        await client.close()
        await server.close()

    run(main())


def test_a_changed_setting_takes_effect_at_once(run, config) -> None:
    async def main() -> None:
        server = NameServer(config())
        await server.start()
        (address,) = server.addresses
        client = RemotingClient()
        await client.call(address, registration())
        update = request(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"supportActingMaster=true")
        assert (await client.call(address, update)).code == 0
        assert server.routes.config.support_acting_master
        assert server.settings.config.listen_port == server.server.ports[0]
        await client.close()
        await server.close()

    run(main())


def test_members_of_a_group_are_notified_of_their_lowest_id(run, config) -> None:
    async def main() -> None:
        server = NameServer(config(notify_min_broker_id_changed=True))
        await server.start()
        (address,) = server.addresses
        notified: asyncio.Queue[dict] = asyncio.Queue()

        def note_change(_, command: RemotingCommand) -> None:
            notified.put_nowait(command.ext_fields)

        # the broker's own listening side is played by a second name server's endpoint
        listener = NameServer(config())
        listener.server.add_handler(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE, note_change)
        await listener.start()
        slave_address = listener.addresses[0]
        slave, master = RemotingClient(), RemotingClient()
        await slave.call(address, registration(slave_address, 1, enableActingMaster="true"))
        await master.call(address, registration(enableActingMaster="true"))
        first = await notified.get()
        assert (first["minBrokerId"], first["minBrokerAddr"]) == ("0", "10.0.0.1:10911")
        await master.close()
        second = await notified.get()
        assert (second["minBrokerId"], second["offlineBrokerAddr"]) == ("1", "10.0.0.1:10911")
        await slave.close()
        await server.close()
        await listener.close()

    run(main())


def test_a_corrupt_kv_file_stops_the_start(run, config) -> None:
    async def main() -> None:
        made = config()
        Path(made.kv_config_path).write_text("no json")
        server = NameServer(made)
        with pytest.raises(StoreError, match="not a KV table"):
            await server.start()
        assert server.addresses == []

    run(main())


def test_a_port_in_use_stops_the_start(run, config) -> None:
    async def main() -> None:
        first = NameServer(config())
        await first.start()
        port = first.server.ports[0]
        with pytest.raises(ConnectError, match="cannot listen"):
            await NameServer(config()).start([("127.0.0.1", port)])
        await first.close()

    run(main())
