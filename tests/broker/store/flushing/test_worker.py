"""The background thread: jobs in order, timers, errors, an end."""

import threading

from broker.store.flushing.worker import Worker, WorkerTimer, supervised_thread

WAIT = 20


def test_jobs_run_in_order():
    worker, done, seen = Worker("t", lambda error: None, print), threading.Event(), []
    for n in range(5):
        worker.run(lambda n=n: seen.append(n))
    worker.start()
    worker.run(done.set)
    assert done.wait(WAIT)
    assert seen == [0, 1, 2, 3, 4]
    worker.stop()


def test_timers_run_when_due():
    worker, done, seen = Worker("t", lambda error: None, print), threading.Event(), []
    worker.start()
    worker.run_later(30, lambda: (seen.append("late"), done.set()))
    worker.run_later(1, lambda: seen.append("early"))
    assert done.wait(WAIT)
    assert seen == ["early", "late"]
    worker.stop()


def test_an_error_is_reported_and_the_thread_continues():
    errors, done = [], threading.Event()
    worker = Worker("t", errors.append, print)
    worker.start()
    worker.run(lambda: 1 / 0)
    worker.run(done.set)
    assert done.wait(WAIT)
    assert isinstance(errors[0], ZeroDivisionError)
    worker.stop()


def test_a_thread_that_dies_is_reported():
    reasons, died = [], threading.Event()

    def run() -> None:
        raise OverflowError("too large")

    def on_died(reason: str) -> None:
        reasons.append(reason)
        died.set()

    supervised_thread("t", run, on_died).start()
    assert died.wait(WAIT)
    assert reasons == ["thread t died: OverflowError: too large"]


def test_a_worker_that_dies_is_reported():
    reasons, died = [], threading.Event()

    def on_died(reason: str) -> None:
        reasons.append(reason)
        died.set()

    worker = Worker("t", print, on_died)
    worker.run_later(1e300, print)  # no time that a lock can wait for
    worker.start()
    assert died.wait(WAIT)
    assert "thread t died: OverflowError" in reasons[0]


def test_a_timer_is_pending_once():
    worker, ran, done = Worker("t", print, print), [], threading.Event()
    timer = WorkerTimer(worker, lambda: ran.append(1))
    for _ in range(5):
        timer.schedule(0)
    worker.start()
    worker.run_later(0, done.set)
    assert done.wait(WAIT)
    assert ran == [1]
    done.clear()
    timer.schedule(0)
    worker.run_later(0, done.set)
    assert done.wait(WAIT)
    assert ran == [1, 1]
    worker.stop()


def test_a_stop_leaves_messages_that_are_not_due():
    worker, seen = Worker("t", lambda error: None, print), []
    worker.start()
    worker.run_later(3_600_000, lambda: seen.append(1))
    worker.drain()
    worker.stop()
    worker.stop()
    assert seen == []
    worker.drain()
