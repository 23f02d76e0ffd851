"""Requests by code and fields, answers as values, name servers in turn."""

import pytest

from broker.errors import (
    BrokerError,
    ClientError,
    ConnectError,
    RemoteProtocolError,
    RequestTimeoutError,
)
from broker.remoting.protocol.command import response
from broker.remoting.rpc.caller import NAMESRV_TIMEOUT_MS, Caller, build_request, named


def test_fields_travel_under_their_wire_names() -> None:
    command = build_request(14, {"consumer_group": "g", "topic": "t", "queue_id": 3})
    assert command.ext_fields == {"consumerGroup": "g", "topic": "t", "queueId": "3"}
    assert command.code == 14


def test_a_request_without_fields_has_none() -> None:
    assert build_request(106, {}).ext_fields == {}
    with pytest.raises(ClientError, match="takes no header fields"):
        build_request(106, {"topic": "t"})


def test_none_is_left_out() -> None:
    assert build_request(208, {"consumer_group": "g", "topic": None}).ext_fields == {
        "consumerGroup": "g"
    }


def test_an_answer_has_a_typed_header_and_body(scripted, caller) -> None:
    scripted.scripts[30] = lambda a, c: response(c, ext={"offset": "7"})
    reply = caller.call("b:1", 30, topic="t", queue_id=0)
    assert reply.header.offset == 7
    assert (reply.address, reply.code) == ("b:1", 0)
    scripted.scripts[206] = lambda a, c: response(c, body=b'{"topicList":["t"]}')
    assert caller.call("n:1", 206).value.topic_list == ["t"]


def test_an_unreadable_answer_names_its_sender(scripted, caller) -> None:
    scripted.scripts[30] = lambda a, c: response(c)
    with pytest.raises(RemoteProtocolError, match="answer of b:1 to request 30"):
        _ = caller.call("b:1", 30, topic="t", queue_id=0).header
    scripted.scripts[206] = lambda a, c: response(c, body=b"{")
    with pytest.raises(RemoteProtocolError, match="answer of n:1 to request 206"):
        _ = caller.call("n:1", 206).value


def test_a_field_missing_from_a_response_is_a_protocol_error(scripted, caller) -> None:
    scripted.scripts[206] = lambda a, c: response(c)
    with pytest.raises(ClientError, match="no response header"):
        _ = caller.call("n:1", 206).header
    scripted.scripts[30] = lambda a, c: response(c)
    with pytest.raises(ClientError, match="no typed response body"):
        _ = caller.call("b:1", 30, topic="t", queue_id=0).value


def test_other_codes_than_accepted_are_errors(scripted, caller) -> None:
    scripted.scripts[12] = lambda a, c: response(c, 22, "none")
    fields = {"topic": "t", "key": "k", "max_num": 1, "begin_timestamp": 0, "end_timestamp": 1}
    with pytest.raises(BrokerError) as caught:
        caller.call("b:1", 12, **fields)
    assert (caught.value.code, caught.value.remark, caught.value.address) == (22, "none", "b:1")
    assert caught.value.request_code == 12
    assert caller.call("b:1", 12, accept=(0, 22), **fields).code == 22


def test_many_at_once_each_for_itself(scripted, caller) -> None:
    scripted.scripts[30] = lambda a, c: (
        ConnectError("down", address=a) if a == "b:2" else response(c, ext={"offset": "1"})
    )
    command = build_request(30, {"topic": "t", "queue_id": 0})
    good, bad = caller.call_all([("b:1", command), ("b:2", command)])
    assert good.header.offset == 1
    assert isinstance(bad, ConnectError)
    assert caller.call_all([]) == []


def test_the_next_name_server_is_asked(scripted, caller) -> None:
    scripted.scripts[206] = lambda a, c: (
        ConnectError("down", address=a) if a == "ns:1" else response(c, body=b"{}")
    )
    assert caller.ask_namesrv(206).address == "ns:2"


def test_the_next_question_begins_with_the_name_server_that_answered(scripted, caller) -> None:
    scripted.scripts[206] = lambda a, c: (
        ConnectError("down", address=a) if a == "ns:1" else response(c, body=b"{}")
    )
    caller.ask_namesrv(206)
    caller.ask_namesrv(206)
    assert scripted.asked(206) == ["ns:1", "ns:2", "ns:2"]


def test_a_silent_name_server_leaves_time_for_the_others(caller) -> None:
    assert caller.namesrv_limit_ms() == NAMESRV_TIMEOUT_MS
    caller.timeout_ms = 1_000
    assert caller.namesrv_limit_ms() == 500
    caller.timeout_ms = 60_000
    assert caller.namesrv_limit_ms() == NAMESRV_TIMEOUT_MS
    assert Caller(["ns:1"], caller.client).namesrv_limit_ms() is None


def test_every_name_server_can_be_asked(scripted, caller) -> None:
    scripted.scripts[206] = lambda a, c: response(c, body=b"{}")
    assert [reply.address for reply in caller.ask_every_namesrv(206)] == ["ns:1", "ns:2"]


def test_a_refusal_other_than_no_route_is_final(scripted, caller) -> None:
    scripted.scripts[206] = lambda a, c: response(c, 1, "disabled")
    with pytest.raises(BrokerError):
        caller.ask_namesrv(206)
    assert scripted.asked(206) == ["ns:1"]


def test_a_caller_needs_a_name_server_and_closes(scripted, caller) -> None:
    with pytest.raises(ClientError, match="no name server"):
        Caller([], scripted)
    caller.close()
    assert scripted.closed


def test_errors_on_the_way_name_peer_and_request(scripted, caller) -> None:
    shared = ConnectError("down")
    scripted.scripts |= {30: lambda a, c: shared, 31: lambda a, c: shared}
    fields = {"topic": "t", "queue_id": 0}
    first, second = caller.call_all(
        [("b:1", build_request(30, fields)), ("b:2", build_request(31, fields))]
    )
    assert (first.address, first.request_code) == ("b:1", 30)
    assert (second.address, second.request_code) == ("b:2", 31)
    with pytest.raises(ConnectError) as caught:
        caller.call("b:1", 30, **fields)
    assert caught.value.request_code == 30
    whole = RequestTimeoutError("slow", address="b:3", request_code=11)
    assert named(whole, "b:1", 30) is whole
    other = ClientError("x")
    assert named(other, "b:1", 30) is other
