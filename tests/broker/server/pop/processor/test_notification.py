"""NOTIFICATION, POLLING_INFO and PEEK_MESSAGE."""

import pytest

from broker.message.record import scan_records
from broker.remoting.protocol.codes import RequestCode, ResponseCode


@pytest.fixture
def ask(desk, client):
    """``ask(code, **fields)`` with the fields of group G1 on topic Orders."""

    def send(code, **fields):
        ext = {
            "consumerGroup": "G1",
            "topic": "Orders",
            "queueId": -1,
            "pollTime": 0,
            "bornTime": 0,
            "maxMsgNums": 32,
            **fields,
        }
        return desk.ask(code, ext)

    return send


def test_a_notification_reports_messages_at_once(desk, ask) -> None:
    desk.send()
    answer = ask(RequestCode.NOTIFICATION)
    assert (answer.code, answer.ext_fields["hasMsg"]) == (0, "true")


def test_a_notification_without_time_reports_none(ask) -> None:
    answer = ask(RequestCode.NOTIFICATION)
    assert (answer.code, answer.ext_fields["hasMsg"]) == (0, "false")


def test_a_waiting_notification_is_answered_when_a_message_arrives(desk, ask) -> None:
    assert ask(RequestCode.NOTIFICATION, pollTime=5_000) is None
    desk.send()
    (answer,) = desk.connection.commands
    assert answer.ext_fields["hasMsg"] == "true"


def test_a_waiting_notification_is_answered_at_its_deadline(desk, ask) -> None:
    assert ask(RequestCode.NOTIFICATION, pollTime=5_000) is None
    desk.advance(5_100)
    (answer,) = desk.connection.commands
    assert answer.ext_fields["hasMsg"] == "false"


def test_too_many_waiting_notifications_are_reported(make_desk, pop_client) -> None:
    desk = make_desk(maxPopPollingSize="1")
    desk.topic("Orders")
    ext = {
        "consumerGroup": "G1", "topic": "Orders", "queueId": -1, "pollTime": 5_000, "bornTime": 0,
    }  # fmt: skip
    assert desk.ask(RequestCode.NOTIFICATION, ext) is None
    answer = desk.ask(RequestCode.NOTIFICATION, ext)
    assert answer.ext_fields == {"hasMsg": "false", "pollingFull": "true"}


def test_a_blocked_queue_is_not_reported_to_an_ordered_group(desk, client, ask) -> None:
    desk.send()
    desk.send()
    client.pop(order="true", maxMsgNums=1)
    assert ask(RequestCode.NOTIFICATION, order="true").ext_fields["hasMsg"] == "false"
    assert ask(RequestCode.NOTIFICATION).ext_fields["hasMsg"] == "true"


def test_retried_messages_are_reported(desk, client, ask) -> None:
    desk.send()
    client.pop(invisibleTime=1_000)
    assert ask(RequestCode.NOTIFICATION).ext_fields["hasMsg"] == "false"
    desk.advance(4_000)
    assert ask(RequestCode.NOTIFICATION).ext_fields["hasMsg"] == "true"


def test_polling_info_counts_the_waiting_pops_of_one_queue(client, ask) -> None:
    for queue_id in (-1, -1, 2):
        assert client.pop_raw(pollTime=5_000, queueId=queue_id) is None
    for queue_id, number in ((-1, "2"), (2, "1"), (0, "0")):
        answer = ask(RequestCode.POLLING_INFO, queueId=queue_id)
        assert answer.ext_fields["pollingNum"] == number


def test_a_peek_delivers_without_taking(desk, client, ask) -> None:
    for number in range(3):
        desk.send(queue_id=number, body=b"%d" % number)
    for _ in range(2):
        answer = ask(RequestCode.PEEK_MESSAGE)
        assert (answer.code, answer.remark) == (0, "FOUND")
        assert answer.ext_fields["restNum"] == "3"
        found = sorted(message.body for message in scan_records(answer.body_bytes()))
        assert found == [b"0", b"1", b"2"]
    assert len(client.pop()) == 3
    assert ask(RequestCode.PEEK_MESSAGE).code == ResponseCode.PULL_NOT_FOUND


def test_a_peek_takes_at_most_the_wanted_number(desk, ask) -> None:
    for _ in range(5):
        desk.send()
    answer = ask(RequestCode.PEEK_MESSAGE, maxMsgNums=2)
    assert len(list(scan_records(answer.body_bytes()))) == 2


@pytest.mark.parametrize(
    "code", [RequestCode.NOTIFICATION, RequestCode.POLLING_INFO, RequestCode.PEEK_MESSAGE]
)
def test_checks_are_those_of_a_pop(ask, code) -> None:
    assert ask(code, topic="Unknown").code == ResponseCode.TOPIC_NOT_EXIST
    assert ask(code, queueId=4).code == ResponseCode.INVALID_PARAMETER
    assert ask(code, consumerGroup="not a name").code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
