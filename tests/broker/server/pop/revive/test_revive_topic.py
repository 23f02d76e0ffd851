"""ReviveTopic: records of check points and acks, and check points written again."""

import msgspec

from broker.message.check_point import AckMsg, PopCheckPoint, decode_check_point
from broker.store.results import PutMessageStatus


def check_point(desk, **fields) -> PopCheckPoint:
    given = {
        "topic": "Orders",
        "group": "G1",
        "queue_id": 0,
        "start_offset": 3,
        "pop_time": desk.clock.now_ms(),
        "invisible_time": 60_000,
        "broker_name": "broker-a",
        "count": 2,
        "diffs": [0, 1],
    }
    return PopCheckPoint(**{**given, **fields})


def test_a_check_point_that_is_due_goes_to_the_revive_topic_at_once(desk) -> None:
    topic = desk.pop_service.topic
    result = topic.put_check_point(check_point(desk, invisible_time=1_000), 5)
    assert result.status is PutMessageStatus.PUT_OK
    (stored,) = desk.messages(topic.name, 5)
    assert stored.tags == "ck"
    assert topic.written_end == result.physical_end


def test_an_ack_is_delivered_at_the_revive_time_of_its_check_point(desk) -> None:
    topic = desk.pop_service.topic
    ack = AckMsg(
        topic="Orders",
        group="G1",
        queue_id=0,
        start_offset=3,
        pop_time=1,
        broker_name="broker-a",
        offsets=[4],
    )
    topic.put_ack(ack, 2, desk.clock.now_ms() + 5_000)
    (stored,) = desk.messages("rmq_sys_wheel_timer")
    assert (stored.properties["REAL_QID"], stored.properties["TAGS"]) == ("2", "ack")


def test_a_message_that_cannot_be_revived_gets_a_later_check_point(desk) -> None:
    topic, ck = desk.pop_service.topic, check_point(desk)
    for times, delay_s in ((0, 10), (1, 20), (16, 7_200), (40, 7_200)):
        again = msgspec.structs.replace(ck, re_put_times=times)
        topic.rewrite(again, 4, 1)
        written = decode_check_point(desk.messages("rmq_sys_wheel_timer")[-1].body)
        assert (written.start_offset, written.count, written.diffs) == (4, 1, [0])
        assert written.re_put_times == times + 1
        assert written.revive_time == ck.revive_time + delay_s * 1_000


def test_existing_revive_queues_count_after_the_setting_was_lowered(make_desk) -> None:
    desk = make_desk(reviveQueueNum="2")
    assert desk.pop_service.topic.queues == 8
    assert [desk.pop_service.topic.next_queue() for _ in range(4)] == [0, 1, 0, 1]


def test_the_reason_of_a_refusal_is_returned(desk) -> None:
    desk.timer.refusal = "too full"
    result = desk.pop_service.topic.put_check_point(check_point(desk), 0)
    assert (result.status, result.remark) == (
        PutMessageStatus.WHEEL_TIMER_MSG_ILLEGAL,
        "too full",
    )
