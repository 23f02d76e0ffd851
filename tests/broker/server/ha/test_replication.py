"""Master and slave as whole brokers with one name server: roles, tables, refusals."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from broker.errors import StoreError
from broker.remoting.client import RemotingClient
from broker.remoting.protocol.body.ha import HARuntimeInfo
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.server.controller import BrokerController
from broker.server.ha import client as ha_client
from broker.server.ha import slave_synchronize
from broker.server.pop.assignment.request_mode import RequestMode
from broker.server.standalone import EmbeddedBroker, embedded_settings
from tests.support.replicas import until
from tests.support.traffic import topic_fields

SMALL = {"mappedFileSizeCommitLog": "262144", "maxHashSlotNum": "1000", "maxIndexNum": "4000"}

POPPED = RequestMode(topic="Orders", consumer_group="G", mode="POP", pop_share_queue_num=2)


@pytest.fixture(autouse=True)
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_client, "RECONNECT_MS", 20)
    monkeypatch.setattr(slave_synchronize, "PERIOD_MS", 100)


def slave_of(master: EmbeddedBroker, root: Path, more: Mapping[str, str] = {}) -> BrokerController:
    settings = embedded_settings(
        str(root),
        {
            **SMALL,
            "brokerRole": "SLAVE",
            "brokerId": "1",
            "brokerName": master.controller.context.config.broker_name,
            "namesrvAddr": master.namesrv_address,
            **more,
        },
    )
    return BrokerController(settings, listen=[("127.0.0.1", 0)])


async def send(address: str, client: RemotingClient, body: bytes = b"x") -> RemotingCommand:
    fields = {
        "a": "producers",
        "b": "Orders",
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": "1700000000000",
        "h": "0",
        "i": "",
        "j": "0",
        "k": "false",
    }
    return await client.call(address, request(RequestCode.SEND_MESSAGE_V2, fields, body), 10_000)


async def with_slave(tmp_path: Path, scenario, master_keys=None, slave_keys=None) -> None:
    async with EmbeddedBroker(str(tmp_path / "master"), {**SMALL, **(master_keys or {})}) as master:
        slave = slave_of(master, tmp_path / "slave", slave_keys or {})
        await slave.start()
        client = RemotingClient()
        try:
            await scenario(master, slave, client)
        finally:
            await client.close()
            await slave.close()


def test_a_slave_finds_its_master_at_the_name_server_and_copies_log_and_tables(
    tmp_path: Path, run
) -> None:
    async def scenario(master: EmbeddedBroker, slave: BrokerController, client) -> None:
        for _ in range(5):
            assert (await send(master.address, client)).code == ResponseCode.SUCCESS
        assert master.controller.context.pop is not None
        master.controller.context.pop.modes.put(POPPED)
        master.controller.context.offsets.commit("G", "Orders", 0, 3)
        await until(lambda: slave.store.get_max_offset("Orders", 0) == 5)
        await until(lambda: "Orders" in slave.context.topics)
        await until(lambda: slave.context.offsets.query("G", "Orders", 0) == 3)
        assert slave.context.pop is not None
        modes = slave.context.pop.modes
        await until(lambda: modes.snapshot() == {"Orders": {"G": POPPED}})
        route = await client.call(
            master.namesrv_address,
            request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "Orders"}),
            10_000,
        )
        brokers = json.loads(route.body_bytes())["brokerDatas"]
        assert brokers[0]["brokerAddrs"] == {"0": master.address, "1": slave.address}

    run(with_slave(tmp_path, scenario))


def test_a_slave_refuses_sends_with_the_code_of_java(tmp_path: Path, run) -> None:
    async def scenario(master: EmbeddedBroker, slave: BrokerController, client) -> None:
        await send(master.address, client)
        await until(lambda: "Orders" in slave.context.topics)
        answer = await send(slave.address, client)
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE

    run(with_slave(tmp_path, scenario))


def test_a_send_under_sync_master_is_on_the_slave_when_it_is_answered(tmp_path: Path, run) -> None:
    async def scenario(master: EmbeddedBroker, slave: BrokerController, client) -> None:
        await until(lambda: slave.context.ha_status().ha_client_runtime_info.is_activated)
        for number in range(20):
            answer = await send(master.address, client, b"%d" % number)
            assert answer.code == ResponseCode.SUCCESS
            assert slave.store.max_physical_offset >= master.controller.store.max_physical_offset

    keys = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}
    run(with_slave(tmp_path, scenario, keys))


def test_without_its_copy_a_send_answers_flush_slave_timeout(tmp_path: Path, run) -> None:
    async def main() -> None:
        keys = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "slaveTimeout": "50"}
        async with EmbeddedBroker(str(tmp_path), {**SMALL, **keys}) as master:
            client = RemotingClient()
            answer = await send(master.address, client)
            assert answer.code == ResponseCode.FLUSH_SLAVE_TIMEOUT
            assert answer.ext_fields["queueOffset"] == "0"
            await client.close()

    run(main())


def test_ha_status_is_answered_by_both(tmp_path: Path, run) -> None:
    async def scenario(master: EmbeddedBroker, slave: BrokerController, client) -> None:
        await send(master.address, client)
        end = master.controller.store.max_physical_offset
        await until(lambda: slave.store.max_physical_offset == end)
        code = RequestCode.GET_BROKER_HA_STATUS
        of_slave = HARuntimeInfo.from_bytes(
            (await client.call(slave.address, request(code), 10_000)).body_bytes()
        )
        assert not of_slave.master
        assert of_slave.ha_client_runtime_info.max_offset == end
        await until(lambda: master.controller.context.ha_status().ha_connection_info[0].diff == 0)
        of_master = HARuntimeInfo.from_bytes(
            (await client.call(master.address, request(code), 10_000)).body_bytes()
        )
        assert of_master.master
        assert of_master.in_sync_slave_nums == 1

    run(with_slave(tmp_path, scenario))


def test_a_configured_ha_port_in_use_stops_the_start_and_a_default_one_does_not(
    tmp_path: Path, run
) -> None:
    async def main() -> None:
        taken = await asyncio.start_server(lambda r, w: None, "127.0.0.1", 0)
        port = taken.sockets[0].getsockname()[1]
        with pytest.raises(StoreError, match="HA address"):
            async with EmbeddedBroker(str(tmp_path / "a"), {**SMALL, "haListenPort": str(port)}):
                pass
        taken.close()
        await taken.wait_closed()

    run(main())


def test_topics_are_copied_before_the_log_so_that_batch_queues_are_built_as_such(
    tmp_path: Path, run
) -> None:
    async def main() -> None:
        async with EmbeddedBroker(str(tmp_path / "master"), SMALL) as master:
            client = RemotingClient()
            fields = topic_fields("Orders", 4, attributes="+queue.type=BatchCQ")
            created = await client.call(
                master.address, request(RequestCode.UPDATE_AND_CREATE_TOPIC, fields), 10_000
            )
            assert created.code == ResponseCode.SUCCESS
            for number in range(3):
                assert (await send(master.address, client, b"%d" % number)).code == 0
            slave = slave_of(master, tmp_path / "slave")
            await slave.start()
            try:
                await until(lambda: slave.store.get_max_offset("Orders", 0) == 3)
                assert (tmp_path / "slave" / "batchconsumequeue" / "Orders").is_dir()
                assert not (tmp_path / "slave" / "consumequeue" / "Orders").exists()
            finally:
                await client.close()
                await slave.close()

    run(main())


def test_the_topics_are_copied_again_before_a_record_of_a_new_topic_is_appended(
    tmp_path: Path, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slave_synchronize, "PERIOD_MS", 60_000)

    async def scenario(
        master: EmbeddedBroker, slave: BrokerController, client: RemotingClient
    ) -> None:
        await until(lambda: slave.context.ha_status().ha_client_runtime_info.is_activated)
        fields = topic_fields("Orders", 4, attributes="+queue.type=BatchCQ")
        created = await client.call(
            master.address, request(RequestCode.UPDATE_AND_CREATE_TOPIC, fields), 10_000
        )
        assert created.code == ResponseCode.SUCCESS
        for number in range(3):
            assert (await send(master.address, client, b"%d" % number)).code == 0
        await until(lambda: slave.store.get_max_offset("Orders", 0) == 3)
        assert (tmp_path / "slave" / "batchconsumequeue" / "Orders").is_dir()
        assert not (tmp_path / "slave" / "consumequeue" / "Orders").exists()
        written = json.loads((tmp_path / "slave" / "config" / "topics.json").read_text())
        assert "Orders" in written["topicConfigTable"]

    run(with_slave(tmp_path, scenario))
