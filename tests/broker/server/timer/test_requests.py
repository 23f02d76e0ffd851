"""Recall, timer checkpoint and timer metrics: Java's answer codes."""

import base64

import pytest

from broker.common.topic import TIMER_TOPIC
from broker.remoting.protocol.body.timer import TimerCheckpoint, TimerMetrics
from broker.remoting.protocol.codes import RequestCode, ResponseCode
from broker.store.results import PutMessageResult, PutMessageStatus

KEY = "AC11000100012A139A5518B4AAC20000"  # of every message of a desk


def run(desk) -> None:
    while desk.context.timers.timers.run() == 0:
        pass


def recall(desk, handle: str, topic: str = "Orders"):
    ext = {"producerGroup": "P1", "topic": topic, "recallHandle": handle}
    return desk.ask(RequestCode.RECALL_MESSAGE, ext)


def handle_of(topic: str, broker: str, timestamp: object, key: str = KEY) -> str:
    return base64.urlsafe_b64encode(f"v1 {topic} {broker} {timestamp} {key}".encode()).decode()


@pytest.fixture
def recalling(make_desk):
    desk = make_desk(recallMessageEnable="true")
    desk.topic("Orders")
    return desk


def test_sent_timer_message_is_recalled_by_its_handle(recalling) -> None:
    desk = recalling
    answer = desk.send(properties={"TIMER_DELAY_SEC": "30"})
    desk.send(properties={"TIMER_DELAY_SEC": "30", "UNIQ_KEY": "OTHER"})
    recalled = recall(desk, answer.ext_fields["recallHandle"])
    assert recalled.code == 0
    assert recalled.ext_fields["msgId"] == KEY
    assert recalled.ext_fields["MSG_REGION"]
    run(desk)
    desk.clock.advance(31_000)
    run(desk)
    assert [m.properties["UNIQ_KEY"] for m in desk.messages("Orders")] == ["OTHER"]


def test_recall_is_stored_as_java_stores_it(recalling) -> None:
    desk = recalling
    answer = desk.send(properties={"TIMER_DELAY_SEC": "30"})
    recall(desk, answer.ext_fields["recallHandle"])
    victim, marker = desk.messages(TIMER_TOPIC)
    assert marker.body == b"0"
    assert marker.properties == {
        "TAGS": "_RECALL_TAG_",
        "TIMER_DEL_UNIQKEY": f"Orders+{KEY}",
        "UNIQ_KEY": KEY,
        "TIMER_DELIVER_MS": str(int(victim.properties["TIMER_OUT_MS"]) + 1),
        "TIMER_OUT_MS": victim.properties["TIMER_OUT_MS"],
        "BORN_TIMESTAMP": str(desk.clock.now_ms()),
        "PGROUP": "P1",
        "REAL_TOPIC": "Orders",
        "REAL_QID": "0",
    }


def test_recall_waits_for_the_flush(make_desk) -> None:
    desk = make_desk(recallMessageEnable="true", flushDiskType="SYNC_FLUSH")
    desk.topic("Orders")
    now_ms = desk.clock.now_ms()
    broker = desk.context.config.broker_name
    answer = recall(desk, handle_of("Orders", broker, now_ms + 5_001))
    assert answer.code == 0
    assert desk.store.flushed_where == desk.store.max_physical_offset


def test_recall_is_forbidden_by_default(desk) -> None:
    desk.topic("Orders")
    answer = desk.send(properties={"TIMER_DELAY_SEC": "30"})
    refused = recall(desk, answer.ext_fields["recallHandle"])
    assert refused.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"startAcceptSendRequestTimeStamp": str(2**62)}, ResponseCode.SERVICE_NOT_AVAILABLE),
        (
            {"brokerPermission": "4", "allowRecallWhenBrokerNotWriteable": "false"},
            ResponseCode.SERVICE_NOT_AVAILABLE,
        ),
        ({"timerWheelEnable": "false"}, ResponseCode.SYSTEM_ERROR),
    ],
)
def test_recall_that_the_broker_cannot_serve(make_desk, settings, code) -> None:
    desk = make_desk(recallMessageEnable="true", **settings)
    desk.topic("Orders")
    broker = desk.context.config.broker_name
    handle = handle_of("Orders", broker, desk.clock.now_ms() + 5_001)
    assert recall(desk, handle).code == code


def test_recall_of_an_unknown_topic(recalling) -> None:
    assert recall(recalling, "x", topic="Unknown").code == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize("left_ms", [-1, 0, 3 * 86_400_000, 2**62])
def test_recall_of_a_time_that_is_over_or_too_far(recalling, left_ms) -> None:
    broker = recalling.context.config.broker_name
    handle = handle_of("Orders", broker, recalling.clock.now_ms() + left_ms)
    assert recall(recalling, handle).code == ResponseCode.ILLEGAL_OPERATION


def test_foreign_and_malformed_handles(recalling) -> None:
    desk = recalling
    broker, later = desk.context.config.broker_name, desk.clock.now_ms() + 5_001
    for handle in (
        handle_of("Other", broker, later),
        handle_of("Orders", "broker-x", later),
        handle_of("Orders", broker, "soon"),
        handle_of("Orders", broker, -1),
        "@@@",
        "djI=",
    ):
        assert recall(desk, handle).code == ResponseCode.ILLEGAL_OPERATION, handle
    assert desk.messages(TIMER_TOPIC) == []


def test_store_that_refuses_the_recall(recalling, monkeypatch) -> None:
    desk = recalling
    broker = desk.context.config.broker_name
    handle = handle_of("Orders", broker, desk.clock.now_ms() + 5_001)
    refused = PutMessageResult(PutMessageStatus.SERVICE_NOT_AVAILABLE, remark="disk full")
    monkeypatch.setattr(desk.store, "put_message", lambda inner: refused)
    answer = recall(desk, handle)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "disk full" in answer.remark


def test_checkpoint_and_metrics_report_the_wheel(recalling) -> None:
    desk = recalling
    desk.send(properties={"TIMER_DELAY_SEC": "30"})
    run(desk)
    answer = desk.ask(RequestCode.GET_TIMER_CHECK_POINT)
    state = TimerCheckpoint.from_bytes(answer.body_bytes())
    assert (state.last_timer_log_flush_pos, state.last_timer_queue_offset) == (52, 1)
    metrics = TimerMetrics.from_bytes(desk.ask(RequestCode.GET_TIMER_METRICS).body_bytes())
    assert {topic: entry.count for topic, entry in metrics.timing_count.items()} == {"Orders": 1}


@pytest.mark.parametrize("code", [RequestCode.GET_TIMER_CHECK_POINT, RequestCode.GET_TIMER_METRICS])
def test_without_timer_wheel_no_checkpoint_is_written(make_desk, code) -> None:
    desk = make_desk(timerWheelEnable="false")
    assert desk.ask(code).code == ResponseCode.SYSTEM_ERROR
