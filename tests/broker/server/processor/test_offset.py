"""Offsets of queues and of consumers."""

import msgspec
import pytest

from broker.errors import RemoteProtocolError
from broker.remoting.protocol.body.consumer.heartbeat import ConsumerData, HeartbeatData
from broker.remoting.protocol.body.consumer.offset import ConsumerOffsetSerializeWrapper
from broker.remoting.protocol.codes import RequestCode, ResponseCode

QUEUE = {"topic": "Orders", "queueId": 0}


def offset(desk, code: int, **fields) -> int:
    answer = desk.ask(code, {**QUEUE, **fields})
    assert answer.code == 0
    return int(answer.ext_fields["offset"])


@pytest.fixture
def stored(desk):
    desk.topic("Orders")
    desk.context.groups.find("G1")
    for _ in range(4):
        desk.send()
        desk.clock.advance(1000)
    return desk


def test_bounds(stored) -> None:
    assert offset(stored, RequestCode.GET_MAX_OFFSET) == 4
    assert offset(stored, RequestCode.GET_MIN_OFFSET) == 0


def test_unknown_queue_is_empty(stored) -> None:
    assert offset(stored, RequestCode.GET_MAX_OFFSET, queueId=3) == 0
    assert offset(stored, RequestCode.GET_MIN_OFFSET, topic="None") == 0
    answer = stored.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, {"topic": "None", "queueId": 0})
    assert answer.ext_fields == {"timestamp": "-1"}


@pytest.mark.parametrize("queue_id", [0, 3, 7])
def test_an_inner_batch_queue_without_messages_has_no_minimum(desk, queue_id: int) -> None:
    desk.topic("Bulk", attributes={"queue.type": "BatchCQ"})
    queue = {"topic": "Bulk", "queueId": queue_id}
    assert offset(desk, RequestCode.GET_MIN_OFFSET, **queue) == -1
    assert offset(desk, RequestCode.GET_MAX_OFFSET, **queue) == 0
    if queue_id == 0:
        desk.send("Bulk")
        assert offset(desk, RequestCode.GET_MIN_OFFSET, **queue) == 0


def test_earliest_store_time(stored) -> None:
    first = stored.messages("Orders")[0].store_timestamp
    answer = stored.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, QUEUE)
    assert answer.ext_fields == {"timestamp": str(first)}


@pytest.mark.parametrize(
    ("after_ms", "boundary", "expected"),
    [
        (-10_000, "LOWER", 0),
        (0, "LOWER", 0),
        (500, "LOWER", 1),
        (1000, "LOWER", 1),
        (99_000, "LOWER", 4),
        (-10_000, "UPPER", 0),
        (1500, "UPPER", 1),
        (99_000, "UPPER", 3),
        (99_000, "upper", 3),
    ],
)
def test_offset_by_time(stored, after_ms, boundary, expected) -> None:
    first = stored.messages("Orders")[0].store_timestamp
    found = offset(
        stored,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
        timestamp=first + after_ms,
        boundaryType=boundary,
    )
    assert found == expected


def commit(desk, value: int, group: str = "G1", **fields):
    ext = {**QUEUE, "consumerGroup": group, "commitOffset": value, **fields}
    return desk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)


def committed(desk, group: str = "G1", **fields):
    return desk.ask(RequestCode.QUERY_CONSUMER_OFFSET, {**QUEUE, "consumerGroup": group, **fields})


def test_last_commit_wins_even_a_lower_one(stored) -> None:
    assert commit(stored, 3).code == 0
    assert commit(stored, 2).code == 0
    assert committed(stored).ext_fields == {"offset": "2"}


def test_new_group_on_a_whole_queue_starts_at_zero(stored) -> None:
    answer = committed(stored)
    assert (answer.code, answer.ext_fields) == (0, {"offset": "0"})


def test_new_group_on_a_new_queue_starts_at_zero(stored) -> None:
    """Else it would start after a message that arrives before it asks for the maximum offset."""
    answer = committed(stored, queueId=3)
    assert (answer.code, answer.ext_fields) == (0, {"offset": "0"})


@pytest.mark.parametrize("queue", [{"queueId": 4}, {"queueId": -1}, {"topic": "None"}])
def test_a_queue_that_does_not_exist_has_no_offset(stored, queue) -> None:
    assert committed(stored, **queue).code == ResponseCode.QUERY_NOT_FOUND


def test_new_group_that_does_not_want_zero(stored) -> None:
    answer = committed(stored, setZeroIfNotFound="false")
    assert answer.code == ResponseCode.QUERY_NOT_FOUND


def test_new_group_on_an_old_queue_has_no_offset(make_desk) -> None:
    """The first message is farther from the end than memory reaches."""
    desk = make_desk(accessMessageInMemoryMaxRatio="0")
    desk.topic("Orders")
    desk.send()
    desk.send()
    assert committed(desk).code == ResponseCode.QUERY_NOT_FOUND


def test_commit_needs_topic_and_group(desk) -> None:
    """Even where heartbeats make groups, a commit makes none."""
    assert commit(desk, 1).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert "G1" not in desk.context.groups
    answer = commit(desk, 1, "TOOLS_CONSUMER")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize("missing", ["queueId", "commitOffset"])
def test_missing_field_is_named(stored, missing) -> None:
    ext = {**QUEUE, "consumerGroup": "G1", "commitOffset": 1}
    del ext[missing]
    answer = stored.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert missing in answer.remark


def test_missing_group_is_named(stored) -> None:
    with pytest.raises(RemoteProtocolError, match="consumerGroup"):
        stored.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**QUEUE, "commitOffset": 1})


@pytest.mark.parametrize(
    "fields",
    [
        {"queueId": -1},
        {"queueId": 8},
        {"queueId": 200_000},
        {"commitOffset": -2},
        {"commitOffset": -(2**63)},
    ],
)
def test_a_queue_the_topic_does_not_have_and_a_negative_offset_are_refused(stored, fields) -> None:
    answer = commit(stored, **{"value": 1, **fields})
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert stored.context.offsets.table == {}


def test_minus_one_removes_the_offset_of_a_group_without_members(stored) -> None:
    """An administrator undoes the first reset of a group this way."""
    assert commit(stored, -1).code == 0
    assert stored.context.offsets.table == {}
    commit(stored, 3)
    assert commit(stored, -1).code == 0
    assert stored.context.offsets.table == {}


def test_minus_one_of_a_connected_group_removes_nothing(stored) -> None:
    """The Node.js client commits it for queues it has not consumed from."""
    member = HeartbeatData(
        client_id="client",
        consumer_data_set=[ConsumerData(group_name="G1", consume_type="CONSUME_PASSIVELY")],
    )
    assert stored.ask(RequestCode.HEART_BEAT, body=member.to_bytes()).code == 0
    commit(stored, 3)
    assert commit(stored, -1).code == 0
    assert committed(stored).ext_fields == {"offset": "3"}


def test_a_queue_left_over_from_a_larger_topic_can_be_committed(stored) -> None:
    stored.send(queue_id=3)
    topics = stored.context.topics
    smaller = {"read_queue_nums": 1, "write_queue_nums": 1}
    topics.configs["Orders"] = msgspec.structs.replace(topics.configs["Orders"], **smaller)
    assert commit(stored, 1, queueId=3).code == 0
    assert commit(stored, 1, queueId=2).code == ResponseCode.INVALID_PARAMETER


def test_commit_is_ignored_while_a_reset_waits(stored) -> None:
    stored.context.offsets.reset("G1", "Orders", 0, 1)
    answer = commit(stored, 4)
    assert answer.code == 0
    assert "ignore" in answer.remark
    assert committed(stored).ext_fields == {"offset": "1"}


def test_whole_table_has_a_version_for_slaves(stored) -> None:
    commit(stored, 3)
    answer = stored.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
    body = ConsumerOffsetSerializeWrapper.from_bytes(answer.body_bytes())
    assert body.offset_table == {"Orders@G1": {0: 3}}
    assert body.data_version is not None
