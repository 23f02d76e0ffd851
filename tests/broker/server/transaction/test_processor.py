"""END_TRANSACTION and RESUME_CHECK_HALF_MESSAGE as requests."""

import pytest

from broker.errors import RocketMQError
from broker.remoting.protocol.codes import RequestCode, ResponseCode

HEADER = {
    "producerGroup": "P1",
    "tranStateTableOffset": 0,
    "commitLogOffset": 0,
    "commitOrRollback": 8,
    "msgId": "U1",
}


@pytest.mark.parametrize("missing", ["producerGroup", "commitLogOffset", "tranStateTableOffset"])
def test_a_header_without_a_required_field_is_an_error(ledger, missing: str) -> None:
    header = {name: value for name, value in HEADER.items() if name != missing}
    with pytest.raises(RocketMQError):
        ledger.desk.raw(RequestCode.END_TRANSACTION, header)


def test_an_end_without_a_half_message_is_a_system_error(ledger) -> None:
    answer = ledger.desk.ask(RequestCode.END_TRANSACTION, HEADER)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "Find prepared transaction message failed"


def test_a_decision_that_does_not_exist_is_an_error(ledger) -> None:
    answer = ledger.desk.ask(RequestCode.END_TRANSACTION, {**HEADER, "commitOrRollback": 7})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == "commitOrRollback 7: 8 commits, 12 rolls back"


def test_half_messages_are_refused_where_they_are_configured_off(make_desk) -> None:
    desk = make_desk(rejectTransactionMessage="true")
    desk.topic("Orders")
    answer = desk.send(properties={"TRAN_MSG": "true", "PGROUP": "P1"})
    assert answer.code == ResponseCode.NO_PERMISSION
    assert "sending transaction message is forbidden" in answer.remark
    assert desk.messages("RMQ_SYS_TRANS_HALF_TOPIC") == []


def test_a_broker_without_transactions_answers_as_a_slave(ledger) -> None:
    ledger.desk.context.transactions = None
    answer = ledger.desk.ask(RequestCode.END_TRANSACTION, HEADER)
    assert answer.code == ResponseCode.SLAVE_NOT_AVAILABLE
    answer = ledger.desk.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": "00" * 16})
    assert answer.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(("flag", "queued"), [(0x4, False), (0xC, False), (0x8, True)])
def test_transaction_bits_of_a_plain_send_are_stored_as_java_stores_them(
    ledger, flag: int, queued: bool
) -> None:
    """PREPARED and ROLLBACK records get no unit; COMMIT is an ordinary message."""
    answer = ledger.desk.send(body=b"bits", f=flag)
    assert (answer.code, answer.ext_fields["queueOffset"]) == (0, "0")
    found = ledger.all("Orders")
    assert [message.body for message in found] == ([b"bits"] if queued else [])
    record = ledger.service.bridge.message_at(int(answer.ext_fields["msgId"][16:], 16))
    assert record.sys_flag & 0xC == flag
    assert record.prepared_transaction_offset == 0
