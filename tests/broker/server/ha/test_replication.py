"""Master and slave connected by a real socket: bytes, acknowledgements, divergence."""

import asyncio
import shutil
from pathlib import Path

import pytest

from broker.common.clock import SystemClock
from broker.remoting.access import AccessRules
from broker.server.ha import client as ha_client
from broker.server.ha.client import HAClient
from broker.server.ha.config import HaConfig
from broker.server.ha.service import HAService
from broker.store.config import MessageStoreConfig
from broker.store.message_store import MessageExtBrokerInner, MessageStore
from broker.store.results import PutMessageStatus

FILE = 64 * 1024


def open_store(root: Path, *, sync: bool = False) -> MessageStore:
    loop = asyncio.get_running_loop()
    config = MessageStoreConfig(
        store_path_root_dir=str(root),
        mapped_file_size_commit_log=FILE,
        mapped_file_size_consume_queue=6000,
        flush_disk_type="SYNC_FLUSH" if sync else "ASYNC_FLUSH",
    )
    store = MessageStore(config, defer=loop.call_soon, notify=loop.call_soon_threadsafe)
    store.load()
    store.start()
    return store


class Pair:
    """A master with its HA service; slaves are added by :meth:`follow`."""

    def __init__(self, folder: Path, config: HaConfig, *, sync: bool = False) -> None:
        self.folder = folder
        self.config = config
        self.master = open_store(folder / "master", sync=sync)
        self.service = HAService(self.master, config, SystemClock(), AccessRules())
        self.clients: list[HAClient] = []
        self.stores = [self.master]

    async def start(self) -> None:
        await self.service.start("127.0.0.1", 0)

    def follow(self, name: str = "slave", *, sync: bool = False) -> tuple[MessageStore, HAClient]:
        slave = open_store(self.folder / name, sync=sync)
        slave.flags.make_replica()
        address = f"127.0.0.1:{self.service.port}"
        client = HAClient(slave, self.config, SystemClock(), lambda: address)
        client.start()
        self.stores.append(slave)
        self.clients.append(client)
        return slave, client

    async def close(self) -> None:
        for client in self.clients:
            await client.stop()
        await self.service.stop()
        for store in self.stores:
            store.shutdown()


def put(store: MessageStore, count: int, size: int = 700) -> None:
    for number in range(count):
        result = store.put_message(
            MessageExtBrokerInner(
                topic="T",
                queue_id=number % 4,
                body=bytes([number % 256]) * size,
                properties=b"KEYS\x01k%d\x02" % number,
                born_host=b"\x7f\0\0\1\0\0\0\1",
                store_host=b"\x7f\0\0\1\0\0\0\2",
            )
        )
        assert result.status is PutMessageStatus.PUT_OK


async def until(condition, seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def log_bytes(store: MessageStore) -> bytes:
    start, data = store.min_physical_offset, b""
    while start + len(data) < store.max_physical_offset:
        data += bytes(store.log.rest_of_file(start + len(data)))
    return data


@pytest.fixture(autouse=True)
def fast_reconnect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_client, "RECONNECT_MS", 20)


async def in_pair(folder: Path, scenario, config: HaConfig | None = None, **options) -> None:
    pair = Pair(folder, config or HaConfig(), **options)
    await pair.start()
    try:
        await scenario(pair)
    finally:
        await pair.close()


def test_an_empty_slave_gets_the_log_queues_and_index(tmp_path: Path, run) -> None:
    async def scenario(pair: Pair) -> None:
        put(pair.master, 50)
        slave, _ = pair.follow()
        await until(lambda: slave.max_physical_offset == pair.master.max_physical_offset)
        put(pair.master, 200)  # rolls over several files while it is followed
        await until(lambda: slave.max_physical_offset == pair.master.max_physical_offset)
        await until(lambda: slave.reput.offset == slave.max_physical_offset)
        assert log_bytes(slave) == log_bytes(pair.master)
        assert pair.master.log.max_offset > 2 * FILE
        for queue_id in range(4):
            assert slave.get_max_offset("T", queue_id) == pair.master.get_max_offset("T", queue_id)
        found = [
            [bytes(one) for one in store.query_message("T", "k17", 10, 0, 1 << 60).buffers]
            for store in (slave, pair.master)
        ]
        assert found[0] == found[1]
        assert len(found[0]) == 2

    run(in_pair(tmp_path, scenario))


def test_a_slave_refuses_puts(tmp_path: Path, run) -> None:
    async def scenario(pair: Pair) -> None:
        slave, _ = pair.follow()
        result = slave.put_message(MessageExtBrokerInner(topic="T", queue_id=0, body=b"x"))
        assert result.status is PutMessageStatus.SERVICE_NOT_AVAILABLE
        assert "slave" in result.remark

    run(in_pair(tmp_path, scenario))


@pytest.mark.parametrize("sync", [False, True])
def test_a_put_waits_for_the_copy(tmp_path: Path, run, sync: bool) -> None:
    async def scenario(pair: Pair) -> None:
        put(pair.master, 1)
        slave, _ = pair.follow(sync=sync)
        put(pair.master, 10)
        answered: list[tuple[PutMessageStatus, int]] = []

        def answer(status: PutMessageStatus) -> None:
            end = slave.log.flushed_where if sync else slave.max_physical_offset
            answered.append((status, end))

        end = pair.master.max_physical_offset
        pair.service.await_replicas(end, 2, answer)
        await until(lambda: answered)
        assert answered == [(PutMessageStatus.PUT_OK, end)]

    run(in_pair(tmp_path, scenario, sync=sync))


def test_without_a_slave_a_put_times_out(tmp_path: Path, run) -> None:
    async def scenario(pair: Pair) -> None:
        put(pair.master, 1)
        answered: list[PutMessageStatus] = []
        pair.service.await_replicas(pair.master.max_physical_offset, 2, answered.append)
        await until(lambda: answered)
        assert answered == [PutMessageStatus.FLUSH_SLAVE_TIMEOUT]

    run(in_pair(tmp_path, scenario, HaConfig(slave_timeout=50)))


def test_a_slave_continues_after_a_restart(tmp_path: Path, run) -> None:
    async def scenario(pair: Pair) -> None:
        put(pair.master, 30)
        slave, client = pair.follow()
        await until(lambda: slave.max_physical_offset == pair.master.max_physical_offset)
        await client.stop()
        pair.clients.remove(client)
        slave.shutdown()
        pair.stores.remove(slave)
        put(pair.master, 300)
        slave, client = pair.follow()
        await until(lambda: slave.max_physical_offset == pair.master.max_physical_offset)
        assert log_bytes(slave) == log_bytes(pair.master)
        assert client.problem == ""

    run(in_pair(tmp_path, scenario))


def test_a_slave_with_another_history_appends_nothing_and_names_the_offset(
    tmp_path: Path, run
) -> None:
    async def scenario(pair: Pair) -> None:
        put(pair.master, 20)
        end = pair.master.max_physical_offset
        slave, client = pair.follow()
        await until(lambda: slave.max_physical_offset == end)
        await client.stop()
        pair.clients.remove(client)
        slave.shutdown()
        pair.stores.remove(slave)
        other = open_store(tmp_path / "slave")
        put(other, 5, size=650)
        other.shutdown()
        put(pair.master, 40)
        slave, client = pair.follow()
        before = log_bytes(slave)
        await until(lambda: client.diverged_at is not None)
        assert client.diverged_at is not None
        assert end <= client.diverged_at < end + 100
        assert "differs from the master's" in client.problem
        assert log_bytes(slave) == before

    run(in_pair(tmp_path, scenario))


def test_a_master_that_lost_its_last_records_is_not_followed(tmp_path: Path, run) -> None:
    async def scenario() -> None:
        slave = open_store(tmp_path / "slave")
        put(slave, 20)
        end = slave.max_physical_offset
        slave.shutdown()
        shutil.copytree(tmp_path / "slave", tmp_path / "master")
        slave = open_store(tmp_path / "slave")
        put(slave, 10)
        slave.shutdown()
        pair = Pair(tmp_path, HaConfig(ha_send_heartbeat_interval=50))
        await pair.start()
        try:
            slave, client = pair.follow()
            before = log_bytes(slave)
            await until(lambda: client.diverged_at is not None)
            assert client.diverged_at == end
            assert log_bytes(slave) == before
        finally:
            await pair.close()

    run(scenario())


def test_the_state_of_slaves_is_reported(tmp_path: Path, run) -> None:
    async def scenario(pair: Pair) -> None:
        put(pair.master, 20)
        slave, client = pair.follow()
        await until(lambda: slave.max_physical_offset == pair.master.max_physical_offset)
        end = pair.master.max_physical_offset
        await until(
            lambda: (
                [c.slave_ack_offset for c in pair.service.runtime_info().ha_connection_info]
                == [end]
            )
        )
        info = pair.service.runtime_info()
        assert (info.master, info.in_sync_slave_nums) == (True, 1)
        assert info.ha_connection_info[0].diff == 0
        assert info.ha_connection_info[0].transfer_from_where == end
        of_slave = client.runtime_info()
        assert not of_slave.master
        assert of_slave.ha_client_runtime_info.max_offset == end
        assert of_slave.ha_client_runtime_info.is_activated

    run(in_pair(tmp_path, scenario))


def test_heartbeats_keep_an_idle_connection(tmp_path: Path, run) -> None:
    config = HaConfig(ha_send_heartbeat_interval=20, ha_housekeeping_interval=200)

    async def scenario(pair: Pair) -> None:
        put(pair.master, 1)
        _, client = pair.follow()
        await until(lambda: client.connected)
        before = client.runtime_info().ha_client_runtime_info.last_read_timestamp
        await until(
            lambda: client.runtime_info().ha_client_runtime_info.last_read_timestamp > before + 400
        )
        assert client.problem == ""

    run(in_pair(tmp_path, scenario, config))
