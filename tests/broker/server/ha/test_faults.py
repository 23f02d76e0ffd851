"""Replication over broken links, full disks, restarts of the master, and clock jumps.

The rule of all: a record that is acknowledged as copied is on the slave, the slave's log is the
beginning of its master's at every moment, and it follows again when the fault is gone.
"""

import errno
import os
import random
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.common.clock import SystemClock
from broker.remoting.security.access import AccessRules
from broker.server.ha import client as ha_client
from broker.server.ha.client import HAClient
from broker.server.ha.config import HaConfig
from broker.server.ha.service import HAService
from broker.store.message_store import MessageStore
from broker.store.results import PutMessageStatus
from tests.support.faulty_proxy import FaultyProxy
from tests.support.replicas import Pair, in_pair, log_bytes, open_store, put, until

ROUNDS = int(os.environ.get("HA_FAULT_ROUNDS", "200"))
# 20 ms per round on a free machine; a long form runs together with other work.
LIMIT_S = 60 + ROUNDS
QUICK = HaConfig(ha_send_heartbeat_interval=20, ha_housekeeping_interval=400, slave_timeout=60_000)
# Jumps are longer than this time; a process that waits for a busy processor waits less.
PATIENT = HaConfig(
    ha_send_heartbeat_interval=20, ha_housekeeping_interval=600_000, slave_timeout=600_000
)


@pytest.fixture(autouse=True)
def fast_reconnect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_client, "RECONNECT_MS", 1)


def is_copied(slave: MessageStore, master: MessageStore) -> bool:
    return slave.max_physical_offset == master.max_physical_offset


def assert_beginning(slave: MessageStore, master: MessageStore) -> None:
    own = log_bytes(slave)
    assert log_bytes(master)[: len(own)] == own


def client_through(proxy: FaultyProxy, slave: MessageStore, config: HaConfig) -> HAClient:
    client = HAClient(slave, config, SystemClock(), lambda: f"127.0.0.1:{proxy.port}")
    client.start()
    return client


@pytest.mark.timeout(60 + LIMIT_S)
def test_broken_links_lose_no_acknowledged_record_and_change_no_byte(tmp_path: Path, run) -> None:
    seed = int(os.environ.get("HA_FAULT_SEED") or random.randrange(1 << 30))
    print(f"seed {seed}")
    chance = random.Random(seed)

    async def scenario(pair: Pair) -> None:
        proxy = FaultyProxy(chance, lambda: ("127.0.0.1", pair.service.port))
        await proxy.start()
        slave = open_store(tmp_path / "slave")
        slave.flags.make_replica()
        pair.stores.append(slave)
        client = client_through(proxy, slave, QUICK)
        pair.clients.append(client)
        wrong: list[str] = []
        copied = [0]

        def copied_to(end: int) -> Callable[[PutMessageStatus], None]:
            def check(status: PutMessageStatus) -> None:
                if status is PutMessageStatus.PUT_OK:
                    copied[0] = max(copied[0], end)
                    if slave.max_physical_offset < end:
                        wrong.append(f"{end} acknowledged, the slave has less")

            return check

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for number in range(ROUNDS):
            put(pair.master, chance.randrange(1, 4), size=chance.randrange(1, 1500))
            end = pair.master.max_physical_offset
            pair.service.await_replicas(end, 2, copied_to(end))
            connections = sum(proxy.faults.values())
            if chance.randrange(3) == 0:
                proxy.cut()
            await until(
                lambda n=connections, e=end: sum(proxy.faults.values()) > n or copied[0] >= e
            )
            if number % 20 == 0:
                assert_beginning(slave, pair.master)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        proxy.calm = True
        proxy.cut()
        await until(lambda: is_copied(slave, pair.master))
        await until(lambda: copied[0] == pair.master.max_physical_offset)
        await client.stop()
        await proxy.stop()
        assert not wrong
        assert log_bytes(slave) == log_bytes(pair.master)
        assert client.diverged_at is None
        assert all(proxy.faults.values()), proxy.faults
        assert grown < 64 * 1024, f"{grown} KiB"

    run(in_pair(tmp_path, scenario, QUICK), LIMIT_S)


def test_a_slave_with_a_full_disk_acknowledges_nothing_and_follows_again_when_it_has_room(
    tmp_path: Path, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(pair: Pair) -> None:
        slave, client = pair.follow()
        put(pair.master, 5)
        await until(lambda: is_copied(slave, pair.master))
        real = slave.writer.append_replica

        def full(*_args: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(slave.writer, "append_replica", full)
        end = slave.max_physical_offset
        put(pair.master, 5)
        answers: list[PutMessageStatus] = []
        pair.service.await_replicas(pair.master.max_physical_offset, 2, answers.append)
        await until(lambda: "No space left" in client.problem)
        assert slave.max_physical_offset == end
        assert answers == []
        monkeypatch.setattr(slave.writer, "append_replica", real)
        await until(lambda: answers)
        assert answers == [PutMessageStatus.PUT_OK]
        assert log_bytes(slave) == log_bytes(pair.master)
        await until(lambda: client.problem == "")

    run(in_pair(tmp_path, scenario, QUICK))


def test_a_slave_follows_its_master_again_after_each_restart(tmp_path: Path, run) -> None:
    async def scenario() -> None:
        slave = open_store(tmp_path / "slave")
        slave.flags.make_replica()
        place = [""]
        client = HAClient(slave, QUICK, SystemClock(), lambda: place[0])
        client.start()
        for number in range(5):
            master = open_store(tmp_path / "master")
            service = HAService(master, QUICK, SystemClock(), AccessRules())
            await service.start("127.0.0.1", 0)
            place[0] = f"127.0.0.1:{service.port}"
            put(master, 40)
            if number % 2:  # without waiting the master stops in the middle of the copy
                await until(lambda master=master: is_copied(slave, master))
            await service.stop()
            assert_beginning(slave, master)
            master.shutdown()
        master = open_store(tmp_path / "master")
        service = HAService(master, QUICK, SystemClock(), AccessRules())
        await service.start("127.0.0.1", 0)
        place[0] = f"127.0.0.1:{service.port}"
        await until(lambda: is_copied(slave, master))
        assert log_bytes(slave) == log_bytes(master)
        assert client.diverged_at is None
        await client.stop()
        await service.stop()
        slave.shutdown()
        master.shutdown()

    run(scenario())


class JumpingClock(SystemClock):
    """The wall clock jumps; the monotonic one does not."""

    def __init__(self) -> None:
        self.jump_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.jump_ms


def test_jumps_of_the_wall_clock_do_not_end_a_connection_or_a_wait(tmp_path: Path, run) -> None:
    async def scenario(pair: Pair) -> None:
        clock = JumpingClock()
        slave = open_store(tmp_path / "jumping")
        slave.flags.make_replica()
        address = f"127.0.0.1:{pair.service.port}"
        client = HAClient(slave, PATIENT, clock, lambda: address)
        client.start()
        pair.stores.append(slave)
        pair.clients.append(client)
        await until(lambda: client.connected)
        connection = pair.service.runtime_info
        await until(lambda: connection().ha_connection_info)
        (before,) = (one.addr for one in connection().ha_connection_info)
        for jump_ms in (86_400_000, -86_400_000, 3_600_000, 0):
            clock.jump_ms = jump_ms
            put(pair.master, 5)
            answers: list[PutMessageStatus] = []
            pair.service.await_replicas(pair.master.max_physical_offset, 2, answers.append)
            await until(lambda answers=answers: answers)
            assert answers == [PutMessageStatus.PUT_OK]
        (after,) = (one.addr for one in connection().ha_connection_info)
        assert after == before
        assert client.problem == ""

    run(in_pair(tmp_path, scenario, PATIENT))
