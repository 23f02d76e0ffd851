"""A lane: the running and the queued requests of one request family; the share of all lanes.

Java gives each family of request codes a thread pool with a bounded queue. Here a lane counts
requests whose handler awaits. When the concurrency limit is reached, further requests of the
family wait in a bounded queue; those that wait too long are answered SYSTEM_BUSY.

**Source:** RocketMQ BrokerController#registerProcessor, BrokerFastFailure#cleanExpiredRequest;
NettyRemotingAbstract#processRequestCommand (queue full).
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from broker.remoting.limits import (
    LOOP_WAITED_S,
    SERVE_ITERATION_S,
    SERVE_SLICE_S,
    UNWRITTEN_BYTES,
    WRITES_AT_ONCE,
    LaneLimits,
)

Job = TypeVar("Job")


class Lane(Generic[Job]):
    """Bounded concurrency, a bounded queue and an age limit for one request family.

    The owner starts a job immediately while the queue is empty and ``running`` is below the limit,
    else it calls ``enqueue``. After a job has ended it takes jobs to start from ``next_job``.
    ``expire`` drops jobs that waited too long. ``rejecting`` is the reason why no request of the
    family is served at present, or empty.
    """

    __slots__ = ("expired", "limits", "name", "overloaded", "queue", "rejecting", "running")

    def __init__(self, name: str, limits: LaneLimits) -> None:
        self.name = name
        self.limits = limits
        self.running = 0
        self.queue: deque[tuple[float, Job]] = deque()
        self.overloaded = 0
        self.expired = 0
        self.rejecting = ""

    def enqueue(self, job: Job, now_ms: float) -> bool:
        """Queue ``job``; False when the queue is full (counted in ``overloaded``)."""
        if len(self.queue) >= self.limits.queue_limit:
            self.overloaded += 1
            return False
        self.queue.append((now_ms, job))
        return True

    def next_job(self) -> Job | None:
        """Remove and return the oldest queued job if it may start now, else None."""
        if self.queue and self.running < self.limits.concurrency:
            return self.queue.popleft()[1]
        return None

    def expire(self, now_ms: float, drop: Callable[[Job, float], None]) -> None:
        """Remove each job that waited for ``wait_ms`` and call ``drop(job, waited_ms)``."""
        limit = self.limits.wait_ms
        if limit <= 0:
            return
        queue = self.queue
        while queue and now_ms - queue[0][0] >= limit:
            queued_ms, job = queue.popleft()
            self.expired += 1
            drop(job, now_ms - queued_ms)

    def next_deadline_ms(self) -> float | None:
        """Return the clock time (ms) at which the oldest queued job expires; None if never."""
        if not self.queue or self.limits.wait_ms <= 0:
            return None
        return self.queue[0][0] + self.limits.wait_ms


class Waiting(Protocol):
    """A connection with requests that wait for their turn, or responses to write."""

    def end_yield(self) -> None:
        """Continue to serve the requests."""
        ...

    def flush(self) -> None:
        """Pass the responses to the transport."""
        ...

    def fail(self, error: Exception) -> None:
        """Close the connection after an unexpected error."""
        ...


class ServingShare:
    """The part of each event-loop iteration in which requests are served, for all connections.

    A connection serves for one slice. When the share of an iteration is used up, connections wait
    here and continue in the next iterations, first come, first served: however many peers are
    active, an iteration takes no longer than the share, the last request of one peer, and the
    writes of the responses.

    ``before_write`` is called before each write to a peer: it completes the work that the
    responses confirm.

    Responses are written when the iteration's requests are served, or when they have
    UNWRITTEN_BYTES, one connection after the other: a write wakes the peer, which costs as much as
    serving a request, and a peer that is awake needs no other wake-up. Those of an iteration that
    answered several direct requests (``direct``) wait for one more iteration, and are written
    together with those of the requests that have arrived meanwhile: half as many wake-ups. But not
    if the loop had to wait for the next request after such a write.
    """

    __slots__ = (
        "_at_once",
        "_call_soon",
        "_held",
        "_now_s",
        "_scheduled",
        "_unwritten",
        "_unwritten_bytes",
        "_waiting",
        "_written_s",
        "before_write",
        "direct",
        "ends_s",
        "frames",
        "iteration",
    )

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], now_s: Callable[[], float]
    ) -> None:
        self._call_soon = call_soon
        self._now_s = now_s
        self.before_write: Callable[[], object] = lambda: None
        self.frames = 0  # deferred requests of all connections
        self.iteration = 0  # iterations in which requests were served
        self.ends_s: float | None = None  # of this iteration's share, None before the first slice
        self._scheduled = False
        self._unwritten: list[Waiting] = []
        self._unwritten_bytes = 0
        self._waiting: deque[Waiting] = deque()
        self.direct = 0  # responses to direct requests that are not written
        self._held = False  # whether responses wait for one more iteration
        self._written_s = 0.0  # time of the last write of such responses, 0 if a request came since
        self._at_once = 0  # iterations in which no response waits

    def begin(self, now_s: float) -> float:
        """Return the time until which a slice that begins now may last; in the past: wait."""
        ends_s = self.ends_s
        if ends_s is None:
            if self._written_s:
                if now_s - self._written_s > LOOP_WAITED_S:
                    self._at_once = WRITES_AT_ONCE
                self._written_s = 0.0
            ends_s = self.ends_s = now_s + SERVE_ITERATION_S
            self._schedule()
        return min(ends_s, now_s + SERVE_SLICE_S)

    def wait(self, connection: Waiting) -> None:
        """Queue a connection that has frames left; its ``end_yield`` is called in its turn."""
        self._waiting.append(connection)
        self._schedule()

    def write(self, connection: Waiting, size: int) -> None:
        """Write queued responses of ``size`` bytes in this iteration, with those of other peers."""
        self._unwritten.append(connection)
        if not self._scheduled:
            self._schedule()
        self._unwritten_bytes += size
        if self._unwritten_bytes > UNWRITTEN_BYTES:
            self._write_all()

    def write_later(self, connection: Waiting) -> None:
        """Write queued frames at the end of this iteration."""
        self._unwritten.append(connection)
        self._schedule()

    @property
    def used_up(self) -> bool:
        """Whether nothing more may be served in this iteration."""
        return self.ends_s is not None and self._now_s() > self.ends_s

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._call_soon(self._next_iteration)

    def _next_iteration(self) -> None:
        self._scheduled = False
        self.ends_s = None
        self.iteration += 1
        if self.direct > 1 and not self._held and not self._at_once:
            self._held = True
            self._schedule()
        else:
            self._at_once = max(0, self._at_once - 1)
            self._write_all()
        waiting = self._waiting
        for _ in range(len(waiting)):
            waiting.popleft().end_yield()
            if self.used_up:
                break
        if waiting:
            self._schedule()

    def _write_all(self) -> None:
        unwritten, self._unwritten = self._unwritten, []
        self._unwritten_bytes = self.direct = 0
        for connection in unwritten:
            try:
                connection.flush()
            except Exception as error:  # closes this connection; the next ones are written
                connection.fail(error)
        if self._held:
            self._held = False
            self._written_s = self._now_s()
