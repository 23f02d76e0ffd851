"""A lane: the running and the queued requests of one request family.

Java gives each family of request codes a thread pool with a bounded queue. Here a lane counts
requests whose handler awaits. When the concurrency limit is reached, further requests of the
family wait in a bounded queue; those that wait too long are answered SYSTEM_BUSY.

**Source:** RocketMQ BrokerController#registerProcessor, BrokerFastFailure#cleanExpiredRequest;
NettyRemotingAbstract#processRequestCommand (queue full).
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from broker.remoting.limits import LaneLimits

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
