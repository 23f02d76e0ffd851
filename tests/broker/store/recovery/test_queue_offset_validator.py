"""Queue offsets that cannot be a record's own are found by the records around it."""

import pytest

from broker.common.sysflag import INNER_BATCH
from broker.store.consumequeue.consume_queue import ConsumeQueue, Topic
from broker.store.dispatch.request import DispatchRequest
from broker.store.logfile.disk import Disk
from broker.store.logfile.mapped_file import MappedFileQueue
from broker.store.recovery.queue_offset_validator import MAX_SEARCHES, QueueOffsetValidator


@pytest.fixture
def taken():
    return []


@pytest.fixture
def queue(tmp_path):
    files = MappedFileQueue(Disk(), str(tmp_path), 400)
    return ConsumeQueue(Topic("T"), 0, files, lambda queue: None)


@pytest.fixture
def accept(taken, queue):
    """``accept(physical, offset)``; ``taken`` gets (physical, queue offset, valid) of each."""

    def append(request, code):
        taken.append((request.physical_offset, request.queue_offset, True))
        queue.max_physical_offset = request.physical_end

    def mismatched(request, code, queue_offset):
        taken.append((request.physical_offset, queue_offset, False))

    validator = QueueOffsetValidator(append, mismatched)

    def accept(physical, offset):
        validator.accept(DispatchRequest(physical, 100, 0, 0, offset, queue, b"", None), 7)

    accept.finish = validator.finish
    return accept


def test_consecutive_offsets_are_accepted_at_once(accept, taken):
    for number in range(4):
        accept(number * 100, number)
    assert taken == [(number * 100, number, True) for number in range(4)]


@pytest.mark.parametrize("wrong", [2, 4, 7, 0x0500000000000003, -1])
def test_a_record_passed_over_by_the_next_one_has_a_wrong_offset(accept, taken, wrong):
    for physical, offset in ((0, 0), (100, 1), (200, 2), (300, wrong), (400, 4), (500, 5)):
        accept(physical, offset)
    assert taken[3:] == [(300, 3, False), (400, 4, True), (500, 5, True)]


def test_a_jump_that_continues_is_accepted(accept, taken):
    """The messages between were lost with a damaged part of the log."""
    for physical, offset in ((0, 0), (5000, 9), (5100, 10)):
        accept(physical, offset)
    assert taken == [(0, 0, True), (5000, 9, True), (5100, 10, True)]


def test_a_topic_may_restart_at_offset_0(accept, taken):
    for physical, offset in ((0, 6), (100, 7), (200, 0), (300, 1)):
        accept(physical, offset)
    assert all(right for _, _, right in taken)


@pytest.mark.parametrize(("lost", "right"), [(True, True), (False, False)])
def test_at_the_end_a_jump_is_real_only_if_something_was_lost(accept, taken, lost, right):
    accept(0, 0)
    accept(1000, 4)
    accept.finish(something_lost=lost)
    assert taken[-1] == (1000, 4 if right else 1, right)


@pytest.mark.parametrize(("log_min", "right"), [(1000, True), (301, True), (300, False)])
def test_records_cleaned_away_count_as_lost(accept, taken, queue, log_min, right):
    """The queue's last unit refers to a deleted part of the log, which may have contained more."""
    for number in range(3):
        queue.append(number, number * 100, 100, 7)
    accept(1000, 4)
    accept.finish(something_lost=False, log_min=log_min)
    assert taken == [(1000, 4 if right else 3, right)]


def test_a_jump_needs_space_for_the_lost_records(accept, taken):
    accept(0, 0)
    accept(1000, 400)
    accept.finish(something_lost=True)
    assert taken[-1] == (1000, 1, False)


def test_a_queue_returns_its_next_offset(accept, taken, queue):
    for number in range(3):
        queue.append(number, number * 100, 100, 7)
    accept(300, 9)
    accept(400, 4)
    assert taken == [(300, 3, False), (400, 4, True)]


def test_a_record_with_its_unit_has_the_right_offset(accept, taken, queue):
    """A repaired store: the messages before it are lost, and filler units replace theirs."""
    queue.append(0, 0, 100, 7)
    for number in (1, 2, 3):
        queue.append(number, 1000, 100, 7)
    accept(0, 0)
    accept(1000, 3)
    accept.finish(something_lost=False)
    assert taken == [(0, 0, True), (1000, 3, True)]


@pytest.fixture
def with_units(queue):
    """``with_units(*physical)``: units of records of 100 bytes, written before the restart."""

    def write(*physical):
        for number, physical_offset in enumerate(physical):
            queue.append(number, physical_offset, 100, 7)

    return write


def test_a_unit_of_the_record_proves_a_jump_before_the_last_record(accept, taken, with_units):
    """Repair covers a lost message and lets its unit point to the next one."""
    with_units(0, 900, 900)
    accept(0, 0)
    accept(900, 2)
    accept.finish(something_lost=False)
    assert taken == [(0, 0, True), (900, 2, True)]


@pytest.mark.parametrize("wrong", [0, 3, 1 << 62, -1])
def test_a_unit_of_the_record_shows_its_offset(accept, taken, with_units, wrong):
    with_units(0, 100, 200)
    for physical, offset in ((0, 0), (100, wrong), (200, 2)):
        accept(physical, offset)
    assert taken == [(0, 0, True), (100, 1, False), (200, 2, True)]


def test_the_first_unit_shows_the_offset_of_the_first_record(accept, taken, with_units):
    with_units(0, 100)
    accept(0, 5)
    accept(100, 1)
    assert taken == [(0, 0, False), (100, 1, True)]


@pytest.mark.parametrize("wrong", [-1, 0, 2, 5, 99, 1 << 62])
def test_a_unit_shows_the_offset_of_the_first_record_read(accept, taken, with_units, wrong):
    """Recovery begins in the middle of the log: the queue has units of records before it."""
    with_units(0, 100, 200, 300, 400, 500)
    accept(400, wrong)
    accept(500, 5)
    assert taken == [(400, 4, False), (500, 5, True)]


@pytest.mark.parametrize("wrong", [-1, 2])
def test_the_first_record_read_does_not_go_before_units_of_earlier_records(
    accept, taken, with_units, wrong
):
    """Its own unit is missing; at its own queue offset it would drop units of records before it."""
    with_units(0, 100, 200, 300, 500)
    accept(400, wrong)
    accept(500, 5)
    assert taken == [(400, 4, False), (500, 5, True)]


@pytest.mark.parametrize("following", [(), (77,), (0,)])
def test_a_negative_offset_is_never_valid(accept, taken, following):
    """A queue would be emptied at it."""
    for number, offset in enumerate((0, 1, -1, *following)):
        accept(number * 100, offset)
    accept.finish(something_lost=True)
    assert taken[:3] == [(0, 0, True), (100, 1, True), (200, 2, False)]


def test_a_run_does_not_restart_a_queue_whose_unit_shows_another_offset(queue, with_units):
    with_units(0, 100, 200)
    validator = QueueOffsetValidator(lambda *_: None, lambda *_: None)
    assert validator.accept_run(queue, 0, 1, 0)
    assert not validator.accept_run(queue, 0, 1, 100)
    assert not validator.accept_run(queue, 0, 1, 300)
    assert validator.accept_run(queue, 1, 2, 100)


@pytest.mark.parametrize("wrong", [0x40000003, 1, -1])
@pytest.mark.parametrize("step", [3, 1])
def test_inner_batches_take_the_offsets_of_their_messages_in_batch_queues(
    taken, queue, wrong, step
):
    """A wrong one would truncate a BatchCQ queue at that offset, or empty it.

    The queue of timers has one offset for an inner batch that waits.
    """
    queue.topic.batch = step == 3
    validator = QueueOffsetValidator(
        lambda request, code: taken.append((request.queue_offset, True)),
        lambda request, code, offset: taken.append((offset, False)),
    )
    for number, offset in enumerate((0, step, wrong, 3 * step, 4 * step)):
        validator.accept(
            DispatchRequest(
                number * 300, 300, 0, INNER_BATCH, offset, queue, b"INNER_NUM\x013\x02", None
            ),
            7,
        )
    assert taken == [(number * step, number != 2) for number in range(5)]


@pytest.mark.parametrize("offset", [0, 1])
def test_a_record_whose_unit_is_in_another_queue_has_a_wrong_queue_id(
    accept, taken, queue, with_units, tmp_path, offset
):
    """With offset 0 it would restart the topic, and hide the messages of all its queues."""
    with_units(0, 100, 200)
    other = ConsumeQueue(
        queue.topic, 1, MappedFileQueue(Disk(), str(tmp_path / "1"), 400), lambda queue: None
    )
    for number, physical in enumerate((50, 150, 300)):
        other.append(number, physical, 100, 7)
    queue.topic.queues.update({0: queue, 1: other})
    accept(0, 0)
    with pytest.raises(ValueError, match="its unit is in queue 1"):
        accept(150, offset)
    accept(200, 2)
    assert taken[-1] == (200, 2, True)


def test_a_recreated_topic_with_many_queues_needs_few_searches(accept, queue, with_units, tmp_path):
    """Each of its old records has the queue offset of a new one, without a unit anywhere."""
    searched = []

    class Other(ConsumeQueue):
        @property
        def first_offset(self):
            searched.append(self)
            return super().first_offset

    with_units(*range(100_000, 120_000, 100))
    files = MappedFileQueue(Disk(), str(tmp_path / "1"), 400)
    queue.topic.queues.update({0: queue, 1: Other(queue.topic, 1, files, lambda queue: None)})
    for number in range(200):
        accept(number * 100, number)
    assert len(searched) == MAX_SEARCHES
