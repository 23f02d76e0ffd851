"""The master's side: waiting puts and the state of its slaves."""

import asyncio
import contextlib
import random
from pathlib import Path

import pytest

from broker.server.ha.config import HaConfig
from broker.store.ha.frames import encode_report
from broker.store.results import PutMessageStatus
from tests.support.faulty_proxy import FaultyProxy
from tests.support.replicas import Pair, in_pair, put, until


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


def test_copies_are_counted_by_slave_and_not_by_connection(tmp_path: Path, run) -> None:
    async def scenario(pair: Pair) -> None:
        put(pair.master, 5)
        pair.follow("one")
        pair.follow("two")
        end = pair.master.max_physical_offset

        def acknowledged() -> list[str]:
            infos = pair.service.runtime_info().ha_connection_info
            return [one.addr for one in infos if one.slave_ack_offset == end]

        await until(lambda: len(acknowledged()) == 2)
        await until(lambda: pair.service.is_copied(end, 2))  # counted after the report is noted
        assert not pair.service.is_copied(end, 3)  # both may be the same slave
        for address in acknowledged():
            pair.service.name_replica(address, "10.0.0.2:10911")
        assert not pair.service.is_copied(end, 3)
        assert pair.service.in_sync(1) == 2
        pair.service.name_replica(acknowledged()[1], "10.0.0.3:10911")
        assert pair.service.is_copied(end, 3)
        assert pair.service.in_sync(1) == 3

    run(in_pair(tmp_path, scenario))


class JavaSlave:
    """A slave without an address that reports after each transfer and heartbeat; no store."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.transfers: list[int] = []
        self._reader, self._writer = reader, writer
        self._task = asyncio.get_running_loop().create_task(self._follow())

    @classmethod
    async def at(cls, port: int, offset: int) -> "JavaSlave":
        """Connect and report ``offset``."""
        slave = cls(*await asyncio.open_connection("127.0.0.1", port))
        slave.report(offset)
        return slave

    def report(self, offset: int) -> None:
        """Report an offset."""
        self._writer.write(encode_report(offset))

    async def _follow(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                header = await self._reader.readexactly(12)
                size = int.from_bytes(header[8:])
                await self._reader.readexactly(size)
                if size:
                    self.transfers.append(size)
                self.report(int.from_bytes(header[:8]) + size)

    async def stop(self) -> None:
        """Close the connection."""
        self._task.cancel()
        self._writer.close()
        await asyncio.gather(self._task, return_exceptions=True)


def test_two_slaves_of_one_host_without_addresses_are_two_copies_of_the_next_record(
    tmp_path: Path, run
) -> None:
    async def scenario(pair: Pair) -> None:
        put(pair.master, 5)
        end = pair.master.max_physical_offset
        first = await JavaSlave.at(pair.service.port, end)
        await until(lambda: pair.service.is_copied(end, 2))
        second = await JavaSlave.at(pair.service.port, 0)
        await until(lambda: sum(second.transfers) == end)
        first.report(end)
        await until(lambda: pair.service.in_sync(1) == 3)
        assert not pair.service.is_copied(end, 3)
        put(pair.master, 1)
        answers: list[PutMessageStatus] = []
        end = pair.master.max_physical_offset
        pair.service.await_replicas(end, 3, answers.append)
        await until(lambda: answers)
        assert answers == [PutMessageStatus.PUT_OK]
        put(pair.master, 1)
        end = pair.master.max_physical_offset
        await until(lambda: pair.service.is_copied(end, 3))
        assert not pair.service.is_copied(end, 4)
        assert min(first.transfers) < 32  # a marked transfer
        await first.stop()
        await until(lambda: not pair.service.is_copied(end, 3))
        await second.stop()

    run(in_pair(tmp_path, scenario))


def test_an_old_connection_of_a_slave_that_has_reconnected_is_not_a_copy(
    tmp_path: Path, run
) -> None:
    config = HaConfig(
        ha_send_heartbeat_interval=20, ha_housekeeping_interval=4_000, slave_timeout=100
    )

    async def scenario(pair: Pair) -> None:
        put(pair.master, 5)
        end = pair.master.max_physical_offset
        _reader, writer = await asyncio.open_connection("127.0.0.1", pair.service.port)
        writer.write(encode_report(end))
        await until(lambda: pair.service.is_copied(end, 2))
        slave = await JavaSlave.at(pair.service.port, end)
        for _ in range(3):
            put(pair.master, 1)
            end = pair.master.max_physical_offset
            answers: list[PutMessageStatus] = []
            pair.service.await_replicas(end, 3, answers.append)
            await until(lambda answers=answers: answers)
            assert answers == [PutMessageStatus.FLUSH_SLAVE_TIMEOUT]
            await until(lambda end=end: pair.service.is_copied(end, 2))
        await until(lambda: len(pair.service.connections) == 1)  # haHousekeepingInterval
        await slave.stop()
        writer.close()

    run(in_pair(tmp_path, scenario, config))


def test_a_proxy_that_duplicates_connections_makes_no_second_copy(
    tmp_path: Path, run, rng: random.Random
) -> None:
    config = HaConfig(ha_send_heartbeat_interval=20, slave_timeout=100)

    async def scenario(pair: Pair) -> None:
        put(pair.master, 5)
        end = pair.master.max_physical_offset
        proxy = FaultyProxy(rng, lambda: ("127.0.0.1", pair.service.port))
        await proxy.start()
        both = 0
        for _ in range(10):
            proxy.planned.append("twice")
            end = pair.master.max_physical_offset
            slave = await JavaSlave.at(proxy.port, end)
            await until(lambda: len(pair.service.runtime_info().ha_connection_info) == 2)
            for _ in range(3):
                put(pair.master, 1)
                end = pair.master.max_physical_offset
                answers: list[PutMessageStatus] = []
                pair.service.await_replicas(end, 3, answers.append)
                await until(lambda answers=answers: answers)
                assert answers == [PutMessageStatus.FLUSH_SLAVE_TIMEOUT]
                both += len(pair.service.connections) == 2
            await slave.stop()
            await until(lambda: not pair.service.connections)
        assert both, "the copy has acknowledged too much each time"
        await proxy.stop()

    run(in_pair(tmp_path, scenario, config))
