"""The master's side: waiting puts and the state of its slaves."""

from pathlib import Path

import pytest

from broker.server.ha.config import HaConfig
from broker.store.results import PutMessageStatus
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
