"""enableSlaveActingMaster: the slave of the lowest id is presented as master until it is back."""

from pathlib import Path

import pytest

from broker.remoting.protocol.codes import ResponseCode
from broker.server.ha import client as ha_client
from broker.server.ha import member_group, slave_synchronize
from tests.broker.server.ha.test_replication import send
from tests.support.broker_group import SLAVE, Group
from tests.support.replicas import until


@pytest.fixture(autouse=True)
def short_periods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ha_client, "RECONNECT_MS", 20)
    monkeypatch.setattr(slave_synchronize, "PERIOD_MS", 100)
    monkeypatch.setattr(member_group, "PERIOD_MS", 50)


def test_a_slave_acts_for_its_master_and_the_master_takes_the_offsets_back(
    tmp_path: Path, run
) -> None:
    async def main() -> None:
        group = Group(tmp_path)
        await group.namesrv.start([("127.0.0.1", 0)])
        master = await group.broker("master")
        slave = await group.broker("slave", **SLAVE)
        members = slave.replication.members
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


def test_name_servers_miss_a_master_that_hangs_after_ten_seconds(tmp_path: Path, run) -> None:
    async def main() -> None:
        group = Group(tmp_path)
        await group.namesrv.start([("127.0.0.1", 0)])
        master = await group.broker("master")
        (live,) = group.namesrv.routes.live.values()
        assert live.timeout_ms == 10_000
        registered_ms = live.updated_ms
        # the registration is renewed after 10 s only
        await until(lambda: live.updated_ms >= registered_ms + 100)
        await group.client.close()
        await master.close()
        await group.namesrv.close()

    run(main())
