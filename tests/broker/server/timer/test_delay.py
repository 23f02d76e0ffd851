"""Where a delayed message goes: its level precedes its time."""

import pytest

from broker.common.topic import SCHEDULE_TOPIC, TIMER_TOPIC
from broker.remoting.protocol.codes import RequestCode
from broker.server.timer.delay import delay_message
from broker.store.results import MessageExtBrokerInner, PutMessageStatus


@pytest.mark.parametrize(
    ("properties", "topic", "queue_id"),
    [
        ({}, "Orders", 3),
        ({"DELAY": "2"}, SCHEDULE_TOPIC, 1),
        ({"DELAY": "2", "TIMER_DELAY_SEC": "5"}, SCHEDULE_TOPIC, 1),
        ({"DELAY": "0", "TIMER_DELAY_SEC": "5"}, TIMER_TOPIC, 0),
        ({"TIMER_DELIVER_MS": "1"}, "Orders", 3),
    ],
)
def test_level_precedes_time(desk, properties, topic, queue_id) -> None:
    inner = MessageExtBrokerInner("Orders", 3, b"")
    timers = desk.context.timers.timers
    assert delay_message(desk.context.delays, timers, inner, properties) is None
    assert (inner.topic, inner.queue_id) == (topic, queue_id)
    if topic == SCHEDULE_TOPIC:
        assert "TIMER_DELAY_SEC" not in properties


def test_refusals_name_their_reason(desk) -> None:
    delays, timers = desk.context.delays, desk.context.timers.timers
    far = MessageExtBrokerInner("Orders", 0, b"")
    result = delay_message(delays, timers, far, {"TIMER_DELAY_SEC": "999999999"})
    assert result.status is PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL
    long = MessageExtBrokerInner("x" * 200, 0, b"")
    result = delay_message(delays, timers, long, {"DELAY": "1"})
    assert result.status is PutMessageStatus.MESSAGE_ILLEGAL
    assert "200" in result.remark


def test_without_wheel_only_timer_messages_are_refused(desk) -> None:
    inner = MessageExtBrokerInner("Orders", 0, b"")
    assert delay_message(None, None, inner, {"DELAY": "2"}) is None
    result = delay_message(None, None, inner, {"TIMER_DELAY_SEC": "5"})
    assert result.status is PutMessageStatus.WHEEL_TIMER_NOT_ENABLE


def test_delay_of_a_transaction_counts_from_its_commit(desk) -> None:
    desk.topic("Orders")
    half = desk.send(properties={"TRAN_MSG": "true", "PGROUP": "P1", "TIMER_DELAY_SEC": "30"}, f=4)
    assert desk.messages(TIMER_TOPIC) == []
    desk.clock.advance(5_000)
    answer = desk.ask(
        RequestCode.END_TRANSACTION,
        {
            "producerGroup": "P1",
            "tranStateTableOffset": half.ext_fields["queueOffset"],
            "commitLogOffset": int(half.ext_fields["msgId"][16:], 16),
            "commitOrRollback": 8,
            "fromTransactionCheck": "false",
            "msgId": half.ext_fields["transactionId"],
            "transactionId": half.ext_fields["transactionId"],
        },
    )
    assert answer.code == 0, answer.remark
    (pending,) = desk.messages(TIMER_TOPIC)
    due_ms = int(pending.properties["TIMER_OUT_MS"]) + 1_000
    assert 30_000 <= due_ms - desk.clock.now_ms() < 31_000
    assert desk.messages("Orders") == []
