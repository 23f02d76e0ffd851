"""NOTIFICATION, POLLING_INFO and PEEK_MESSAGE."""

import asyncio

import pytest

from broker.common.topic import pop_retry_topic
from broker.message.record import scan_records
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server import slices
from broker.server.pop.processor import notification


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


class TestManyQueues:
    """A topic, or a retry topic, with more queues than one slice reads."""

    @pytest.fixture
    def wide(self, desk, ask, monkeypatch):
        """``wide(code, **fields)``: on topic Wide of 95 queues; 10 of them are one slice."""
        monkeypatch.setattr(notification, "QUEUES_AT_ONCE", 10)
        desk.topic("Wide", queues=95)
        return lambda code, **fields: ask(code, topic="Wide", **fields)

    @pytest.fixture
    def between(self, monkeypatch):
        """``between(call)``: calls it between two slices; a list of the calls."""
        calls: list[int] = []
        sleep = asyncio.sleep

        def register(call=lambda: None):
            async def noting_sleep(seconds: float) -> None:
                calls.append(1)
                call()
                await sleep(seconds)

            monkeypatch.setattr(slices.asyncio, "sleep", noting_sleep)
            return calls

        return register

    def test_a_notification_reads_them_in_slices(self, desk, wide, between) -> None:
        calls = between()
        assert wide(RequestCode.NOTIFICATION).ext_fields["hasMsg"] == "false"
        assert len(calls) == 9

    def test_a_message_in_one_of_them_is_reported(self, desk, wide) -> None:
        desk.send("Wide", queue_id=94)
        answer = wide(RequestCode.NOTIFICATION, pollTime=5_000)
        assert answer.ext_fields["hasMsg"] == "true"
        assert len(desk.pop_service.notifications) == 0

    def test_a_notification_waits_if_none_has_a_message(self, desk, wide) -> None:
        assert wide(RequestCode.NOTIFICATION, pollTime=5_000) is None
        assert len(desk.pop_service.notifications) == 1
        assert desk.connection.sent == []

    def test_a_message_between_the_slices_wakes_the_notification(self, desk, wide, between) -> None:
        """Wherever it is stored; there is one response, and none waits afterwards."""
        woken = []
        desk.pop_service.notify = woken.extend
        pops = desk.pop_service
        calls = between(lambda: pops.arrived("Wide", 3, None, None))
        assert wide(RequestCode.NOTIFICATION, pollTime=5_000) is None
        assert len(woken) == len(calls) == 1  # the rest is left to the next execution
        assert len(pops.notifications) == 0

    def test_a_peek_reads_them_in_slices(self, desk, wide, between) -> None:
        calls = between()
        desk.send("Wide", b"last", queue_id=94)
        answer = wide(RequestCode.PEEK_MESSAGE)
        assert [record.body for record in scan_records(answer.body_bytes())] == [b"last"]
        assert len(calls) == 9

    def test_a_wide_retry_topic_is_read_in_slices(self, desk, ask, wide, between) -> None:
        calls = between()
        retry = pop_retry_topic("Orders", "G1", version_2=False)
        desk.topic(retry, queues=95)
        desk.topic("Orders")
        assert ask(RequestCode.NOTIFICATION).ext_fields["hasMsg"] == "false"
        assert len(calls) == 9
        desk.send(retry, queue_id=94)
        assert ask(RequestCode.NOTIFICATION).ext_fields["hasMsg"] == "true"
