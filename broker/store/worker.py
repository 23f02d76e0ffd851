"""Worker: the store's second thread, for work that nobody waits for.

Jobs run one after another: making the next file ahead of time, flushing queues, full index files
and the checkpoint. Without jobs and timers the thread sleeps.

**Source:** stands for RocketMQ AllocateMappedFileService, FlushConsumeQueueService and the
checkpoint's timer.
"""

import heapq
import logging
import threading
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)
Job = Callable[[], None]


class Worker:
    """A thread with a queue of jobs and timers; an error in a job goes to ``on_error``."""

    def __init__(self, name: str, on_error: Callable[[Exception], None]) -> None:
        self._on_error = on_error
        self._condition = threading.Condition()
        self._jobs: list[Job] = []
        self._timers: list[tuple[float, int, Job]] = []
        self._sequence = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._started = False

    def start(self) -> None:
        """Start the thread; jobs given before wait for it."""
        self._started = True
        self._thread.start()

    def run(self, job: Job) -> None:
        """Run a job soon."""
        with self._condition:
            self._jobs.append(job)
            self._condition.notify()

    def run_later(self, delay_ms: float, job: Job) -> None:
        """Run a job after ``delay_ms``."""
        with self._condition:
            self._sequence += 1
            due = time.monotonic() + delay_ms / 1000
            heapq.heappush(self._timers, (due, self._sequence, job))
            self._condition.notify()

    def stop(self) -> None:
        """End the thread after the job it is at; jobs and timers that are left do not run."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        if self._started:
            self._thread.join()
            self._started = False

    def drain(self) -> None:
        """Wait until every job given so far has run (timers not); for tests and clean stops."""
        if not self._started:
            return
        done = threading.Event()
        self.run(done.set)
        done.wait()

    def _run(self) -> None:
        while True:
            job = self._next()
            if job is None:
                return
            try:
                job()
            except Exception as error:
                _log.warning("background work of the store failed: %s", error)
                self._on_error(error)

    def _next(self) -> Job | None:
        with self._condition:
            while not self._stopping:
                if self._jobs:
                    return self._jobs.pop(0)
                if self._timers:
                    wait = self._timers[0][0] - time.monotonic()
                    if wait <= 0:
                        return heapq.heappop(self._timers)[2]
                    self._condition.wait(wait)
                else:
                    self._condition.wait()
        return None
