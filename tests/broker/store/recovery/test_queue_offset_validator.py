"""Queue offsets that cannot be a record's own are found by the records around it."""

import pytest

from broker.store.consumequeue.consume_queue import ConsumeQueue, Topic
from broker.store.logfile.disk import Disk
from broker.store.logfile.mapped_file import MappedFileQueue
from broker.store.recovery.queue_offset_validator import QueueOffsetValidator


@pytest.fixture
def taken():
    return []


@pytest.fixture
def queue(tmp_path):
    files = MappedFileQueue(Disk(), str(tmp_path), 400)
    return ConsumeQueue(Topic("T"), 0, files, lambda queue: None)


@pytest.fixture
def offer(taken, queue):
    """``offer(physical, offset)``; ``taken`` lists the accepted (physical, place, right)."""

    def place(entry, code):
        taken.append((entry[0], entry[4], True))
        queue.max_physical_offset = entry[0] + entry[1]

    def misplaced(entry, code, queue_offset):
        taken.append((entry[0], queue_offset, False))

    order = QueueOffsetValidator(place, misplaced)

    def offer(physical, offset):
        order.offer((physical, 100, 0, 0, offset, queue, b"", None), 7)

    offer.finish = order.finish
    return offer


def test_consecutive_offsets_are_accepted_at_once(offer, taken):
    for number in range(4):
        offer(number * 100, number)
    assert taken == [(number * 100, number, True) for number in range(4)]


@pytest.mark.parametrize("wrong", [2, 4, 7, 0x0500000000000003, -1])
def test_a_record_passed_over_by_the_next_one_has_a_wrong_offset(offer, taken, wrong):
    for physical, offset in ((0, 0), (100, 1), (200, 2), (300, wrong), (400, 4), (500, 5)):
        offer(physical, offset)
    assert taken[3:] == [(300, 3, False), (400, 4, True), (500, 5, True)]


def test_a_jump_that_continues_is_accepted(offer, taken):
    """What lay between was lost with a damaged part of the log."""
    for physical, offset in ((0, 0), (5000, 9), (5100, 10)):
        offer(physical, offset)
    assert taken == [(0, 0, True), (5000, 9, True), (5100, 10, True)]


def test_a_topic_may_restart_at_offset_0(offer, taken):
    for physical, offset in ((0, 6), (100, 7), (200, 0), (300, 1)):
        offer(physical, offset)
    assert all(right for _, _, right in taken)


@pytest.mark.parametrize(("lost", "right"), [(True, True), (False, False)])
def test_at_the_end_a_jump_is_real_only_if_something_was_lost(offer, taken, lost, right):
    offer(0, 0)
    offer(1000, 4)
    offer.finish(something_lost=lost)
    assert taken[-1] == (1000, 4 if right else 1, right)


@pytest.mark.parametrize(("log_min", "right"), [(1000, True), (301, True), (300, False)])
def test_records_cleaned_away_count_as_lost(offer, taken, queue, log_min, right):
    """The queue's last unit refers to a deleted part of the log, which may have contained more."""
    for number in range(3):
        queue.append(number, number * 100, 100, 7)
    offer(1000, 4)
    offer.finish(something_lost=False, log_min=log_min)
    assert taken == [(1000, 4 if right else 3, right)]


def test_a_jump_needs_space_for_the_lost_records(offer, taken):
    offer(0, 0)
    offer(1000, 400)
    offer.finish(something_lost=True)
    assert taken[-1] == (1000, 1, False)


def test_a_queue_returns_its_next_offset(offer, taken, queue):
    for number in range(3):
        queue.append(number, number * 100, 100, 7)
    offer(300, 9)
    offer(400, 4)
    assert taken == [(300, 3, False), (400, 4, True)]
