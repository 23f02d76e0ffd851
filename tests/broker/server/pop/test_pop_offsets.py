"""PopOffsets: where the next pop of a queue starts."""

import pytest

from broker.message.check_point import PopCheckPoint
from broker.server.pop.pop_offsets import INIT_MAX, INIT_MIN

KEY = ("Orders", "G1", 0)


@pytest.fixture
def offsets(desk):
    desk.topic("Orders", 1)
    for _ in range(5):
        desk.send()
    return desk.pop_service.offsets


def buffered(desk, next_offset: int) -> None:
    ck = PopCheckPoint(
        topic="Orders",
        group="G1",
        queue_id=0,
        start_offset=0,
        pop_time=desk.clock.now_ms(),
        invisible_time=60_000,
        broker_name="broker-a",
        count=1,
        diffs=[0],
    )
    desk.pop_service.buffer.add(ck, 0, next_offset)


def test_the_committed_offset_or_the_last_buffered_pop(desk, offsets) -> None:
    desk.context.offsets.commit("G1", "Orders", 0, 2)
    assert offsets.next_offset(KEY, INIT_MIN) == 2
    buffered(desk, 4)
    assert offsets.next_offset(KEY, INIT_MIN) == 4
    desk.context.offsets.commit("G1", "Orders", 0, 5)
    assert offsets.next_offset(KEY, INIT_MIN) == 5


def test_a_reset_precedes_both_and_is_taken_once(desk, offsets) -> None:
    buffered(desk, 4)
    desk.context.offsets.reset("G1", "Orders", 0, 1)
    assert offsets.next_offset(KEY, INIT_MIN) == 1
    assert not desk.context.offsets.reset_pending("G1", "Orders", 0)
    assert desk.context.offsets.query("G1", "Orders", 0) == 1


def test_a_new_group_commits_its_start_only_in_mode_maximum(desk, offsets) -> None:
    assert offsets.next_offset(KEY, INIT_MIN) == 0
    assert desk.context.offsets.query("G1", "Orders", 0) == -1
    assert offsets.next_offset(KEY, INIT_MAX) == 0
    assert desk.context.offsets.query("G1", "Orders", 0) == 0


def test_a_look_changes_nothing(desk, offsets) -> None:
    assert offsets.peek_offset(KEY) == 0
    desk.context.offsets.reset("G1", "Orders", 0, 3)
    assert offsets.peek_offset(KEY) == 3
    assert desk.context.offsets.reset_pending("G1", "Orders", 0)


def test_the_rest_is_counted_to_the_end(offsets) -> None:
    assert offsets.rest(KEY, 2) == 3
    assert offsets.rest(("Unknown", "G1", 0), 0) == 0
