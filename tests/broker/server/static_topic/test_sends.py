"""Sends to static topics: the queue they are stored in, and the place in the response."""

from broker.remoting.protocol.codes import ResponseCode
from tests.broker.server.static_topic.conftest import TOPIC, mapping, segment


def place(answer) -> tuple[int, int]:
    assert answer.code == 0, answer.remark
    return int(answer.ext_fields["queueId"]), int(answer.ext_fields["queueOffset"])


def test_a_send_is_stored_in_the_led_queue_and_answered_with_logical_offsets(
    desk, make_static
) -> None:
    desk.topic(TOPIC, queues=2)
    desk.send(TOPIC, queue_id=1)  # before the topic is static
    make_static(mapping(segment(0, "broker-a", start=1, logic_offset=10_000)))
    assert place(desk.send(TOPIC, queue_id=0)) == (0, 10_000)
    assert place(desk.send(TOPIC, queue_id=0, properties={"DELAY": "0"})) == (0, 10_001)
    assert desk.store.get_max_offset(TOPIC, 1) == 3
    assert desk.store.get_max_offset(TOPIC, 0) == 0


def test_a_queue_led_by_another_broker_is_refused(desk, make_static) -> None:
    make_static(mapping(segment(0, "broker-a", end_offset=0), segment(1, "broker-b")))
    for queue_id in (0, 1, -1):
        answer = desk.send(TOPIC, queue_id=queue_id)
        assert answer.code == ResponseCode.NOT_LEADER_FOR_QUEUE


def test_other_topics_are_not_changed(desk, make_static) -> None:
    make_static(mapping(segment(0, "broker-a")))
    desk.topic("Orders", queues=2)
    assert place(desk.send("Orders", queue_id=1)) == (1, 0)
