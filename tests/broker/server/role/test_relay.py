"""The old master forwards its clients' requests to the new one, for a limited time."""

import asyncio
from pathlib import Path

import pytest

from broker.errors import RemotingError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand
from broker.server import controller
from broker.server.ha import client as ha_client
from broker.server.role import role_control
from tests.support.replicas import until
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


def pull_request(answer: RemotingCommand) -> dict[str, str]:
    """A pull of the record after a sent one, which a master suspends."""
    return {
        "consumerGroup": "G",
        "topic": "Orders",
        "queueId": answer.ext_fields["queueId"],
        "queueOffset": str(int(answer.ext_fields["queueOffset"]) + 1),
        "maxMsgNums": "32",
        "sysFlag": "6",
        "commitOffset": "0",
        "suspendTimeoutMillis": "60000",
        "subscription": "*",
        "expressionType": "TAG",
        "subVersion": "0",
    }


def test_a_broker_that_stops_does_not_wait_for_forwarded_pulls_that_are_suspended(
    tmp_path: Path, run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "DRAIN_MS", 600_000)

    async def main() -> None:
        async with SwitchCluster(tmp_path) as cluster:
            sent = await cluster.send(0)
            await cluster.switch()
            await cluster.until_following(0)
            new_master = cluster.brokers[1].controller
            assert new_master is not None
            pull = asyncio.create_task(
                cluster.call(0, RequestCode.PULL_MESSAGE, pull_request(sent))
            )
            await until(lambda: len(new_master.context.holds))
            await cluster.brokers[0].close()  # the test times out first if it waits
            with pytest.raises(RemotingError):
                await pull

    run(main())


def test_a_forwarded_send_gets_its_response_although_the_broker_stops(tmp_path: Path, run) -> None:
    async def main() -> None:
        async with SwitchCluster(tmp_path) as cluster:
            await cluster.switch()
            await cluster.until_following(0)
            end = cluster.info(1).max_offset
            send = asyncio.create_task(cluster.send(0))
            await until(lambda: cluster.info(1).max_offset > end)
            await cluster.brokers[0].close()
            assert (await send).code == ResponseCode.SUCCESS

    run(main())
