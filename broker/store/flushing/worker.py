"""Threads of the store: supervised threads, and the Worker, which runs background jobs.

Jobs run one after another: creating the next file ahead of time, flushing queues, full index files
and the checkpoint. Without jobs and timers the thread sleeps.

An error that ends a supervised thread is logged and reported; the store then refuses writes.

**Source:** replaces RocketMQ AllocateMappedFileService, FlushConsumeQueueService and the
checkpoint's timer.
"""

import heapq
import logging
import threading
import time
from collections.abc import Callable

from broker.common.thread_name import show_thread_name

_log = logging.getLogger(__name__)
Job = Callable[[], None]


def supervised_thread(
    name: str, run: Callable[[], None], on_died: Callable[[str], None]
) -> threading.Thread:
    """Create a daemon thread that calls ``on_died(reason)`` when ``run`` ends with an error."""

    def guarded() -> None:
        show_thread_name()
        try:
            run()
        except BaseException as error:
            _log.critical("thread %s died", name, exc_info=True)
            on_died(f"thread {name} died: {type(error).__name__}: {error}")

    return threading.Thread(target=guarded, name=name, daemon=True)


class Worker:
    """A thread with a queue of jobs and timers.

    Calls ``on_error(error)`` after an error in a job, ``on_died(reason)`` when the thread dies.
    """

    def __init__(
        self, name: str, on_error: Callable[[Exception], None], on_died: Callable[[str], None]
    ) -> None:
        self._on_error = on_error
        self._condition = threading.Condition()
        self._jobs: list[Job] = []
        self._timers: list[tuple[float, int, Job]] = []
        self._sequence = 0
        self._stopping = False
        self._thread = supervised_thread(name, self._run, on_died)
        self._started = False

    def start(self) -> None:
        """Start the thread; it runs jobs queued before this call too."""
        self._started = True
        self._thread.start()

    def run(self, job: Job) -> None:
        """Queue a job."""
        with self._condition:
            self._jobs.append(job)
            self._condition.notify()

    def run_later(self, delay_ms: float, job: Job) -> None:
        """Queue a job after ``delay_ms``."""
        with self._condition:
            self._sequence += 1
            due = time.monotonic() + delay_ms / 1000
            heapq.heappush(self._timers, (due, self._sequence, job))
            self._condition.notify()

    def stop(self) -> None:
        """Stop the thread after the running job; remaining jobs and timers are dropped."""
        with self._condition:
            self._stopping = True
            self._condition.notify()
        if self._started:
            self._thread.join()
            self._started = False

    def drain(self) -> None:
        """Wait until every job queued so far has run; timers are not awaited."""
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
                _log.warning("background work of the store failed: %s", error, exc_info=True)
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


class WorkerTimer:
    """A delayed job of a worker, pending at most once.

    Scheduling it while it is pending has no effect, so callers need no coordination.
    """

    def __init__(self, worker: Worker, job: Job) -> None:
        self._worker = worker
        self._job = job
        self._lock = threading.Lock()
        self._pending = False

    def schedule(self, delay_ms: float) -> None:
        """Run the job after ``delay_ms``, unless it is already pending."""
        with self._lock:
            if self._pending:
                return
            self._pending = True
        self._worker.run_later(delay_ms, self._run)

    def _run(self) -> None:
        with self._lock:
            self._pending = False
        self._job()
