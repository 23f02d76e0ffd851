"""Pulls from static topics: one segment per pull, logical offsets, other brokers' segments."""

import pytest

from broker.message.record import scan_records
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand
from tests.broker.server.static_topic.conftest import TOPIC, mapping, segment


def fields(answer: RemotingCommand) -> dict[str, int]:
    names = ("nextBeginOffset", "minOffset", "maxOffset", "offsetDelta")
    return {name: int(answer.ext_fields[name]) for name in names}


def test_a_pull_reads_the_led_queue(desk, make_static) -> None:
    make_static(mapping(segment(0, "broker-a")))
    desk.send(TOPIC, b"one")
    answer = desk.pull(TOPIC)
    assert [record.body for record in scan_records(answer.body_bytes())] == [b"one"]
    assert fields(answer) == {
        "nextBeginOffset": 1, "minOffset": 0, "maxOffset": 1, "offsetDelta": 0,
    }  # fmt: skip


def test_logical_offsets_are_those_of_the_segment(desk, make_static) -> None:
    make_static(
        mapping(segment(0, "broker-b", end_offset=3), segment(1, "broker-a", logic_offset=10_000))
    )
    desk.send(TOPIC, b"one")
    answer = desk.pull(TOPIC, queue_offset=10_000)
    assert fields(answer) == {
        "nextBeginOffset": 10_001, "minOffset": 10_000, "maxOffset": 10_001, "offsetDelta": 10_000,
    }  # fmt: skip


@pytest.mark.parametrize("messages", [0, 1])
def test_a_pull_of_a_removed_segment_continues_at_the_oldest_one(
    desk, make_static, messages: int
) -> None:
    make_static(mapping(segment(1, "broker-a", logic_offset=10_000)))
    for _ in range(messages):
        desk.send(TOPIC)
    answer = desk.pull(TOPIC, queue_offset=2)
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert fields(answer)["nextBeginOffset"] == fields(answer)["minOffset"] == 10_000


def test_a_suspended_pull_is_answered_with_logical_offsets(desk, make_static) -> None:
    make_static(
        mapping(segment(0, "broker-b", end_offset=3), segment(1, "broker-a", logic_offset=10_000))
    )
    assert desk.pull(TOPIC, queue_offset=10_000, sysFlag=6) is None
    desk.send(TOPIC, b"one")
    (answer,) = desk.connection.commands
    assert answer.code == 0
    assert fields(answer)["nextBeginOffset"] == 10_001


def test_a_segment_of_another_broker_is_pulled_from_it(desk, make_static, others) -> None:
    make_static(
        mapping(
            segment(0, "broker-b", start=5, end_offset=8),
            segment(1, "broker-a", logic_offset=10_000),
        )
    )
    others.answers.append(
        RemotingCommand(
            code=0,
            ext_fields={
                "suggestWhichBrokerId": "0",
                "nextBeginOffset": "7",
                "minOffset": "0",
                "maxOffset": "8",
            },
            body=b"records",
        )
    )
    answer = desk.pull(TOPIC, queue_offset=1, maxMsgNums=32)
    ((name, command),) = others.asked
    assert name == "broker-b"
    assert command.code == RequestCode.PULL_MESSAGE
    sent = command.ext_fields
    assert (sent["queueId"], sent["queueOffset"], sent["maxMsgNums"]) == ("1", "6", "2")
    assert (sent["lo"], sent["bname"]) == ("false", "broker-b")
    assert answer.body_bytes() == b"records"
    assert fields(answer) == {
        "nextBeginOffset": 2, "minOffset": 0, "maxOffset": 10_000, "offsetDelta": -5,
    }  # fmt: skip


def test_the_end_of_a_segment_leads_to_the_next_one(desk, make_static, others) -> None:
    make_static(
        mapping(segment(0, "broker-b", end_offset=3), segment(1, "broker-a", logic_offset=10_000))
    )
    others.answers.append(
        RemotingCommand(
            code=ResponseCode.PULL_NOT_FOUND,
            ext_fields={
                "suggestWhichBrokerId": "0",
                "nextBeginOffset": "3",
                "minOffset": "0",
                "maxOffset": "3",
            },
        )
    )
    answer = desk.pull(TOPIC, queue_offset=3)
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert fields(answer)["nextBeginOffset"] == 10_000


def test_a_refusal_of_the_other_broker_is_passed(desk, make_static, others) -> None:
    make_static(
        mapping(segment(0, "broker-b", end_offset=3), segment(1, "broker-a", logic_offset=10_000))
    )
    others.answers.append(RemotingCommand(code=ResponseCode.NO_PERMISSION, remark="no"))
    answer = desk.pull(TOPIC, queue_offset=0)
    assert (answer.code, answer.remark) == (ResponseCode.NO_PERMISSION, "no")


def test_a_queue_led_by_another_broker_is_refused(desk, make_static) -> None:
    make_static(mapping(segment(0, "broker-a", end_offset=3), segment(1, "broker-b")))
    assert desk.pull(TOPIC).code == ResponseCode.NOT_LEADER_FOR_QUEUE


def test_a_broker_pulls_from_a_queue_of_this_one(desk, make_static) -> None:
    make_static(mapping(segment(0, "broker-a", end_offset=3), segment(1, "broker-b")))
    assert desk.pull(TOPIC, queue_id=1, lo="false").code == ResponseCode.PULL_NOT_FOUND
