"""A lane: the requests of one family that are under way, and those that wait for it.

Java gives each family of request codes a thread pool with a bounded queue. Here a lane counts
requests whose answer is awaited; when too many are, further ones wait in a bounded queue, and
those that waited too long are told so. Handlers that answer at once never enter the queue.

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

    The owner begins a job at once when ``free``; else it calls ``park``. ``leave`` says that a job
    has ended and returns the jobs that may begin now; ``expire`` returns jobs that waited too long.
    """

    __slots__ = ("expired", "limits", "name", "overloaded", "queue", "running")

    def __init__(self, name: str, limits: LaneLimits) -> None:
        self.name = name
        self.limits = limits
        self.running = 0
        self.queue: deque[tuple[float, Job]] = deque()
        self.overloaded = 0
        self.expired = 0

    @property
    def free(self) -> bool:
        """Whether a job may begin now without overtaking one that waits."""
        return not self.queue and self.running < self.limits.concurrency

    def park(self, job: Job, now_ms: float) -> bool:
        """Let ``job`` wait; False when the queue is full (and ``overloaded`` counts it)."""
        if len(self.queue) >= self.limits.queue_limit:
            self.overloaded += 1
            return False
        self.queue.append((now_ms, job))
        return True

    def next_job(self) -> Job | None:
        """Take the oldest waiting job if one may begin now, else None."""
        if self.queue and self.running < self.limits.concurrency:
            return self.queue.popleft()[1]
        return None

    def expire(self, now_ms: float, drop: Callable[[Job, float], None]) -> None:
        """Call ``drop(job, waited_ms)`` for each job that waited longer than the lane allows."""
        limit = self.limits.wait_ms
        if limit <= 0:
            return
        queue = self.queue
        while queue and now_ms - queue[0][0] >= limit:
            parked_ms, job = queue.popleft()
            self.expired += 1
            drop(job, now_ms - parked_ms)

    def next_deadline_ms(self) -> float | None:
        """Clock time (ms) at which the oldest waiting job has waited too long; None if never."""
        if not self.queue or self.limits.wait_ms <= 0:
            return None
        return self.queue[0][0] + self.limits.wait_ms
