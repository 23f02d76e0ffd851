"""Lanes: bounded concurrency, a bounded queue, an age limit."""

from collections.abc import Callable

from broker.remoting.lane import Lane, ServingShare
from broker.remoting.limits import LOOP_WAITED_S, UNWRITTEN_BYTES, WRITES_AT_ONCE, LaneLimits


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


class Writer:
    """A connection that notes in ``order`` that it wrote or served."""

    def __init__(self, name: str, order: list[str]) -> None:
        self.name = name
        self.order = order

    def flush(self) -> None:
        if self.name == "broken":
            raise ValueError("no transport")
        self.order.append(f"{self.name} wrote")

    def fail(self, error: Exception) -> None:
        self.order.append(f"{self.name} failed: {error}")

    def end_yield(self) -> None:
        self.order.append(f"{self.name} served")


def test_responses_are_written_at_the_end_of_the_iteration_before_all_else() -> None:
    calls: list[Callable[[], None]] = []
    order: list[str] = []
    share = ServingShare(calls.append, lambda: 0.0)
    share.begin(0.0)
    calls.append(lambda: order.append("dispatch"))
    share.write(Writer("a", order), UNWRITTEN_BYTES // 2)
    share.wait(Writer("b", order))
    share.write(Writer("c", order), UNWRITTEN_BYTES // 2)
    assert not order
    for call in calls:
        call()
    assert order == ["a wrote", "c wrote", "b served", "dispatch"]
    assert len(calls) == 2


def test_responses_are_written_before_the_end_of_the_iteration_when_they_are_large() -> None:
    calls: list[Callable[[], None]] = []
    order: list[str] = []
    share = ServingShare(calls.append, lambda: 0.0)
    share.begin(0.0)
    share.write(Writer("a", order), UNWRITTEN_BYTES)
    assert order == []
    share.write(Writer("b", order), 1)
    assert order == ["a wrote", "b wrote"]
    share.write(Writer("c", order), UNWRITTEN_BYTES)
    assert order == ["a wrote", "b wrote"]
    for call in calls:
        call()
    assert order == ["a wrote", "b wrote", "c wrote"]


class Iterations:
    """The iterations of a loop in which peers ask direct requests; a clock that is set."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.order: list[str] = []
        self.now_s = 1.0
        self.share = ServingShare(self.calls.append, lambda: self.now_s)

    def run(self, names: str, size: int = 1) -> str:
        """Answer these peers in one iteration; return those written to at its end."""
        if names:
            self.share.begin(self.now_s)
        for name in names:
            self.share.direct += 1
            self.share.write(Writer(name, self.order), size)
        due, self.calls[:] = self.calls.copy(), []
        for call in due:
            call()
        written = "".join(text[0] for text in self.order)
        self.order.clear()
        return written


def test_responses_to_direct_requests_are_written_after_one_more_iteration() -> None:
    loop = Iterations()
    assert [loop.run(names) for names in ("ab", "cd", "ab", "", "")] == ["", "abcd", "", "ab", ""]
    assert not loop.calls


def test_the_response_to_one_direct_request_is_written_at_once() -> None:
    loop = Iterations()
    assert [loop.run(names) for names in ("a", "b", "a")] == ["a", "b", "a"]


def test_large_responses_to_direct_requests_are_written_as_all_others() -> None:
    loop = Iterations()
    assert [loop.run(names, UNWRITTEN_BYTES // 2) for names in ("abc", "ab")] == ["abc", ""]
    assert loop.run("c", UNWRITTEN_BYTES // 2) == "abc"
    assert loop.run("ab", 1) == ""


def test_no_response_waits_after_the_loop_had_to_wait_for_a_request() -> None:
    loop = Iterations()
    assert [loop.run(names) for names in ("ab", "cd")] == ["", "abcd"]
    loop.now_s += LOOP_WAITED_S / 2
    assert [loop.run(names) for names in ("ab", "cd")] == ["", "abcd"]
    loop.now_s += LOOP_WAITED_S * 2
    assert [loop.run("ab") for _ in range(WRITES_AT_ONCE)] == ["ab"] * WRITES_AT_ONCE
    assert [loop.run(names) for names in ("ab", "cd")] == ["", "abcd"]


def test_frames_queued_outside_of_requests_are_written_once_in_the_next_iteration() -> None:
    calls: list[Callable[[], None]] = []
    order: list[str] = []
    share = ServingShare(calls.append, lambda: 0.0)
    for name in "ab":
        share.write_later(Writer(name, order))
    assert (len(calls), order) == (1, [])
    calls.pop()()
    assert order == ["a wrote", "b wrote"]
    share.write_later(Writer("c", order))
    calls.pop()()
    assert order == ["a wrote", "b wrote", "c wrote"]


def test_an_error_of_one_write_leaves_the_others() -> None:
    calls: list[Callable[[], None]] = []
    order: list[str] = []
    share = ServingShare(calls.append, lambda: 0.0)
    for name in ("a", "broken", "b"):
        share.write_later(Writer(name, order))
    share.wait(Writer("c", order))
    calls.pop()()
    assert order == ["a wrote", "broken failed: no transport", "b wrote", "c served"]
    assert not calls
