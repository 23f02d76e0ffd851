"""Requests passed on to a consumer."""

import pytest

from broker.common.subscription import build_subscription
from broker.errors import RemoteProtocolError, RequestTimeoutError, SendRequestError
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.remoting.protocol.command import RemotingCommand
from broker.server.client.clients import ClientChannel, ConsumerProfile


@pytest.fixture
def online(desk, fake_connection):
    """G1 with the member c1; ``online.member`` is its connection."""
    member = fake_connection("127.0.0.1:50009")
    channel = ClientChannel(member, "c1", "JAVA", 479, 0)
    desk.context.consumers.register(
        "G1", channel, ConsumerProfile(), [build_subscription("Orders", "*")]
    )
    desk.member = member
    return desk


def running_info(desk, client="c1"):
    ext = {"consumerGroup": "G1", "clientId": client, "jstackEnable": "true"}
    return desk.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, ext)


def test_clients_answer_comes_back_as_it_is(online) -> None:
    online.member.answer = RemotingCommand(
        code=0, remark="fine", ext_fields={"a": "b"}, body=b'{"properties":{}}'
    )
    answer = running_info(online)
    assert (answer.code, answer.remark, answer.ext_fields) == (0, "fine", {"a": "b"})
    assert answer.body_bytes() == b'{"properties":{}}'
    (call,) = online.member.calls
    assert call[0].code == RequestCode.GET_CONSUMER_RUNNING_INFO
    assert call[0].ext_fields["jstackEnable"] == "true"
    assert call[1] == 10_000


def test_error_of_the_client_comes_back(online) -> None:
    online.member.answer = RemotingCommand(code=1, remark="no such group")
    assert running_info(online).code == 1


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RequestTimeoutError("10 s"), ResponseCode.CONSUME_MSG_TIMEOUT),
        (SendRequestError("closed"), ResponseCode.SYSTEM_ERROR),
    ],
)
def test_client_that_does_not_answer(online, error, code) -> None:
    online.member.answer = error
    answer = running_info(online)
    assert answer.code == code
    assert "c1" in answer.remark


def test_client_that_is_not_online(online) -> None:
    answer = running_info(online, client="c2")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "not online" in answer.remark


def test_client_too_old(online) -> None:
    online.context.consumers.get("G1").channel_of("c1").version = 30
    answer = running_info(online)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "too low" in answer.remark


def consume(desk, msg_id: str):
    ext = {"consumerGroup": "G1", "clientId": "c1", "msgId": msg_id, "topic": "Orders"}
    return desk.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, ext)


def test_record_is_read_here_and_consumed_there(online, records) -> None:
    online.topic("Orders")
    online.send(body=b"again")
    (message,) = online.messages("Orders")
    online.member.answer = RemotingCommand(code=0, body=b'{"consumeResult":"CR_SUCCESS"}')
    answer = consume(online, message.offset_msg_id)
    assert answer.body_bytes() == b'{"consumeResult":"CR_SUCCESS"}'
    ((call, _),) = online.member.calls
    assert records(call) == [message]
    assert call.ext_fields["brokerName"] == "broker-a"
    assert call.ext_fields["topicSysFlag"] == "0"


def test_message_that_is_gone(online) -> None:
    answer = consume(online, "7F00000100002A9F0000000000FFFFFF")
    assert answer.code == ResponseCode.SYSTEM_ERROR


def test_an_id_that_is_not_an_offset_id_is_refused(online) -> None:
    with pytest.raises(RemoteProtocolError):
        consume(online, "nonsense")
