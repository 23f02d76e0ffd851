"""Responses to a send."""

import pytest

from broker.common.message_queue import MessageQueue
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import request, response
from broker.remoting.rpc.caller import Reply
from broker.remoting.rpc.send_response import RETRIED_CODES, SEND_STATUS, SendStatus, read_send

SENT = request(RequestCode.SEND_MESSAGE_V2, {})


@pytest.mark.parametrize(("code", "status"), sorted(SEND_STATUS.items()))
def test_every_status_of_a_stored_message_is_a_result(code: int, status: SendStatus) -> None:
    fields = {"msgId": "id", "queueId": "3", "queueOffset": "7"}
    reply = Reply("a:1", SENT.code, response(SENT, code, ext=fields))
    result = read_send(reply, MessageQueue("T", "broker-a", -1), "key")
    assert (result.send_status, result.msg_id, result.offset_msg_id) == (status, "key", "id")
    assert result.message_queue == MessageQueue("T", "broker-a", 3)
    assert result.queue_offset == 7
    assert result.trace_on


def test_no_code_is_both_stored_and_retried() -> None:
    assert not RETRIED_CODES & set(SEND_STATUS)
    assert ResponseCode.SYSTEM_BUSY in RETRIED_CODES
