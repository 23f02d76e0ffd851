"""Each kind of put that a client is answered waits for its copies, or is refused without them."""

from pathlib import Path

import pytest

from broker.common.group import SubscriptionGroupConfig
from broker.message.batch import encode_batch
from broker.message.message import Message
from broker.remoting.client import RemotingClient
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand, request
from broker.server.standalone import EmbeddedBroker
from tests.broker.server.ha.test_replication import SMALL

COPIES = {**SMALL, "brokerRole": "SYNC_MASTER", "inSyncReplicas": "2", "slaveTimeout": "50"}
FIELDS = {
    "a": "P",
    "b": "Orders",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1700000000000",
    "h": "0",
    "j": "0",
    "k": "false",
}
KINDS = {
    "plain": ("", "0"),
    "delayed": ("DELAY\x013\x02", "0"),
    "timer": ("TIMER_DELAY_SEC\x0160\x02", "0"),
    "half": ("TRAN_MSG\x01true\x02PGROUP\x01P\x02", "4"),
    "batch": ("", "0"),
}


def sending(kind: str, wait: str = "") -> RemotingCommand:
    properties, sys_flag = KINDS[kind]
    fields = {**FIELDS, "i": properties + wait, "f": sys_flag}
    if kind != "batch":
        return request(RequestCode.SEND_MESSAGE_V2, fields, b"body")
    body = encode_batch([Message(topic="Orders", body=b"1"), Message(topic="Orders", body=b"2")])
    return request(RequestCode.SEND_BATCH_MESSAGE, {**fields, "m": "true"}, body)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("settings", "code", "stored"),
    [
        ({}, ResponseCode.FLUSH_SLAVE_TIMEOUT, True),
        ({"haSlaveFallbehindMax": "1000000"}, ResponseCode.SLAVE_NOT_AVAILABLE, True),
        ({"minInSyncReplicas": "2"}, ResponseCode.SYSTEM_ERROR, False),
        ({"enableSlaveActingMaster": "true"}, ResponseCode.SYSTEM_ERROR, False),
        ({"enableAutoInSyncReplicas": "true"}, ResponseCode.SUCCESS, True),
    ],
)
def test_a_send_without_a_slave_gets_the_code_of_the_settings(
    tmp_path: Path, run, kind: str, settings: dict[str, str], code: int, stored: bool
) -> None:
    async def main() -> None:
        async with EmbeddedBroker(str(tmp_path), {**COPIES, **settings}) as master:
            client = RemotingClient()
            store = master.controller.store
            answer = await client.call(master.address, sending(kind), 10_000)
            assert answer.code == code, answer.remark
            assert bool(store.max_physical_offset) is stored
            # WAIT=false neither waits nor needs replicas.
            answer = await client.call(master.address, sending(kind, "WAIT\x01false\x02"), 10_000)
            assert answer.code == ResponseCode.SUCCESS
            await client.close()

    run(main())


def test_a_message_sent_back_is_answered_only_with_its_copies(tmp_path: Path, run) -> None:
    async def main() -> None:
        async with EmbeddedBroker(str(tmp_path), COPIES) as master:
            client = RemotingClient()
            master.controller.context.groups.put_all([SubscriptionGroupConfig(group_name="G")])
            await client.call(master.address, sending("plain"), 10_000)
            fields = {"offset": "0", "group": "G", "delayLevel": "0"}
            back = request(RequestCode.CONSUMER_SEND_MSG_BACK, fields)
            answer = await client.call(master.address, back, 10_000)
            assert (answer.code, answer.remark) == (
                ResponseCode.SYSTEM_ERROR,
                "FLUSH_SLAVE_TIMEOUT",
            )
            await client.close()

    run(main())
