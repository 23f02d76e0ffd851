"""The epochs of the other brokers decide whether a returning master may serve."""

from pathlib import Path

import pytest

from broker.remoting.protocol.codes import ResponseCode
from broker.server.ha import client as ha_client
from broker.server.role import peer_check
from tests.support.switch_cluster import SwitchCluster


@pytest.fixture(autouse=True)
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_client, "RECONNECT_MS", 20)
    monkeypatch.setattr(peer_check, "TIMEOUT_MS", 500)


def test_a_master_that_was_replaced_while_it_was_down_is_fenced_and_not_registered(
    tmp_path: Path, run
) -> None:
    async def main() -> None:
        async with SwitchCluster(tmp_path) as cluster:
            await cluster.brokers[0].close()
            target = cluster.brokers[1].address
            await cluster.step(1, "fence", epoch=1, target=target)
            await cluster.step(1, "promote", epoch=1)
            await cluster.until_serving(1)
            await cluster.start(0)
            answer = await cluster.send(0)
            assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
            assert target in (answer.remark or "")
            assert cluster.info(0).voted_epoch == 1
            assert cluster.info(0).fenced_reason
            assert (await cluster.send(1)).code == 0

    run(main())


def test_a_master_without_peers_serves_at_once(tmp_path: Path, run) -> None:
    async def main() -> None:
        async with SwitchCluster(tmp_path, slaves=0) as cluster:
            assert (await cluster.send(0)).code == 0
            await cluster.brokers[0].close()
            await cluster.start(0)
            assert (await cluster.send(0)).code == 0

    run(main())
