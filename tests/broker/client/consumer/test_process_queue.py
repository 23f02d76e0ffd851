"""Process queues: the commit point, orderly batches, expiry, against simple models."""

from random import Random

from broker.client.consumer.process_queue import (
    HEAP_SLACK,
    LOCK_MAX_LIVE_MS,
    PULL_MAX_IDLE_MS,
    ProcessQueue,
    StartMark,
)
from broker.message.message import MessageExt


def messages(*offsets: int, size: int = 10) -> list[MessageExt]:
    return [MessageExt("T", b"x" * size, queue_offset=offset) for offset in offsets]


def test_the_commit_point_is_the_first_unfinished_offset(rng: Random) -> None:
    """Model: a sorted list of unfinished offsets and the largest ever added."""
    for _ in range(30):
        queue, cached, largest, offset = ProcessQueue(0), dict[int, MessageExt](), -1, 100
        for _ in range(300):
            if rng.random() < 0.4:
                batch = messages(*range(offset, offset + rng.randint(1, 32)))
                offset += len(batch) + rng.randrange(3)  # filtered messages leave gaps
                queue.put(batch)
                cached |= {one.queue_offset: one for one in batch}
                largest = max(cached | {largest: None})
            elif cached:
                chosen = rng.sample(sorted(cached), rng.randint(1, min(5, len(cached))))
                committed = queue.remove([cached.pop(one) for one in chosen])
                assert committed == (min(cached) if cached else largest + 1)
            assert queue.count == len(cached)
            assert queue.size_bytes == 10 * len(cached)
            assert queue.min_offset == min(cached, default=None)
            assert queue.last_offset == max(cached, default=None)
            assert queue.max_span() == (max(cached) - min(cached) if cached else 0)


def test_finishing_with_an_empty_queue_commits_nothing() -> None:
    assert ProcessQueue(0).remove(messages(1)) == -1


def test_a_message_pulled_twice_is_counted_once() -> None:
    queue = ProcessQueue(0)
    queue.put(messages(1, 2))
    queue.put(messages(2, 3))
    assert (queue.count, queue.size_bytes) == (3, 30)


def test_finished_offsets_do_not_stay_in_memory() -> None:
    queue = ProcessQueue(0)
    for offset in range(10_000):
        batch = messages(offset)
        queue.put(batch)
        queue.remove(batch)
    assert len(queue.heap) <= HEAP_SLACK + 2
    assert len(queue.reverse_heap) <= HEAP_SLACK + 2


def test_orderly_batches_follow_the_model(rng: Random) -> None:
    """Model: a list of waiting offsets and a list of taken ones."""
    for _ in range(30):
        queue, waiting, taken, offset = ProcessQueue(0), list[int](), list[int](), 0
        for _ in range(200):
            action = rng.choice(["put", "take", "commit", "rollback"])
            if action == "put":
                count = rng.randint(1, 8)
                queue.put(messages(*range(offset, offset + count)))
                waiting += range(offset, offset + count)
                offset += count
            elif action == "take" and not taken:
                count = rng.randint(1, 5)
                batch = queue.take(count, 0)
                assert [one.queue_offset for one in batch] == waiting[:count]
                taken, waiting = waiting[:count], waiting[count:]
            elif action == "commit":
                assert queue.commit() == (taken[-1] + 1 if taken else -1)
                taken = []
            elif action == "rollback":
                queue.rollback()
                waiting, taken = sorted(taken + waiting), []
            assert queue.count == len(waiting) + len(taken)
            assert queue.size_bytes == 10 * queue.count


def test_an_empty_take_ends_the_consumption() -> None:
    queue = ProcessQueue(0)
    queue.consuming = True
    queue.put(messages(1))
    assert len(queue.take(5, 7)) == 1
    assert queue.consuming
    assert queue.take(5, 8) == []
    assert not queue.consuming
    assert queue.last_consume_ms == 8


def test_the_time_out_counts_from_the_call_of_the_listener_not_from_the_pull() -> None:
    queue, mark = ProcessQueue(0), StartMark()
    batch = messages(5)
    queue.put(batch)
    queue.begin(batch, mark)
    assert queue.expired_head(1_000_000, 100) is None  # waits for a thread
    mark.ms = 1_000_000
    assert queue.expired_head(1_000_100, 100) is None
    expired = queue.expired_head(1_000_101, 100)
    assert expired is not None
    assert expired.queue_offset == 5
    queue.remove(batch)
    assert queue.expired_head(2_000_000, 100) is None


def test_pulls_and_locks_expire() -> None:
    queue = ProcessQueue(50)
    assert not queue.is_pull_expired(50 + PULL_MAX_IDLE_MS)
    assert queue.is_pull_expired(51 + PULL_MAX_IDLE_MS)
    assert not queue.is_lock_expired(50 + LOCK_MAX_LIVE_MS)
    assert queue.is_lock_expired(51 + LOCK_MAX_LIVE_MS)


def test_clearing_drops_everything() -> None:
    queue = ProcessQueue(0)
    queue.put(messages(1, 2, 3))
    queue.take(1, 0)
    queue.clear()
    assert (queue.count, queue.size_bytes, queue.min_offset) == (0, 0, None)
