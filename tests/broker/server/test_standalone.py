"""Broker and name server in one process."""

import json
import time
from pathlib import Path

import pytest

from broker.common.address import parse_address
from broker.errors import ConnectError, StoreLockedError
from broker.remoting.client import RemotingClient
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import request
from broker.server.standalone import BlockingEmbeddedBroker, EmbeddedBroker, embedded_settings


async def route(address: str, topic: str):
    client = RemotingClient()
    try:
        command = request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        return await client.call(address, command, 10_000)
    finally:
        await client.close()


def test_broker_is_known_when_it_is_ready(tmp_path: Path, run) -> None:
    async def main() -> None:
        async with EmbeddedBroker(str(tmp_path)) as broker:
            answer = await route(broker.namesrv_address, "TBW102")
            assert answer.code == 0
            data = json.loads(answer.body_bytes())
            assert data["brokerDatas"][0]["brokerAddrs"] == {"0": broker.address}

    run(main())


def test_ready_within_a_second(tmp_path: Path, run) -> None:
    async def main() -> float:
        started = time.perf_counter()
        async with EmbeddedBroker(str(tmp_path)):
            return time.perf_counter() - started

    assert run(main()) < 1.0


def test_new_topic_has_a_route_when_its_making_is_answered(tmp_path: Path, run) -> None:
    ext = {
        "topic": "Orders",
        "defaultTopic": "TBW102",
        "readQueueNums": "3",
        "writeQueueNums": "3",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
    }

    async def main() -> None:
        async with EmbeddedBroker(str(tmp_path)) as broker:
            assert (await route(broker.namesrv_address, "Orders")).code == 17
            client = RemotingClient()
            command = request(RequestCode.UPDATE_AND_CREATE_TOPIC, ext)
            assert (await client.call(broker.address, command, 10_000)).code == 0
            await client.close()
            answer = await route(broker.namesrv_address, "Orders")
            assert json.loads(answer.body_bytes())["queueDatas"][0]["readQueueNums"] == 3

    run(main())


def test_route_ends_with_the_broker(tmp_path: Path, run) -> None:
    async def main() -> None:
        async with EmbeddedBroker(str(tmp_path)) as broker:
            await broker.controller.close()
            answer = await route(broker.namesrv_address, "TBW102")
            assert answer.code == ResponseCode.TOPIC_NOT_EXIST

    run(main())


def test_blocking_form_runs_in_its_own_thread(tmp_path: Path, run) -> None:
    with BlockingEmbeddedBroker(str(tmp_path), {"brokerName": "b-1"}) as broker:
        assert parse_address(broker.namesrv_address)[0] == "127.0.0.1"
        answer = run(route(broker.namesrv_address, "b-1"))
        assert answer.code == 0
        assert broker.call(route(broker.namesrv_address, "TBW102")).code == 0
    assert not (tmp_path / "abort").exists()
    with pytest.raises(ConnectError):
        run(route(broker.namesrv_address, "TBW102"))


def test_the_blocking_form_reports_why_it_cannot_start(tmp_path: Path, event_loop_name) -> None:
    with (
        BlockingEmbeddedBroker(str(tmp_path)),
        pytest.raises(StoreLockedError),
        BlockingEmbeddedBroker(str(tmp_path)),
    ):
        pass


def test_failed_start_leaves_nothing_running(tmp_path: Path, run) -> None:
    async def main() -> None:
        async with EmbeddedBroker(str(tmp_path)):
            second = EmbeddedBroker(str(tmp_path))
            with pytest.raises(StoreLockedError):
                await second.__aenter__()
            assert second.standalone.namesrv.addresses == []

    run(main())


def test_settings_of_an_embedded_broker(tmp_path: Path) -> None:
    settings = embedded_settings(str(tmp_path), {"autoCreateTopicEnable": "false"})
    assert settings.store.root == str(tmp_path)
    assert settings.broker.listen_port == 0
    assert not settings.broker.auto_create_topic_enable
