"""ReviveQueue: which check points are due, and how far the revive offset may advance."""

import pytest

from broker.errors import RemoteProtocolError
from broker.message.check_point import (
    AckMsg,
    PopCheckPoint,
    encode_ack,
    encode_check_point,
)
from broker.server.pop.revive.revive_queue import ACK_GRACE_MS, MAX_OPEN_BYTES, ReviveQueue

NOW = 1_700_000_000_000


def check_point(start=0, revive=NOW, count=2) -> PopCheckPoint:
    return PopCheckPoint(
        topic="T",
        group="G",
        queue_id=0,
        start_offset=start,
        pop_time=revive - 10_000,
        invisible_time=10_000,
        broker_name="b",
        count=count,
        diffs=list(range(count)),
    )


def ack(ck, offset, broker_name="b") -> bytes:
    return encode_ack(
        AckMsg(
            topic=ck.topic,
            group=ck.group,
            queue_id=ck.queue_id,
            start_offset=ck.start_offset,
            pop_time=ck.pop_time,
            broker_name=broker_name,
            offsets=[offset],
        )
    )


@pytest.fixture
def queue() -> ReviveQueue:
    return ReviveQueue(0, -1, "b")


def test_a_check_point_is_due_after_the_grace_and_not_before(queue) -> None:
    ck = check_point()
    queue.accept("ck", encode_check_point(ck), 0)
    assert queue.next_due_ms() == NOW + ACK_GRACE_MS
    assert queue.due(NOW + ACK_GRACE_MS - 1, NOW + 10_000) is None
    assert queue.due(NOW + ACK_GRACE_MS, NOW + 10_000) is not None


def test_it_waits_for_a_timer_that_is_late(queue) -> None:
    queue.accept("ck", encode_check_point(check_point()), 0)
    assert queue.due(NOW + 60_000, NOW - 1) is None
    assert queue.due(NOW + 60_000, NOW) is not None


def test_acknowledgements_are_merged(queue) -> None:
    ck = check_point()
    queue.accept("ck", encode_check_point(ck), 0)
    queue.accept("ack", ack(ck, 1), 1)
    found = queue.due(NOW + ACK_GRACE_MS, NOW)
    assert found is not None
    assert found.unacknowledged == [0]


def test_an_ack_without_check_point_is_ignored(queue) -> None:
    queue.accept("ack", ack(check_point(), 1), 0)
    assert (len(queue), queue.committed) == (0, 0)


def test_the_revive_offset_stops_before_the_first_open_check_point(queue) -> None:
    late, early = check_point(0, NOW + 500), check_point(2, NOW)
    queue.accept("ck", encode_check_point(late), 0)
    queue.accept("ck", encode_check_point(early), 1)
    queue.accept("ack", ack(late, 0), 2)
    assert queue.committed == -1
    first = queue.due(NOW + ACK_GRACE_MS, NOW + 1_000)
    assert first is not None
    assert first.start_offset == 2
    queue.done(first)
    assert queue.committed == -1
    second = queue.due(NOW + 500 + ACK_GRACE_MS, NOW + 1_000)
    assert second is not None
    queue.done(second)
    assert queue.committed == 2
    assert len(queue) == 0


def test_a_restart_reads_after_the_committed_record() -> None:
    assert ReviveQueue(0, 4, "b").next_read == 5
    assert ReviveQueue(0, 4, "b").committed == 4
    assert ReviveQueue(0, -1, "b").next_read == 0


def test_the_committed_offset_never_goes_back_except_with_the_log(queue) -> None:
    for offset in range(5):
        queue.accept("ack", ack(check_point(), 0), offset)
    assert queue.committed == 4
    queue.rewind(2)
    assert (queue.next_read, queue.committed) == (2, 1)


def test_the_same_check_point_twice_is_decided_once(queue) -> None:
    ck = check_point()
    queue.accept("ck", encode_check_point(ck), 0)
    queue.accept("ack", ack(ck, 0), 1)
    queue.accept("ck", encode_check_point(ck), 2)
    assert len(queue) == 1
    found = queue.due(NOW + ACK_GRACE_MS, NOW)
    assert found is not None
    assert found.unacknowledged == [1]


def test_a_check_point_for_one_message_does_not_replace_the_whole(queue) -> None:
    queue.accept("ck", encode_check_point(check_point(count=2)), 0)
    queue.accept("ck", encode_check_point(check_point(count=1)), 1)
    assert len(queue) == 2


@pytest.mark.parametrize(
    ("tag", "body"),
    [("ck", b"junk"), ("ack", b"{}"), ("bAck", b"[]"), ("other", b"{}"), (None, b"")],
)
def test_invalid_records_are_counted_and_passed_over(queue, tag, body) -> None:
    with pytest.raises(RemoteProtocolError):
        queue.accept(tag, body, 0)
    assert (queue.skipped, queue.next_read, queue.committed) == (1, 1, 0)


def test_the_latest_due_time_is_remembered(queue) -> None:
    queue.accept("ack", ack(check_point(), 0), 0, NOW)
    queue.accept("ack", ack(check_point(), 0), 1, NOW - 5)
    assert queue.read_until_ms == NOW


def test_reading_stops_at_the_memory_limit(queue) -> None:
    body = encode_check_point(check_point())
    number = MAX_OPEN_BYTES // 1_024
    for offset in range(number):
        assert not queue.full
        start = b'"so":%d' % (2 * offset)
        queue.accept("ck", body.replace(b'"so":0', start), offset)
    assert queue.full
