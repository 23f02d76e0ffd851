"""QUERY_ASSIGNMENT, SET_MESSAGE_REQUEST_MODE, GET_ALL_MESSAGE_REQUEST_MODE."""

import pytest

from broker.common.subscription import build_subscription
from broker.remoting.protocol.body.consumer.lock import (
    MessageRequestModeSerializeWrapper,
    QueryAssignmentRequestBody,
    QueryAssignmentResponseBody,
    SetMessageRequestModeRequestBody,
)
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.server.client.clients import ClientChannel, ConsumerProfile


def online(desk, *client_ids) -> None:
    for number, client_id in enumerate(client_ids):
        connection = type(desk.connection)(f"127.0.0.1:{51_000 + number}")
        channel = ClientChannel(connection, client_id, "JAVA", 479, desk.clock.now_ms())
        profile = ConsumerProfile(message_model="CLUSTERING")
        desk.context.consumers.register("G1", channel, profile, [build_subscription("Orders", "*")])


def query(desk, client_id="c1", strategy="AVG", model="CLUSTERING", topic="Orders"):
    body = QueryAssignmentRequestBody(
        topic=topic,
        consumer_group="G1",
        client_id=client_id,
        strategy_name=strategy,
        message_model=model,
    )
    answer = desk.ask(RequestCode.QUERY_ASSIGNMENT, body=body.to_bytes())
    assert answer.code == 0
    found = QueryAssignmentResponseBody.from_bytes(answer.body_bytes()).message_queue_assignments
    if found is None:
        return None
    return [(one.message_queue.queue_id, one.mode) for one in found]


def set_mode(desk, mode="POP", topic="Orders", group="G1", share=0):
    body = SetMessageRequestModeRequestBody(
        topic=topic, consumer_group=group, mode=mode, pop_share_queue_num=share
    )
    return desk.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=body.to_bytes())


def test_pull_mode_divides_the_queues(desk) -> None:
    desk.topic("Orders", 4)
    online(desk, "c1", "c2")
    assert query(desk, "c1") == [(0, "PULL"), (1, "PULL")]
    assert query(desk, "c2") == [(2, "PULL"), (3, "PULL")]
    assert query(desk, "c2", "AVG_BY_CIRCLE") == [(1, "PULL"), (3, "PULL")]


def test_pop_mode_gives_every_member_any_queue_of_the_broker(desk) -> None:
    desk.topic("Orders", 4)
    online(desk, "c1", "c2")
    assert set_mode(desk).code == 0
    assert query(desk, "c1") == query(desk, "c2") == [(-1, "POP")]


def test_a_retry_topic_is_always_pulled(desk) -> None:
    desk.topic("%RETRY%G1", 1)
    online(desk, "c1")
    assert query(desk, topic="%RETRY%G1") == [(0, "PULL")]


def test_the_default_mode_applies_without_an_entry(make_desk) -> None:
    desk = make_desk(defaultMessageRequestMode="POP")
    desk.topic("Orders", 4)
    online(desk, "c1")
    assert query(desk) == [(-1, "POP")]


def test_broadcasting_members_get_every_queue(desk) -> None:
    desk.topic("Orders", 2)
    assert query(desk, model="BROADCASTING") == [(0, "PULL"), (1, "PULL")]


@pytest.mark.parametrize(("strategy", "topic"), [("OTHER", "Orders"), ("AVG", "Unknown")])
def test_undecidable_questions_have_no_assignment(desk, strategy, topic) -> None:
    desk.topic("Orders", 2)
    online(desk, "c1")
    assert query(desk, strategy=strategy, topic=topic) is None


def test_a_group_that_is_offline_has_no_assignment(desk) -> None:
    desk.topic("Orders", 2)
    assert query(desk) is None


def test_an_unknown_member_owns_nothing(desk) -> None:
    desk.topic("Orders", 2)
    online(desk, "c1")
    assert query(desk, "other") == []


@pytest.mark.parametrize(
    ("topic", "mode", "code"),
    [
        ("Orders", "PULL", 0),
        ("Orders", "POP", 0),
        ("Orders", "PUSH", ResponseCode.INVALID_PARAMETER),
        ("Unknown", "PULL", ResponseCode.TOPIC_NOT_EXIST),
        ("%RETRY%G1", "PULL", ResponseCode.NO_PERMISSION),
    ],
)
def test_setting_a_mode(desk, topic, mode, code) -> None:
    desk.topic("Orders")
    assert set_mode(desk, mode, topic).code == code


def test_setting_a_mode_of_an_unknown_group(make_desk) -> None:
    desk = make_desk(autoCreateSubscriptionGroup="false")
    desk.topic("Orders")
    assert set_mode(desk).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_all_modes_are_reported_to_slaves(desk) -> None:
    desk.topic("Orders")
    set_mode(desk, share=2)
    answer = desk.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    table = MessageRequestModeSerializeWrapper.from_bytes(answer.body_bytes())
    mode = table.message_request_mode_map["Orders"]["G1"]
    assert (mode.mode, mode.pop_share_queue_num) == ("POP", 2)


def test_a_mode_that_cannot_be_written_is_rolled_back(desk, monkeypatch) -> None:
    desk.topic("Orders")

    def fail(text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(desk.pop_files.modes_file, "persist", fail)
    answer = set_mode(desk)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "not persisted" in answer.remark
    assert desk.pop_service.modes.get("Orders", "G1") is None
