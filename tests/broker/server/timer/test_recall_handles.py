"""The handle in the response of a timer send."""

import pytest

from broker.common.topic import TIMER_TOPIC
from broker.message.recall_handle import decode_recall_handle
from broker.server.timer.recall_handles import recall_handle

STORED = {"REAL_TOPIC": "Orders", "TIMER_OUT_MS": "1700000001000", "UNIQ_KEY": "K"}


def test_handle_names_topic_broker_slot_and_message(desk) -> None:
    handle = decode_recall_handle(recall_handle(desk.context, TIMER_TOPIC, STORED))
    broker = desk.context.config.broker_name
    assert handle == ("Orders", broker, "1700000001001", "K")


@pytest.mark.parametrize(
    ("topic", "changes"),
    [
        ("Orders", {}),
        (TIMER_TOPIC, {"REAL_TOPIC": "%RETRY%G"}),
        (TIMER_TOPIC, {"TIMER_OUT_MS": ""}),
        (TIMER_TOPIC, {"TIMER_OUT_MS": "soon"}),
    ],
)
def test_other_messages_have_no_handle(desk, topic, changes) -> None:
    assert recall_handle(desk.context, topic, {**STORED, **changes}) == ""
