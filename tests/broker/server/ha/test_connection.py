"""The master's thread for one slave: heartbeats and the transfer rate."""

import asyncio
import time
from pathlib import Path

from broker.server.ha.config import HaConfig
from broker.server.ha.connection import FlowControl
from broker.store.ha.frames import encode_report, encode_transfer_header
from tests.support.replicas import Pair, in_pair, log_bytes, put, until


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


def test_the_transfer_rate_of_all_slaves_is_limited_per_second() -> None:
    flow = FlowControl(1_000)
    assert flow.allowance(600, 10.0) == 600
    assert flow.allowance(600, 10.5) == 400
    assert flow.allowance(600, 10.9) == 0
    assert flow.allowance(600, 11.0) == 600


def test_a_limited_transfer_copies_the_whole_log(tmp_path: Path, run) -> None:
    limit = 25_000
    config = HaConfig(ha_flow_control_enable=True, max_ha_transfer_byte_in_second=limit)

    async def scenario(pair: Pair) -> None:
        put(pair.master, 60)
        end = pair.master.max_physical_offset
        assert end > 1.5 * limit
        started = time.monotonic()
        slave, _ = pair.follow()
        await until(lambda: slave.max_physical_offset == end)
        # The first and the last second may be short, each with a whole allowance.
        assert time.monotonic() - started >= end / limit - 2
        assert log_bytes(slave) == log_bytes(pair.master)

    run(in_pair(tmp_path, scenario, config))


def test_a_slave_that_requests_deleted_data_is_disconnected(tmp_path: Path, run) -> None:
    async def scenario(pair: Pair) -> None:
        put(pair.master, 400)
        pair.master.log.files.remove_first()
        reader, writer = await asyncio.open_connection("127.0.0.1", pair.service.port)
        writer.write(encode_report(10))
        assert await reader.read() == b""
        writer.close()

    run(in_pair(tmp_path, scenario))


def test_a_malformed_report_closes_the_connection(tmp_path: Path, run) -> None:
    async def scenario(pair: Pair) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", pair.service.port)
        writer.write(b"\xff" * 8)
        assert await reader.read() == b""
        writer.close()
        await until(lambda: not pair.service.runtime_info().ha_connection_info)

    run(in_pair(tmp_path, scenario))


def test_a_report_of_more_than_was_sent_acknowledges_nothing(tmp_path: Path, run) -> None:
    async def scenario(pair: Pair) -> None:
        put(pair.master, 3)
        end = pair.master.max_physical_offset
        answers: list[object] = []
        pair.service.await_replicas(end, 2, answers.append)
        reader, writer = await asyncio.open_connection("127.0.0.1", pair.service.port)
        writer.write(encode_report(10))
        await reader.readexactly(12 + end - 10)
        writer.write(encode_report(end + 1))
        assert await reader.read() == b""
        writer.close()
        assert answers == []

    run(in_pair(tmp_path, scenario))


def test_a_slave_ahead_of_its_master_gets_heartbeats_only_and_acknowledges_nothing(
    tmp_path: Path, run
) -> None:
    config = HaConfig(ha_send_heartbeat_interval=20)

    async def scenario(pair: Pair) -> None:
        put(pair.master, 3)
        ahead = pair.master.max_physical_offset + 1_000
        reader, writer = await asyncio.open_connection("127.0.0.1", pair.service.port)
        writer.write(encode_report(ahead))
        heartbeat = encode_transfer_header(ahead, 0)
        assert await reader.readexactly(12) == heartbeat
        put(pair.master, 3)
        assert pair.master.max_physical_offset > ahead
        answers: list[object] = []
        pair.service.await_replicas(ahead, 2, answers.append)
        writer.write(encode_report(ahead))
        assert await reader.readexactly(24) == heartbeat * 2
        assert answers == []
        assert pair.service.runtime_info().in_sync_slave_nums == 0
        writer.close()

    run(in_pair(tmp_path, scenario, config))


def test_a_report_during_a_long_send_acknowledges_its_part(tmp_path: Path, run) -> None:
    config = HaConfig(ha_transfer_batch_size=4 << 20)

    async def scenario(pair: Pair) -> None:
        put(pair.master, 80)
        reader, writer = await asyncio.open_connection("127.0.0.1", pair.service.port, limit=1024)
        writer.write(encode_report(1))
        await reader.readexactly(12 + 1_000)
        writer.write(encode_report(1_001))
        await until(
            lambda: (
                [one.slave_ack_offset for one in pair.service.runtime_info().ha_connection_info]
                == [1_001]
            )
        )
        writer.close()

    run(in_pair(tmp_path, scenario, config))


def test_a_marked_transfer_ends_in_the_fixed_fields_of_a_record_once(tmp_path: Path, run) -> None:
    async def scenario(pair: Pair) -> None:
        put(pair.master, 3)
        end = pair.master.max_physical_offset
        reader, writer = await asyncio.open_connection("127.0.0.1", pair.service.port)
        writer.write(encode_report(end))
        await until(lambda: pair.service.is_copied(end, 2))
        (connection,) = pair.service.connections
        connection.mark_transfer()
        put(pair.master, 1)
        size = connection.mark_bytes
        assert 0 < size < 91
        marked = encode_transfer_header(end, size)
        assert await reader.readexactly(12) == marked
        await reader.readexactly(size)
        writer.write(encode_report(end + size))
        rest = pair.master.max_physical_offset - end - size
        assert await reader.readexactly(12) == encode_transfer_header(end + size, rest)
        await until(lambda: connection.mark_acknowledged)
        await reader.readexactly(rest)
        connection.mark_transfer()
        end = pair.master.max_physical_offset
        put(pair.master, 1)
        rest = pair.master.max_physical_offset - end
        assert await reader.readexactly(12) == encode_transfer_header(end, rest)
        writer.close()

    run(in_pair(tmp_path, scenario))
