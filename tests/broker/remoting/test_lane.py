"""Lanes: bounded concurrency, a bounded queue, an age limit."""

from broker.remoting.lane import Lane
from broker.remoting.limits import LaneLimits


def lane(concurrency: int = 1, queue_limit: int = 2, wait_ms: int = 200) -> Lane[str]:
    limits = LaneLimits(concurrency=concurrency, queue_limit=queue_limit, wait_ms=wait_ms)
    return Lane("send", limits)


def test_a_queued_job_starts_before_a_later_one() -> None:
    it = lane()
    it.running = 1
    assert it.enqueue("a", 0)
    assert it.enqueue("b", 0)
    assert it.next_job() is None
    it.running = 0
    assert it.next_job() == "a"


def test_the_queue_is_bounded_and_counts_refusals() -> None:
    it = lane()
    assert it.enqueue("a", 0)
    assert it.enqueue("b", 0)
    assert not it.enqueue("c", 0)
    assert not it.enqueue("d", 0)
    assert it.overloaded == 2


def test_jobs_begin_in_order_of_arrival_and_only_while_there_is_room() -> None:
    it = lane(queue_limit=9)
    for job in "abc":
        it.enqueue(job, 0)
    assert it.next_job() == "a"
    it.running = 1
    assert it.next_job() is None
    it.running = 0
    assert [it.next_job(), it.next_job(), it.next_job()] == ["b", "c", None]


def test_jobs_are_dropped_at_their_age_limit_oldest_first() -> None:
    it = lane(queue_limit=9)
    it.enqueue("a", 0)
    it.enqueue("b", 100)
    dropped: list[tuple[str, float]] = []
    it.expire(199, lambda job, waited_ms: dropped.append((job, waited_ms)))
    assert dropped == []
    it.expire(200, lambda job, waited_ms: dropped.append((job, waited_ms)))
    assert dropped == [("a", 200)]
    it.expire(1000, lambda job, waited_ms: dropped.append((job, waited_ms)))
    assert dropped == [("a", 200), ("b", 900)]
    assert it.expired == 2


def test_the_next_deadline_is_the_oldest_jobs() -> None:
    it = lane(queue_limit=9)
    assert it.next_deadline_ms() is None
    it.enqueue("a", 50)
    it.enqueue("b", 100)
    assert it.next_deadline_ms() == 250


def test_without_an_age_limit_nothing_expires() -> None:
    it = lane(wait_ms=0)
    it.enqueue("a", 0)
    it.expire(10**9, lambda *_: (_ for _ in ()).throw(AssertionError))
    assert it.next_deadline_ms() is None
    assert it.next_job() == "a"
