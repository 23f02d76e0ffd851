"""When a due slot may be delivered."""

import random

from broker.store.timer.enqueue_barrier import LONGEST_WAIT_MS, EnqueueBarrier


def test_a_queue_without_pending_messages_delays_no_slot() -> None:
    barrier = EnqueueBarrier()
    assert barrier.is_passed(1_000, 1_500, 1_500, 0, 0)
    assert barrier.is_passed(2_000, 2_000, 2_000, 7, 7)


def test_messages_stored_before_the_end_come_first_and_later_ones_do_not() -> None:
    barrier = EnqueueBarrier()
    assert not barrier.is_passed(1_000, 1_010, 1_010, 3, 5)
    assert not barrier.is_passed(1_000, 1_020, 1_020, 4, 9)
    assert barrier.is_passed(1_000, 1_030, 1_030, 5, 20)
    assert barrier.is_passed(1_010, 1_030, 1_030, 5, 20)


def test_overdue_slots_need_one_wait_together() -> None:
    barrier = EnqueueBarrier()
    assert not barrier.is_passed(1_000, 90_000, 90_000, 0, 5)
    assert all(barrier.is_passed(end, 90_100, 90_100, 5, 50) for end in range(1_000, 90_001, 1_000))
    assert not barrier.is_passed(90_050, 90_100, 90_100, 5, 50)


def test_rolled_messages_come_first_whenever_they_were_stored() -> None:
    barrier = EnqueueBarrier()
    assert barrier.is_passed(1_000, 9_000, 9_000, 5, 5)
    barrier.note_rolled(5)
    assert not barrier.is_passed(2_000, 9_000, 9_000, 5, 6)
    assert barrier.is_passed(2_000, 9_000, 9_000, 6, 6)


def test_times_of_a_clock_that_was_ahead_do_not_count() -> None:
    barrier = EnqueueBarrier()
    assert barrier.is_passed(50_000, 50_000, 50_000, 5, 5)
    barrier.note_clock_set_back()
    assert not barrier.is_passed(1_000, 1_000, 1_000, 5, 6)


def test_a_message_that_never_becomes_visible_delays_no_slot_for_ever() -> None:
    barrier = EnqueueBarrier()
    barrier.note_rolled(5)
    for monotonic_ms in (100, 200, 100 + LONGEST_WAIT_MS - 1):
        assert not barrier.is_passed(1_000, 90_000, monotonic_ms, 5, 7)
    assert barrier.is_passed(1_000, 90_000, 100 + LONGEST_WAIT_MS, 5, 7)
    assert barrier.is_passed(2_000, 90_000, 101 + LONGEST_WAIT_MS, 5, 7)
    assert barrier.is_passed(3_000, 90_000, 102 + LONGEST_WAIT_MS, 7, 7)
    assert not barrier.is_passed(90_010, 90_020, 103 + LONGEST_WAIT_MS, 7, 8)


def test_no_message_is_missed_in_any_order_of_events(rng: random.Random) -> None:
    """Messages stored before a slot's end are in the wheel when it is delivered."""
    passed = 0
    for _ in range(200):
        barrier = EnqueueBarrier()
        stored: list[int] = []
        enqueued = now_ms = 0
        for _ in range(100):
            now_ms += rng.choice((0, 0, 1, 30))
            step = rng.random()
            if step < 0.4:
                stored.append(now_ms)
            elif step < 0.7:
                enqueued = rng.randint(enqueued, len(stored))
            else:
                end_ms = rng.randint(max(0, now_ms - 40), now_ms)
                if barrier.is_passed(end_ms, now_ms, now_ms, enqueued, len(stored)):
                    passed += 1
                    assert all(time_ms >= end_ms for time_ms in stored[enqueued:])
    assert passed > 200
