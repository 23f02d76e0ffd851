"""Transactions of a running broker: listed, found, resumed after they were given up."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.errors import ConfigError
from broker.message.properties import encode_properties
from broker.remoting.blocking import BlockingClient
from broker.remoting.protocol.codes import RequestCode
from broker.remoting.protocol.command import request
from broker.server.standalone import BlockingEmbeddedBroker
from mqadmin.admin.facade import MQAdmin
from mqadmin.admin.transaction.library import TransactionAdmin

SETTINGS = {
    "mappedFileSizeCommitLog": "1048576",
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "transactionTimeOut": "0",
    "transactionCheckInterval": "100",
    "transactionCheckMax": "3600000",
    "transactionOpBatchInterval": "0",
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BlockingEmbeddedBroker]:
    with BlockingEmbeddedBroker(str(tmp_path / "store"), SETTINGS) as running:
        yield running


@pytest.fixture
def library(broker: BlockingEmbeddedBroker) -> Iterator[TransactionAdmin]:
    with MQAdmin([broker.namesrv_address], timeout_ms=20_000) as admin:
        yield admin.transaction


def begin(broker: BlockingEmbeddedBroker, number: int) -> dict[str, str]:
    properties = {
        "TRAN_MSG": "true",
        "PGROUP": "P",
        "KEYS": f"k{number}",
        "WAIT": "true",
        "UNIQ_KEY": f"7F{number:030X}",
    }
    names = zip("abcdefhjkm", ("P", "T", "TBW102", 1, 0, 4, 0, 0, "false", "false"), strict=True)
    fields = {name: str(value) for name, value in names}
    fields |= {"g": str(time.time_ns() // 1_000_000), "i": encode_properties(properties).decode()}
    with BlockingClient(timeout_ms=20_000) as client:
        answer = client.call(broker.address, request(RequestCode.SEND_MESSAGE_V2, fields, b"x"))
    assert answer.code == 0, answer.remark
    return answer.ext_fields


def end(broker: BlockingEmbeddedBroker, half: dict[str, str], decision: int) -> None:
    fields = {
        "producerGroup": "P",
        "tranStateTableOffset": half["queueOffset"],
        "commitLogOffset": str(int(half["msgId"][16:], 16)),
        "commitOrRollback": str(decision),
        "msgId": half["transactionId"],
    }
    with BlockingClient(timeout_ms=20_000) as client:
        answer = client.call(broker.address, request(RequestCode.END_TRANSACTION, fields))
    assert answer.code == 0, answer.remark


def configure(broker: BlockingEmbeddedBroker, **settings: str) -> None:
    body = "".join(f"{key}={value}\n" for key, value in settings.items()).encode()
    with BlockingClient(timeout_ms=20_000) as client:
        answer = client.call(broker.address, request(RequestCode.UPDATE_BROKER_CONFIG, {}, body))
    assert answer.code == 0, answer.remark


def until(condition: Callable[[], Any]) -> Any:
    """Poll until the condition holds; the time limit of the test bounds it."""
    while not (found := condition()):
        time.sleep(0.02)
    return found


def test_a_broker_without_transactions_has_none(library: TransactionAdmin) -> None:
    assert library.list().items == []


def test_open_transactions_are_listed_and_decided_ones_are_not(
    broker: BlockingEmbeddedBroker, library: TransactionAdmin
) -> None:
    configure(broker, transactionCheckInterval="3600000")
    halves = [begin(broker, number) for number in range(4)]
    end(broker, halves[1], 8)
    end(broker, halves[2], 12)
    decided = {halves[n]["transactionId"] for n in (1, 2)}

    def listed() -> list[Any]:
        """The list, once the op messages of the decided ones are stored."""
        rows = [row for row in library.list().items if row.state == "open"]
        return [] if decided & {row.uniq_key for row in rows} else rows

    rows = until(listed)
    assert {row.uniq_key for row in rows} == {halves[n]["transactionId"] for n in (0, 3)}
    row = rows[0]
    assert (row.topic, row.queue_id, row.producer_group) == ("T", 0, "P")
    (found,) = library.find("k3", limit=1).items
    assert found.uniq_key == halves[3]["transactionId"]
    assert library.list(limit=1).truncated


def test_a_half_message_that_arrives_while_the_op_queue_is_read_is_not_listed(
    broker: BlockingEmbeddedBroker,
) -> None:
    """Its decision may be in the part of the op queue that was read before."""
    configure(broker, transactionCheckInterval="3600000")
    halves = [begin(broker, 0)]

    def begin_another(name: str, *_: object) -> None:
        if name == "PULL_MESSAGE" and len(halves) == 1:
            halves.append(begin(broker, 1))

    with MQAdmin([broker.namesrv_address], timeout_ms=20_000, trace=begin_another) as admin:
        rows = admin.transaction.list().items
    assert len(halves) == 2
    assert [row.uniq_key for row in rows] == [halves[0]["transactionId"]]


def test_a_discarded_transaction_is_resumed(
    broker: BlockingEmbeddedBroker, library: TransactionAdmin
) -> None:
    configure(broker, transactionCheckMax="1")
    begin(broker, 7)
    (row,) = until(lambda: [r for r in library.list().items if r.state == "discarded"])
    configure(broker, transactionCheckMax="3600000")
    (planned,) = library.plan_resume([row.offset_msg_id])
    assert (planned.status, planned.address) == ("planned", broker.address)
    assert library.resume(planned).status == "resumed"
    (again,) = until(lambda: [r for r in library.list().items if r.state == "open"])
    assert again.uniq_key == row.uniq_key


def test_only_discarded_messages_are_resumed(
    broker: BlockingEmbeddedBroker, library: TransactionAdmin
) -> None:
    """A Java broker stores any message again as a half message, an open one too."""
    half = begin(broker, 1)
    (planned,) = library.plan_resume([half["msgId"]])
    assert planned.error is not None
    assert planned.note == (
        f"message {half['msgId']} of topic RMQ_SYS_TRANS_HALF_TOPIC is not a discarded transaction"
    )
    assert [row.uniq_key for row in library.list().items] == [half["transactionId"]]


def test_an_id_that_names_no_message_is_not_resumed(
    broker: BlockingEmbeddedBroker, library: TransactionAdmin
) -> None:
    half = begin(broker, 1)
    absent = half["msgId"][:16] + "00000000FFFFFFFF"
    gone = "00000000000000000000000000000001" + "00000001" + "0" * 16
    past, unreachable = library.plan_resume([absent, gone])
    assert "is not written yet" in past.note
    assert unreachable.error is not None
    assert (unreachable.error.kind, unreachable.address) == ("unreachable", "[::1]:1")


def test_an_invalid_id_is_a_usage_error(library: TransactionAdmin) -> None:
    with pytest.raises(ConfigError, match="not an offsetMsgId: 'no id'"):
        library.plan_resume(["no id"])
