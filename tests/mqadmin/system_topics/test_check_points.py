"""Check points merged with acknowledgements."""

import pytest

from broker.errors import RemoteProtocolError
from broker.message.check_point import (
    AckMsg,
    PopCheckPoint,
    encode_ack,
    encode_check_point,
)
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from mqadmin.system_topics.check_points import CheckPoints

CK = PopCheckPoint(
    topic="T",
    group="g",
    queue_id=0,
    start_offset=10,
    pop_time=1000,
    invisible_time=500,
    broker_name="b",
    count=3,
    diffs=[0, 1, 2],
)


def record(tag: str, body: bytes) -> MessageExt:
    return MessageExt("rmq_sys_REVIVE_LOG_C", body, encode_properties({"TAGS": tag}))


def ack(*offsets: int, broker: str | None = "b") -> MessageExt:
    batched = len(offsets) > 1
    one = AckMsg(
        topic="T",
        group="g",
        queue_id=0,
        start_offset=10,
        pop_time=1000,
        broker_name=broker,
        offsets=list(offsets),
        batched=batched,
    )
    return record(one.tag, encode_ack(one))


def merged(*records: MessageExt) -> list[list[int]]:
    points = CheckPoints("b")
    for one in records:
        points.add(one, "timer")
    return [row.unacknowledged for row in points.rows(0)]


def test_acknowledged_messages_are_taken_out_in_any_order() -> None:
    ck = record("ck", encode_check_point(CK))
    assert merged(ck) == [[10, 11, 12]]
    assert merged(ck, ack(11)) == merged(ack(11), ck) == [[10, 12]]
    assert merged(ck, ack(10, 12)) == [[11]]
    assert merged(ck, ack(10, 12, broker=None)) == [[11]]
    assert merged(ck, ack(99)) == [[10, 11, 12]]


def test_a_check_point_found_in_both_topics_counts_once() -> None:
    points = CheckPoints("b")
    for stage in ("timer", "revive"):
        points.add(record("ck", encode_check_point(CK)), stage)
    assert points.in_flight("g") == {("T", 0): 3}
    assert not points.in_flight("other")


@pytest.mark.parametrize(
    ("tag", "body"), [("ck", b"{"), ("ack", b"[]"), ("", b"{}"), ("ck", b"{}")]
)
def test_a_record_that_cannot_be_decoded_is_an_error(tag: str, body: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        CheckPoints("b").add(record(tag, body), "timer")
