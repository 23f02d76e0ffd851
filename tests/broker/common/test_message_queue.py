import pytest

from broker.common.encoding.java_json import dumps, loads
from broker.common.encoding.java_values import FrozenObject
from broker.common.message_queue import (
    MessageQueue,
    message_queue_from_wire,
    message_queue_to_wire,
)
from broker.errors import RemoteProtocolError

QUEUE = MessageQueue("T1", "b-a", 3)


def test_order_is_topic_then_broker_then_queue() -> None:
    queues = [MessageQueue(t, b, q) for t in "ab" for b in "ab" for q in (2, 10)]
    queues.reverse()
    assert sorted(queues) == queues[::-1]
    assert len({*queues, *queues}) == 8


@pytest.mark.parametrize(
    "value",
    [
        {"brokerName": "b-a", "queueId": 3, "topic": "T1"},
        {"topic": "T1", "queueId": "3", "brokerName": "b-a", "other": 1},
        FrozenObject((("brokerName", "b-a"), ("queueId", 3), ("topic", "T1"))),
        '{"brokerName":"b-a","queueId":3,"topic":"T1"}',
    ],
)
def test_every_spelling_reads(value: object) -> None:
    assert message_queue_from_wire(value) == QUEUE


def test_it_survives_as_value_and_as_key() -> None:
    assert message_queue_from_wire(message_queue_to_wire(QUEUE)) == QUEUE
    text = dumps({QUEUE: 1})
    assert text == '{{"brokerName":"b-a","queueId":3,"topic":"T1"}:1}'
    assert [message_queue_from_wire(key) for key in loads(text)] == [QUEUE]


def test_absent_fields_read_as_java_reads_them() -> None:
    assert message_queue_from_wire({}) == MessageQueue("", "", 0)


@pytest.mark.parametrize("value", [None, 5, "x", "[1]", {"queueId": "x"}, {"queueId": [1]}])
def test_anything_else_is_an_error(value: object) -> None:
    with pytest.raises(RemoteProtocolError):
        message_queue_from_wire(value)
