"""Offsets of static topics: bounds, times, committed offsets."""

import pytest
from msgspec.structs import replace

from broker.remoting.protocol.body.consumer.consume import ConsumeStats
from broker.remoting.protocol.body.consumer.offset import ResetOffsetBody
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand
from tests.broker.server.static_topic.conftest import TOPIC, mapping, segment

# Queue 1 of this broker, which is the leading segment of logical queue 0.
RESET = {"group": "G1", "queueId": 1, "offset": 2, "timestamp": -1, "isForce": "true"}


@pytest.fixture
def moved(desk, make_static, others):
    """Segment 0 is offsets 5 to 8 on broker-b, segment 1 starts here at 10 000; one message."""
    make_static(
        mapping(
            segment(0, "broker-b", start=5, end_offset=8),
            segment(1, "broker-a", logic_offset=10_000),
        )
    )
    desk.send(TOPIC)
    desk.context.groups.find("G1")
    return others


def ask(desk, code: int, **fields: object) -> RemotingCommand:
    return desk.ask(code, {"topic": TOPIC, "queueId": 0, "consumerGroup": "G1", **fields})


def offset(answer: RemotingCommand) -> int:
    assert answer.code == 0, answer.remark
    return int(answer.ext_fields["offset"])


def remote(**fields: object) -> RemotingCommand:
    return RemotingCommand(code=0, ext_fields={name: str(value) for name, value in fields.items()})


def test_the_maximum_is_that_of_the_leader(desk, moved) -> None:
    assert offset(ask(desk, RequestCode.GET_MAX_OFFSET)) == 10_001
    assert moved.asked == []


def test_before_the_leader_is_decided_the_maximum_is_that_of_the_segment_before(
    desk, make_static, others
) -> None:
    """While a queue is moved: the new leader has no logical offset yet, the segment no end."""
    old = replace(segment(0, "broker-b", start=5, logic_offset=100), queue_id=3)
    make_static(mapping(old, segment(1, "broker-a", logic_offset=-1)))
    others.answers += [remote(offset=9), remote(offset=2)]
    assert offset(ask(desk, RequestCode.GET_MAX_OFFSET)) == 104
    ((name, command),) = others.asked
    assert (name, command.ext_fields["queueId"], command.ext_fields["lo"]) == (
        "broker-b", "3", "false",
    )  # fmt: skip
    desk.send(TOPIC)  # it gets no logical offset before the leader has one
    assert offset(ask(desk, RequestCode.GET_MAX_OFFSET)) == 100  # 2 is below the segment's start


def test_the_maximum_of_a_queue_without_decided_segments_is_0(desk, make_static, others) -> None:
    make_static(mapping(segment(0, "broker-a", logic_offset=-1)))
    assert offset(ask(desk, RequestCode.GET_MAX_OFFSET)) == 0
    assert others.asked == []


def test_the_minimum_is_that_of_the_oldest_segment(desk, moved) -> None:
    moved.answers.append(remote(offset=6))
    assert offset(ask(desk, RequestCode.GET_MIN_OFFSET)) == 1
    ((name, command),) = moved.asked
    assert (name, command.ext_fields["queueId"], command.ext_fields["lo"]) == (
        "broker-b", "1", "false",
    )  # fmt: skip


@pytest.mark.parametrize(("found", "logical"), [(7, 2), (8, 10_000)])
def test_a_time_is_searched_in_the_segments(desk, moved, found: int, logical: int) -> None:
    moved.answers.append(remote(offset=found))
    answer = ask(desk, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, timestamp=0)
    assert offset(answer) == logical


def test_the_earliest_time_is_that_of_the_oldest_segment(desk, moved) -> None:
    moved.answers.append(remote(timestamp=1234))
    answer = ask(desk, RequestCode.GET_EARLIEST_MSG_STORETIME)
    assert answer.ext_fields["timestamp"] == "1234"


def test_a_commit_is_kept_by_the_broker_of_its_segment(desk, moved) -> None:
    moved.answers.append(RemotingCommand(code=0))
    assert ask(desk, RequestCode.UPDATE_CONSUMER_OFFSET, commitOffset=2).code == 0
    assert moved.asked[0][1].ext_fields["commitOffset"] == "7"
    assert ask(desk, RequestCode.UPDATE_CONSUMER_OFFSET, commitOffset=10_001).code == 0
    assert desk.context.offsets.query("G1", TOPIC, 1) == 1


def test_the_newest_committed_offset_counts(desk, moved) -> None:
    not_found = RemotingCommand(code=ResponseCode.QUERY_NOT_FOUND, remark="Not found")
    moved.answers.append(not_found)
    answer = ask(desk, RequestCode.QUERY_CONSUMER_OFFSET)
    assert answer.code == ResponseCode.QUERY_NOT_FOUND
    moved.answers.append(remote(offset=7))
    assert offset(ask(desk, RequestCode.QUERY_CONSUMER_OFFSET)) == 2
    desk.context.offsets.commit("G1", TOPIC, 1, 1)
    assert offset(ask(desk, RequestCode.QUERY_CONSUMER_OFFSET)) == 10_001


def test_a_queue_that_never_moved_is_answered_like_any_other(desk, make_static) -> None:
    make_static(mapping(segment(0, "broker-a")))
    desk.send(TOPIC)
    desk.context.groups.find("G1")
    assert offset(ask(desk, RequestCode.QUERY_CONSUMER_OFFSET)) == 0


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.GET_MAX_OFFSET,
        RequestCode.GET_MIN_OFFSET,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        RequestCode.QUERY_CONSUMER_OFFSET,
        RequestCode.UPDATE_CONSUMER_OFFSET,
    ],
)
def test_a_queue_that_is_not_led_here_is_refused(desk, moved, code: int) -> None:
    answer = ask(desk, code, queueId=1, timestamp=0, commitOffset=0)
    assert answer.code == ResponseCode.NOT_LEADER_FOR_QUEUE
    assert ask(desk, code, queueId=1, timestamp=0, commitOffset=0, lo="false").code in (
        ResponseCode.SUCCESS,
        ResponseCode.QUERY_NOT_FOUND,
    )


@pytest.mark.parametrize("text", ["x", "1_0", "9" * 5_000, "--1"])
def test_numbers_that_are_none_are_refused(desk, moved, text: str) -> None:
    answer = ask(desk, RequestCode.GET_MAX_OFFSET, queueId=text)
    assert answer.code == ResponseCode.NOT_LEADER_FOR_QUEUE
    answer = ask(desk, RequestCode.UPDATE_CONSUMER_OFFSET, commitOffset=text)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "commitOffset" in answer.remark
    assert moved.asked == []


@pytest.mark.parametrize("fields", [{}, {"offset": "x"}])
def test_an_answer_without_an_offset_is_an_error(desk, moved, fields: dict[str, str]) -> None:
    moved.answers.append(remote(**fields))
    answer = ask(desk, RequestCode.GET_MIN_OFFSET)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "no valid offset" in answer.remark


def consume_stats(desk, code: int, **fields: object) -> dict[int, tuple[int, int]]:
    """Queue id → (broker offset, consumer offset) of group G1 in the topic."""
    answer = desk.ask(code, {"consumerGroup": "G1", "topic": TOPIC, **fields})
    assert answer.code == 0, answer.remark
    table = ConsumeStats.from_bytes(answer.body_bytes()).offset_table
    return {queue.queue_id: (at.broker_offset, at.consumer_offset) for queue, at in table.items()}


def test_consume_stats_are_those_of_the_queues_of_this_broker(desk, moved) -> None:
    """-1 where the group has no offset: the offset may be in a segment of another broker."""
    code = RequestCode.GET_CONSUME_STATS
    assert consume_stats(desk, code) == {0: (0, -1), 1: (1, -1)}
    assert ask(desk, RequestCode.UPDATE_CONSUMER_OFFSET, commitOffset=10_001).code == 0
    assert consume_stats(desk, code) == {0: (0, -1), 1: (1, 1)}


def test_an_offset_reset_names_the_queues_of_this_broker(desk, moved) -> None:
    for _ in range(2):
        desk.send(TOPIC)
    answer = ask(desk, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, **RESET)
    assert answer.code == 0, answer.remark
    table = ResetOffsetBody.from_bytes(answer.body_bytes()).offset_table
    assert {queue.queue_id: offset for queue, offset in table.items()} == {1: 2}
    moved.answers.append(remote())
    assert offset(ask(desk, RequestCode.QUERY_CONSUMER_OFFSET)) == 10_002
    assert moved.asked == []
