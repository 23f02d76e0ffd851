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
