"""The requests about roles: answers, refusals, checksums."""

import zlib
from pathlib import Path

import pytest

from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server.ha import client as ha_client
from broker.server.role import processor
from tests.support.switch_cluster import SwitchCluster


@pytest.fixture(autouse=True)
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_client, "RECONNECT_MS", 20)


def test_an_unknown_step_and_a_broker_with_its_name_server_are_refused(desk) -> None:
    answer = desk.ask(RequestCode.CHANGE_BROKER_ROLE, {"action": "fence", "epoch": "1"})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "one process with its name server" in answer.remark
    assert desk.ask(RequestCode.GET_BROKER_ROLE).code == ResponseCode.SYSTEM_ERROR
    epochs = desk.ask(RequestCode.GET_BROKER_EPOCH_CACHE)
    assert "controllerMode" in epochs.remark


def test_checksums_are_those_of_the_log_over_all_its_files(
    tmp_path: Path, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "SLICE_BYTES", 1000)

    async def main() -> None:
        async with SwitchCluster(tmp_path, slaves=0) as cluster:
            for number in range(100):
                assert (await cluster.send(0, b"%04d" % number * 1000)).code == 0
            end = cluster.info(0).max_offset
            folder = tmp_path / "store-0" / "commitlog"
            data = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))[:end]
            for start, size in ((0, 10), (5, 300_000), (end - 7, 7), (end - 7, 100)):
                answer = await cluster.call(
                    0,
                    RequestCode.GET_LOG_CHECKSUM,
                    {"physicalOffset": str(start), "size": str(size)},
                )
                part = data[start : start + size]
                assert answer.ext_fields == {"crc": str(zlib.crc32(part)), "size": str(len(part))}
            for start, size in ((end + 1, 1), (0, 0), (0, 1 << 30), (-1, 5)):
                answer = await cluster.call(
                    0,
                    RequestCode.GET_LOG_CHECKSUM,
                    {"physicalOffset": str(start), "size": str(size)},
                )
                assert answer.code == ResponseCode.SYSTEM_ERROR
            unknown = await cluster.step(0, "elect")
            assert "one of fence, synchronize, promote, demote" in (unknown.remark or "")

    run(main())


def test_java_tools_read_the_epochs_of_a_promoted_broker(tmp_path: Path, run) -> None:
    async def main() -> None:
        async with SwitchCluster(tmp_path) as cluster:
            await cluster.switch(epoch=4)
            answer = await cluster.call(1, RequestCode.GET_BROKER_EPOCH_CACHE, {})
            assert answer.code == 0
            assert b'"epoch":4' in answer.body_bytes().replace(b" ", b"")

    run(main())
