"""enableSlaveActingMaster: the slave of the lowest id is presented as master, and gives way."""

import json
from pathlib import Path

import pytest

from broker.namesrv.config import NamesrvConfig
from broker.namesrv.server import NameServer
from broker.remoting.client import RemotingClient
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import request
from broker.remoting.protocol.header.broker import (
    ExchangeHAInfoHeader,
    NotifyMinBrokerIdChangeRequestHeader,
)
from broker.remoting.protocol.header.fields import encode_header_fields
from broker.server.controller import BrokerController
from broker.server.ha import client as ha_client
from broker.server.ha import member_group, slave_synchronize
from broker.server.standalone import embedded_settings
from tests.broker.server.ha.test_replication import SMALL, send
from tests.support.replicas import until

ACTING = {**SMALL, "enableSlaveActingMaster": "true", "brokerName": "pair"}
SLAVE = {"brokerRole": "SLAVE", "brokerId": "1"}


@pytest.fixture(autouse=True)
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_client, "RECONNECT_MS", 20)
    monkeypatch.setattr(slave_synchronize, "PERIOD_MS", 100)
    monkeypatch.setattr(member_group, "PERIOD_MS", 50)


class Group:
    """A name server with supportActingMaster, and brokers of one name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.namesrv = NameServer(NamesrvConfig(support_acting_master=True))
        self.client = RemotingClient()

    async def broker(self, name: str, **more: str) -> BrokerController:
        settings = embedded_settings(
            str(self.root / name),
            {**ACTING, "namesrvAddr": self.namesrv.addresses[0], **more},
        )
        broker = BrokerController(settings, listen=[("127.0.0.1", 0)])
        await broker.start()
        return broker

    async def route(self, topic: str) -> dict:
        answer = await self.client.call(
            self.namesrv.addresses[0],
            request(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}),
            10_000,
        )
        return json.loads(answer.body_bytes())


def test_a_slave_acts_for_its_master_and_the_master_takes_the_offsets_back(
    tmp_path: Path, run
) -> None:
    async def main() -> None:
        group = Group(tmp_path)
        await group.namesrv.start([("127.0.0.1", 0)])
        master = await group.broker("master")
        slave = await group.broker("slave", **SLAVE)
        assert slave.context.replication is not None
        members = slave.context.replication.members
        for _ in range(5):
            assert (await send(master.context.address, group.client)).code == ResponseCode.SUCCESS
        await until(lambda: slave.store.get_max_offset("Orders", 0) == 5)
        await until(lambda: "Orders" in slave.context.topics)
        await until(lambda: members.min_broker_id == 0)
        assert not members.acting
        await master.close()
        await until(lambda: members.acting)
        route = await group.route("Orders")
        assert route["brokerDatas"][0]["brokerAddrs"] == {"0": slave.context.address}
        assert {queue["perm"] for queue in route["queueDatas"]} == {4}
        answer = await send(slave.context.address, group.client)
        assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
        slave.context.offsets.commit("G", "Orders", 0, 4)
        slave.context.offsets.commit("G", "Orders", 1, 9)  # the queue does not reach it
        master = await group.broker("master")
        assert master.context.offsets.query("G", "Orders", 0) == 4
        assert master.context.offsets.query("G", "Orders", 1) in (-1, None)
        await until(lambda: not members.acting)
        route = await group.route("Orders")
        assert route["brokerDatas"][0]["brokerAddrs"]["0"] == master.context.address
        await group.client.close()
        await slave.close()
        await master.close()
        await group.namesrv.close()

    run(main())


def test_a_notification_and_an_exchange_name_the_master(tmp_path: Path, run) -> None:
    async def main() -> None:
        group = Group(tmp_path)
        await group.namesrv.start([("127.0.0.1", 0)])
        master = await group.broker("master")
        slave = await group.broker("slave", **SLAVE)
        code = RequestCode.EXCHANGE_BROKER_HA_INFO
        answer = await group.client.call(master.context.address, request(code), 10_000)
        assert answer.code == ResponseCode.SUCCESS
        assert answer.ext_fields["masterAddress"] == master.context.address
        assert slave.context.replication is not None
        registrar = slave.context.replication._registrar
        adopted = ExchangeHAInfoHeader(
            master_ha_address="127.0.0.1:2", master_address="127.0.0.1:1"
        )
        await group.client.call(
            slave.context.address, request(code, encode_header_fields(adopted)), 10_000
        )
        assert registrar.master_ha_address == "127.0.0.1:2"
        bad = await group.client.call(
            slave.context.address, request(code, {"masterHaAddress": "nowhere"}), 10_000
        )
        assert bad.code == ResponseCode.INVALID_PARAMETER
        members = slave.context.replication.members
        change = NotifyMinBrokerIdChangeRequestHeader(
            min_broker_id=1,
            broker_name="pair",
            min_broker_addr=slave.context.address,
            offline_broker_addr=registrar.master_address,
        )
        members.changed(change)
        assert members.acting
        assert registrar.master_address == ""
        await group.client.close()
        await slave.close()
        await master.close()
        await group.namesrv.close()

    run(main())
