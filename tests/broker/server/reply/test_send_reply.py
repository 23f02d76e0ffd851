"""SEND_REPLY_MESSAGE: the reply reaches the client that sent the request, and is stored."""

import pytest

from broker.errors import RemoteProtocolError, RequestTimeoutError, SendRequestError
from broker.message.properties import decode_properties, encode_properties
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand
from broker.server.client.clients import ClientChannel

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
V2 = RequestCode.SEND_REPLY_MESSAGE_V2
LONG_NAMES = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
}


@pytest.fixture
def requester(desk, fake_connection):
    """The client c1 with one producer group; it confirms each message."""
    return online(desk, fake_connection("127.0.0.1:50009"), "c1")


def online(desk, connection, client_id: str, group: str = "P1"):
    channel = ClientChannel(connection, client_id, "JAVA", 479, 0)
    desk.context.producers.register(group, channel)
    connection.answer = RemotingCommand(code=0)
    return connection


def reply(desk, code: int = V2, properties: dict | None = None, **fields) -> RemotingCommand:
    given = {"MSG_TYPE": "reply", "CORRELATION_ID": "x1", "REPLY_TO_CLIENT": "c1", "TTL": "3000"}
    given.update(properties or {})
    ext = {
        "a": "CLIENT_INNER_PRODUCER",
        "b": REPLY_TOPIC,
        "c": "TBW102",
        "d": 4,
        "e": 0,
        "f": 1,
        "g": 1_700_000_000_000,
        "h": 7,
        "i": encode_properties({k: v for k, v in given.items() if v}).decode(),
        "j": 0,
        "k": "false",
        **fields,
    }
    if code == RequestCode.SEND_REPLY_MESSAGE:
        ext = {LONG_NAMES[name]: value for name, value in ext.items()}
    return desk.ask(code, ext, b"pong")


@pytest.mark.parametrize("code", [RequestCode.SEND_REPLY_MESSAGE, V2])
def test_the_reply_is_pushed_to_the_client_it_names(desk, requester, code) -> None:
    answer = reply(desk, code)
    assert (answer.code, answer.remark) == (0, None)
    ((push, timeout_ms),) = requester.calls
    assert timeout_ms == 10_000
    assert push.code == RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
    assert push.body == b"pong"
    ext = push.ext_fields
    assert decode_properties(ext["properties"]) == {
        "MSG_TYPE": "reply",
        "CORRELATION_ID": "x1",
        "REPLY_TO_CLIENT": "c1",
        "TTL": "3000",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "PUSH_REPLY_TIME": str(desk.clock.now_ms()),
    }
    assert ext["bornHost"] == "127.0.0.1:50001"
    assert ext["storeHost"] == desk.context.address
    assert ext["storeTimestamp"] == str(desk.clock.now_ms())
    kept = {name: ext[name] for name in ("producerGroup", "topic", "sysFlag", "flag", "queueId")}
    assert kept == {
        "producerGroup": "CLIENT_INNER_PRODUCER",
        "topic": REPLY_TOPIC,
        "sysFlag": "1",
        "flag": "7",
        "queueId": "0",
    }


def test_the_reply_is_stored_with_region_and_trace_switch(desk, requester) -> None:
    answer = reply(desk)
    (stored,) = desk.messages(REPLY_TOPIC)
    assert answer.ext_fields == {
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
        "msgId": stored.offset_msg_id,
        "queueId": "0",
        "queueOffset": "0",
    }
    assert stored.body == b"pong"
    assert (stored.flag, stored.sys_flag) == (7, 1)
    assert stored.properties == {
        "MSG_TYPE": "reply",
        "CORRELATION_ID": "x1",
        "REPLY_TO_CLIENT": "c1",
        "TTL": "3000",
        "MSG_REGION": "DefaultRegion",
        "TRACE_ON": "true",
    }


def test_without_the_store_the_response_has_zeroes(make_desk, fake_connection) -> None:
    desk = make_desk(storeReplyMessageEnable="false")
    online(desk, fake_connection(), "c1")
    ext = reply(desk).ext_fields
    assert (ext["msgId"], ext["queueId"], ext["queueOffset"]) == ("0", "0", "0")
    assert desk.messages(REPLY_TOPIC) == []


@pytest.mark.parametrize(
    ("properties", "remark"),
    [
        ({"REPLY_TO_CLIENT": ""}, "reply message properties[REPLY_TO_CLIENT] is null"),
        (
            {"REPLY_TO_CLIENT": "c9"},
            "push reply message fail, channel of <c9> not found.",
        ),
    ],
)
def test_a_reply_without_a_receiver_is_an_error_and_is_stored(
    desk, requester, properties, remark
) -> None:
    answer = reply(desk, properties=properties)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    assert answer.ext_fields["queueOffset"] == "0"
    assert len(desk.messages(REPLY_TOPIC)) == 1
    assert requester.calls == []


@pytest.mark.parametrize(
    "outcome",
    [
        RemotingCommand(code=1, remark="no such request"),
        RequestTimeoutError("10 s"),
        SendRequestError("closed"),
    ],
)
def test_a_receiver_that_does_not_confirm_is_an_error(desk, requester, outcome) -> None:
    requester.answer = outcome
    answer = reply(desk)
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "push reply message to c1fail.",
    )
    assert len(desk.messages(REPLY_TOPIC)) == 1


def test_the_reply_goes_to_the_connection_that_registered_last(desk, fake_connection) -> None:
    old = online(desk, fake_connection("127.0.0.1:1"), "c1")
    new = online(desk, fake_connection("127.0.0.1:2"), "c1")
    reply(desk)
    assert (len(old.calls), len(new.calls)) == (0, 1)
    desk.context.producers.drop_connection(new)
    reply(desk)
    assert (len(old.calls), len(new.calls)) == (1, 1)
    desk.context.producers.drop_connection(old)
    assert reply(desk).code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"b": "no such topic"}, ResponseCode.INVALID_PARAMETER),
        ({"b": "Unknown", "c": "None"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"b": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION),
        ({"e": 1}, ResponseCode.INVALID_PARAMETER),
        ({"g": "now"}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_a_bad_reply_is_refused_before_it_is_pushed(desk, requester, fields, code) -> None:
    if "g" in fields:
        with pytest.raises(RemoteProtocolError, match="born_timestamp"):
            reply(desk, **fields)  # the endpoint answers SYSTEM_ERROR with this text
        return
    answer = reply(desk, **fields)
    assert answer.code == code
    assert answer.ext_fields["MSG_REGION"] == "DefaultRegion"
    assert requester.calls == []
    assert desk.messages(REPLY_TOPIC) == []


def test_a_full_store_does_not_change_the_outcome_of_the_push(desk, requester) -> None:
    desk.store.flags.make_disk_over_limit("full")
    answer = reply(desk)
    assert answer.code == 0
    assert answer.ext_fields["msgId"] == "0"
    assert len(requester.calls) == 1
