"""PopService: the buffer in use, its writes, and the stop."""

import pytest

from broker.message.check_point import decode_ack, decode_check_point


@pytest.fixture
def merging(make_desk, pop_client):
    """A client on a broker that merges check points and acks in memory."""
    desk = make_desk(enablePopBufferMerge="true")
    desk.topic("Orders", 1)
    return pop_client(desk)


def timers(desk):
    return desk.messages("rmq_sys_wheel_timer")


def test_check_points_acknowledged_in_time_are_never_written(merging) -> None:
    desk = merging.desk
    for _ in range(4):
        desk.send()
    for one in merging.pop(invisibleTime=60_000):
        merging.ack(one)
    desk.advance(20_000)
    assert timers(desk) == []
    assert desk.context.offsets.query("G1", "Orders", 0) == 4


def test_the_offset_is_committed_only_when_the_check_point_is_done_or_written(merging) -> None:
    desk = merging.desk
    for number in range(4):
        desk.send(body=b"%d" % number)
    first = merging.pop(maxMsgNums=2, invisibleTime=60_000)
    second = merging.pop(maxMsgNums=2, invisibleTime=60_000)
    assert [one.body for one in second] == [b"2", b"3"]
    for one in second:
        merging.ack(one)
    assert desk.context.offsets.query("G1", "Orders", 0) == -1
    merging.ack(first[0])
    desk.advance(10_100)
    assert desk.context.offsets.query("G1", "Orders", 0) == 4
    ck, ack = timers(desk)
    assert decode_check_point(ck.body).diffs == [0, 1]
    assert decode_check_point(ck.body).bits == 0
    assert decode_ack(ack.body).offsets == [0]


def test_unacknowledged_messages_come_again_in_time(merging) -> None:
    desk = merging.desk
    desk.send(body=b"again")
    popped_ms = desk.clock.now_ms()
    merging.pop(invisibleTime=30_000)
    while not (found := merging.pop()):
        desk.advance(100)
    assert 30_000 <= desk.clock.now_ms() - popped_ms <= 33_000
    assert found[0].reconsume_times == 1


def test_acks_after_the_write_are_written_too(merging) -> None:
    desk = merging.desk
    for number in range(2):
        desk.send(body=b"%d" % number)
    popped = merging.pop(invisibleTime=30_000)
    desk.advance(10_100)
    merging.ack(popped[0])
    desk.advance(25_000)
    assert [one.body for one in merging.pop()] == [b"1"]


def test_merged_acks_of_a_check_point_are_one_record_if_wanted(make_desk, pop_client) -> None:
    desk = make_desk(enablePopBufferMerge="true", enablePopBatchAck="true")
    desk.topic("Orders", 1)
    client = pop_client(desk)
    for number in range(3):
        desk.send(body=b"%d" % number)
    for one in client.pop(invisibleTime=30_000)[:2]:
        client.ack(one)
    desk.advance(10_100)
    _, ack = timers(desk)
    assert (ack.tags, decode_ack(ack.body, batched=True).offsets) == ("bAck", [0, 1])
    assert ack.uniq_key.endswith("@bAck")
    desk.advance(23_000)
    assert [one.body for one in client.pop()] == [b"2"]


def test_before_the_stop_the_buffer_is_written(merging) -> None:
    desk = merging.desk
    for number in range(2):
        desk.send(body=b"%d" % number)
    popped = merging.pop(invisibleTime=30_000)
    merging.ack(popped[0])
    desk.pop_service.flush_buffer()
    assert [stored.tags for stored in timers(desk)] == ["ck", "ack"]
    assert desk.context.offsets.query("G1", "Orders", 0) == 2


def test_a_check_point_that_cannot_be_written_at_the_stop_is_not_committed(merging, caplog) -> None:
    desk = merging.desk
    desk.send()
    merging.pop(invisibleTime=30_000)
    desk.timer.refusal = "no space"
    desk.pop_service.flush_buffer()
    assert desk.context.offsets.query("G1", "Orders", 0) == -1
    assert "is not written" in caplog.text


def test_a_failing_write_is_repeated(merging) -> None:
    desk = merging.desk
    desk.send()
    merging.pop(invisibleTime=60_000)
    desk.timer.refusal = "no space"
    desk.advance(10_500)
    assert timers(desk) == []
    desk.timer.refusal = ""
    desk.advance(500)
    assert len(timers(desk)) == 1


def test_a_crash_delivers_buffered_messages_again(merging) -> None:
    """The buffer is lost, and so is the offset that only it knew."""
    desk = merging.desk
    desk.send(body=b"x")
    merging.pop(invisibleTime=60_000)
    assert desk.context.offsets.query("G1", "Orders", 0) == -1


def test_deleted_groups_leave_nothing(desk, client) -> None:
    desk.send()
    client.pop(order="true")
    desk.context.groups.delete("G1")
    desk.pop_service.clean()
    assert len(desk.pop_service.orders) == 0
    assert desk.pop_service.in_flight.get("Orders", "G1", 0) == 0
