"""The old master forwards its clients' requests to the new one, for a limited time."""

from pathlib import Path

import pytest

from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server.ha import client as ha_client
from broker.server.role import role_control
from tests.support.switch_cluster import SwitchCluster


@pytest.fixture(autouse=True)
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_client, "RECONNECT_MS", 20)


def test_sends_and_queries_to_the_old_master_reach_the_new_one(tmp_path: Path, run) -> None:
    async def main() -> None:
        async with SwitchCluster(tmp_path) as cluster:
            assert (await cluster.send(0)).code == 0
            await cluster.switch()
            await cluster.until_following(0)
            before = cluster.info(1).max_offset
            answer = await cluster.send(0, b"late")
            assert answer.code == ResponseCode.SUCCESS
            assert cluster.info(1).max_offset > before
            queue = {"topic": "Orders", "queueId": answer.ext_fields["queueId"]}
            found = await cluster.call(0, RequestCode.GET_MAX_OFFSET, queue)
            assert found.ext_fields["offset"] == str(int(answer.ext_fields["queueOffset"]) + 1)

    run(main())


def test_after_its_time_the_old_master_answers_as_a_slave(
    tmp_path: Path, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(role_control, "RELAY_MS", 0)

    async def main() -> None:
        async with SwitchCluster(tmp_path) as cluster:
            await cluster.switch()
            await cluster.until_following(0)
            assert (await cluster.send(0)).code == ResponseCode.SERVICE_NOT_AVAILABLE

    run(main())
