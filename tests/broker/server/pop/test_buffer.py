"""PopBufferMerge: entries in memory, records written, and the order in which offsets advance."""

import pytest

from broker.message.check_point import PopCheckPoint
from broker.server.pop.buffer import BufferLimits, PopBufferMerge

NOW = 1_700_000_000_000
QUEUE = ("T", "G", 0)


def check_point(start=0, count=2, pop_time=NOW, invisible=60_000, queue_id=0) -> PopCheckPoint:
    return PopCheckPoint(
        topic="T",
        group="G",
        queue_id=queue_id,
        start_offset=start,
        pop_time=pop_time,
        invisible_time=invisible,
        broker_name="b",
        count=count,
        diffs=list(range(count)),
    )


@pytest.fixture
def buffer() -> PopBufferMerge:
    return PopBufferMerge(BufferLimits())


def add(buffer, ck, next_offset):
    assert buffer.accepts(ck, ck.pop_time)
    buffer.add(ck, 0, next_offset)
    return ck.merge_key("")


def test_a_check_point_that_is_acknowledged_in_time_is_never_written(buffer) -> None:
    key = add(buffer, check_point(), 2)
    assert buffer.acknowledge(key, [0], NOW + 10) == 1
    assert buffer.acknowledge(key, [0, 1], NOW + 20) == 1
    assert len(buffer) == 0
    assert buffer.take_due(NOW + 100_000, 10) == []
    assert buffer.take_offsets() == [(QUEUE, 2)]


def test_after_the_stay_it_is_written_with_its_acks(buffer) -> None:
    key = add(buffer, check_point(), 2)
    buffer.acknowledge(key, [1], NOW + 10)
    assert buffer.next_due_ms() == NOW + 10_000
    assert buffer.take_due(NOW + 9_999, 10) == []
    (entry,) = buffer.take_due(NOW + 10_000, 10)
    assert entry.unwritten == [1]
    assert buffer.take_offsets() == []
    buffer.written(entry)
    assert buffer.take_offsets() == [(QUEUE, 2)]
    assert buffer.acknowledge(key, [0], NOW + 10_001) is None


def test_a_short_invisible_time_is_written_before_it_ends(buffer) -> None:
    add(buffer, check_point(invisible=6_000), 2)
    assert buffer.next_due_ms() == NOW + 3_000
    assert not buffer.accepts(check_point(invisible=4_000, start=2), NOW)


@pytest.mark.parametrize("late_ms", [8_501, 20_000])
def test_acks_close_to_the_write_are_written_themselves(buffer, late_ms) -> None:
    key = add(buffer, check_point(), 2)
    assert buffer.acknowledge(key, [0], NOW + 8_500) == 1
    assert buffer.acknowledge(key, [1], NOW + late_ms) is None


def test_offsets_advance_in_the_order_of_the_pops(buffer) -> None:
    first = add(buffer, check_point(0), 2)
    second = add(buffer, check_point(2), 4)
    assert buffer.latest_offset(QUEUE) == 4
    buffer.acknowledge(second, [2, 3], NOW)
    assert buffer.take_offsets() == []
    buffer.acknowledge(first, [0, 1], NOW)
    assert buffer.take_offsets() == [(QUEUE, 4)]
    assert buffer.latest_offset(QUEUE) == -1


def test_a_stored_check_point_waits_in_line_for_its_offset(buffer) -> None:
    first = add(buffer, check_point(0), 2)
    buffer.add_stored(check_point(2), 4)
    assert buffer.take_offsets() == []
    buffer.acknowledge(first, [0, 1], NOW)
    assert buffer.take_offsets() == [(QUEUE, 4)]


def test_queues_do_not_wait_for_each_other(buffer) -> None:
    add(buffer, check_point(0), 2)
    buffer.add_stored(check_point(0, queue_id=1), 2)
    assert buffer.take_offsets() == [(("T", "G", 1), 2)]


def test_a_reset_forgets_the_offsets_in_line(buffer) -> None:
    key = add(buffer, check_point(), 2)
    buffer.clear_line(QUEUE)
    assert buffer.latest_offset(QUEUE) == -1
    buffer.acknowledge(key, [0, 1], NOW)
    assert buffer.take_offsets() == []


def test_limits_of_entries_and_of_one_queue() -> None:
    buffer = PopBufferMerge(BufferLimits(max_queue_entries=2))
    add(buffer, check_point(0), 2)
    add(buffer, check_point(2), 4)
    assert not buffer.accepts(check_point(4), NOW)
    assert buffer.accepts(check_point(4, queue_id=1), NOW)
    buffer = PopBufferMerge(BufferLimits(max_entries=0))
    add(buffer, check_point(0), 2)
    assert not buffer.accepts(check_point(2), NOW)


def test_the_same_check_point_is_not_kept_twice(buffer) -> None:
    add(buffer, check_point(), 2)
    assert not buffer.accepts(check_point(), NOW)


def test_a_failed_write_is_tried_again(buffer) -> None:
    add(buffer, check_point(), 2)
    (entry,) = buffer.take_due(NOW + 10_000, 10)
    buffer.retry(entry, NOW + 10_200)
    assert buffer.next_due_ms() == NOW + 10_200
    assert buffer.take_due(NOW + 10_200, 10) == [entry]


def test_everything_can_be_taken_oldest_first(buffer) -> None:
    keys = [add(buffer, check_point(2 * n, pop_time=NOW - n), 2 * n + 2) for n in range(3)]
    buffer.acknowledge(keys[1], [2, 3], NOW)
    assert [entry.ck.start_offset for entry in buffer.take_all()] == [4, 0]


def test_memory_returns_to_the_baseline(buffer) -> None:
    keys = []
    for number in range(500):
        keys.append(add(buffer, check_point(2 * number), 2 * number + 2))
    assert buffer.held_bytes >= 500 * 1_024
    for number, key in enumerate(keys):
        buffer.acknowledge(key, [2 * number, 2 * number + 1], NOW)
    buffer.take_offsets()
    assert buffer.next_due_ms() is None
    assert buffer.held_bytes == 0
