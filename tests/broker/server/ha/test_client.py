"""A slave follows its master: bytes, restart, divergence."""

import asyncio
import re
import shutil
from pathlib import Path

import pytest

from broker.common.clock import SystemClock
from broker.server.ha import client as ha_client
from broker.server.ha.client import HAClient
from broker.server.ha.config import HaConfig
from broker.store.message_store import MessageExtBrokerInner
from broker.store.results import PutMessageStatus
from tests.support.replicas import FILE, Pair, in_pair, log_bytes, open_store, put, until


@pytest.fixture(autouse=True)
def fast_reconnect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_client, "RECONNECT_MS", 20)


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


def test_a_slave_continues_after_a_restart(tmp_path: Path, run) -> None:
    async def scenario(pair: Pair) -> None:
        put(pair.master, 30)
        slave, client = pair.follow()
        await until(lambda: slave.max_physical_offset == pair.master.max_physical_offset)
        await pair.stop_slave(slave, client)
        put(pair.master, 300)
        slave, client = pair.follow()
        await until(lambda: slave.max_physical_offset == pair.master.max_physical_offset)
        assert log_bytes(slave) == log_bytes(pair.master)
        assert client.problem == ""

    run(in_pair(tmp_path, scenario))


async def copied(pair: Pair) -> int:
    """Store records that a slave copies before it stops; return the end of both logs."""
    put(pair.master, 20)
    end = pair.master.max_physical_offset
    slave, client = pair.follow()
    await until(lambda: slave.max_physical_offset == end)
    await pair.stop_slave(slave, client)
    return end


def test_a_slave_with_another_history_appends_nothing_and_names_the_offset(
    tmp_path: Path, run
) -> None:
    async def scenario(pair: Pair) -> None:
        end = await copied(pair)
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


def test_a_master_whose_log_starts_later_is_not_followed(tmp_path: Path, run) -> None:
    async def scenario(pair: Pair) -> None:
        end = await copied(pair)
        put(pair.master, 300)
        while pair.master.min_physical_offset <= end:
            pair.master.log.files.remove_first()
        slave, client = pair.follow()
        before = log_bytes(slave)
        await until(lambda: "closed the connection" in client.problem)
        assert re.search(
            r"request for physical offset \d+, .* empty store directory", client.problem
        )
        assert log_bytes(slave) == before

    run(in_pair(tmp_path, scenario))


class Topics:
    """Topics that become known after a request to the master."""

    def __init__(self) -> None:
        self.known: set[bytes] = set()
        self.deleted_before: dict[bytes, int] = {}
        self.requests = 0

    async def add_topic(self, topic: bytes, received_end: int) -> None:
        """Take a turn of the loop, as a request does."""
        await asyncio.sleep(0)
        self.requests += 1
        self.known.add(topic)


def test_records_of_an_unknown_topic_in_several_files_wait_for_one_copy_of_the_topics(
    tmp_path: Path, run
) -> None:
    async def scenario(pair: Pair) -> None:
        put(pair.master, 70)
        assert pair.master.max_physical_offset < FILE
        slave = open_store(tmp_path / "slave")
        pair.stores.append(slave)
        topics, connections = Topics(), list[str]()
        client = HAClient(
            *(slave, pair.config, SystemClock(), lambda: f"127.0.0.1:{pair.service.port}"),
            topics=topics,
            on_connected=connections.append,
        )
        pair.clients.append(client)
        client.start()
        await until(lambda: slave.max_physical_offset == pair.master.max_physical_offset)
        topics.known.clear()
        put(pair.master, 20)  # one read of the slave
        assert pair.master.max_physical_offset > FILE
        await until(lambda: slave.max_physical_offset == pair.master.max_physical_offset)
        assert log_bytes(slave) == log_bytes(pair.master)
        assert topics.requests == 2
        assert len(connections) == 1

    run(in_pair(tmp_path, scenario))


def test_a_slave_stops_at_any_point_of_a_reconnection(
    tmp_path: Path, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancellation in the middle of closing must not be lost."""
    monkeypatch.setattr(ha_client, "RECONNECT_MS", 0)

    async def scenario() -> None:
        def close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        refusing = await asyncio.start_server(close, "127.0.0.1", 0)
        address = f"127.0.0.1:{refusing.sockets[0].getsockname()[1]}"
        slave = open_store(tmp_path / "slave")
        for turns in range(60):
            client = HAClient(slave, HaConfig(), SystemClock(), lambda: address)
            client.start()
            for _ in range(turns):
                await asyncio.sleep(0)
            async with asyncio.timeout(5):
                await client.stop()
        slave.shutdown()
        refusing.close()
        await refusing.wait_closed()

    run(scenario())
