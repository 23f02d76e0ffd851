"""A broker changes its role in its process: traffic, addresses, clients, restarts."""

import json
from pathlib import Path

import pytest

from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server.ha import client as ha_client
from tests.support.replicas import until
from tests.support.switch_cluster import SwitchCluster


@pytest.fixture(autouse=True)
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_client, "RECONNECT_MS", 20)


HEARTBEAT = {
    "clientID": "127.0.0.1@reader",
    "consumerDataSet": [
        {
            "groupName": "readers",
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [
                {"topic": "Orders", "subString": "*", "subVersion": 1, "expressionType": "TAG"}
            ],
            "unitMode": False,
        }
    ],
    "producerDataSet": [],
}


def test_roles_are_exchanged_on_the_same_addresses_and_members_are_carried_over(
    tmp_path: Path, run
) -> None:
    async def main() -> None:
        async with SwitchCluster(tmp_path) as cluster:
            for number in range(5):
                assert (await cluster.send(0, b"%d" % number)).code == 0
            body = json.dumps(HEARTBEAT).encode()
            await cluster.call(1, RequestCode.HEART_BEAT, {}, body)
            addresses = [broker.address for broker in cluster.brokers]
            await cluster.switch()
            await cluster.until_following(0)
            assert [broker.address for broker in cluster.brokers] == addresses
            assert (await cluster.send(1)).code == ResponseCode.SUCCESS
            await until(lambda: cluster.info(0).max_offset == cluster.info(1).max_offset)
            controller = cluster.brokers[1].controller
            assert controller is not None
            group = controller.context.consumers.get("readers")
            assert group is not None
            assert group.client_ids() == ["127.0.0.1@reader"]
            assert cluster.info(1).epochs[0].epoch == 1

    run(main())


def test_the_new_role_and_the_durability_of_the_old_master_survive_a_restart(
    tmp_path: Path, run
) -> None:
    async def main() -> None:
        async with SwitchCluster(tmp_path) as cluster:
            assert (await cluster.send(0)).code == 0
            await cluster.switch(properties={"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"})
            await cluster.until_following(0)
            for broker in cluster.brokers:
                await broker.close()
            await cluster.start(1)
            await cluster.start(0)
            await cluster.until_following(0)
            controller = cluster.brokers[1].controller
            assert controller is not None
            assert controller.context.config.broker_role == "SYNC_MASTER"
            assert controller.context.settings.ha.in_sync_replicas == 2
            assert (await cluster.send(1)).code == ResponseCode.SUCCESS
            assert cluster.info(0).max_offset == cluster.info(1).max_offset

    run(main())
