"""NOTIFY_MIN_BROKER_ID_CHANGE and EXCHANGE_BROKER_HA_INFO."""

from pathlib import Path

from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import request
from broker.remoting.protocol.header.broker import (
    ExchangeHAInfoHeader,
    NotifyMinBrokerIdChangeRequestHeader,
)
from broker.remoting.protocol.header.fields import encode_header_fields
from tests.support.broker_group import SLAVE, Group


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
        registrar = slave.registrar
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
        members = slave.replication.members
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


def test_two_slaves_of_one_host_name_their_connections_and_count_as_two_copies(
    tmp_path: Path, run
) -> None:
    async def main() -> None:
        group = Group(tmp_path)
        await group.namesrv.start([("127.0.0.1", 0)])
        rules = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "3", "slaveTimeout": "60000"}
        master = await group.broker("master", enableSlaveActingMaster="false", **rules)
        slaves = [await group.broker(f"slave{n}", **{**SLAVE, "brokerId": n}) for n in ("1", "2")]
        fields = {"a": "P", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0"}
        fields |= {"h": "0", "i": "", "j": "0", "k": "false"}
        command = request(RequestCode.SEND_MESSAGE_V2, fields, b"x")
        answer = await group.client.call(master.context.address, command, 60_000)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        end = master.store.max_physical_offset
        assert [slave.store.max_physical_offset for slave in slaves] == [end, end]
        await group.client.close()
        for broker in (*slaves, master):
            await broker.close()
        await group.namesrv.close()

    run(main())
