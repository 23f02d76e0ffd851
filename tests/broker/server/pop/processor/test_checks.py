"""The shared checks: how far an offset may be past the last message."""

import pytest

from broker.remoting.protocol.codes import ResponseCode
from broker.remoting.protocol.command import request
from broker.remoting.protocol.header.consumer.pop import AckMessageRequestHeader
from broker.server.pop.processor.checks import check_receipt


@pytest.mark.parametrize(
    ("offset", "beyond", "code"),
    [(0, 0, None), (1, 0, None), (2, 0, ResponseCode.NO_MESSAGE), (2, 1, None),
     (3, 1, ResponseCode.NO_MESSAGE), (-1, 1, ResponseCode.NO_MESSAGE)],
)  # fmt: skip
def test_an_offset_must_be_in_its_queue(desk, offset, beyond, code) -> None:
    desk.topic("Orders", 1)
    desk.send()
    desk.send()
    header = AckMessageRequestHeader(
        consumer_group="G1", topic="Orders", queue_id=0, extra_info="", offset=offset
    )
    refusal = check_receipt(desk.context, request(0), header, beyond=beyond)
    assert (refusal.code if refusal else None) == code


def test_a_queue_without_messages_has_no_offset(desk) -> None:
    desk.topic("Orders", 1)
    header = AckMessageRequestHeader(
        consumer_group="G1", topic="Orders", queue_id=0, extra_info="", offset=0
    )
    assert check_receipt(desk.context, request(0), header, beyond=0) is not None
