"""The background thread: jobs in order, timers, errors, an end."""

import threading

from broker.store.worker import Worker

WAIT = 20


def test_jobs_run_in_order():
    worker, done, seen = Worker("t", lambda error: None), threading.Event(), []
    for n in range(5):
        worker.run(lambda n=n: seen.append(n))
    worker.start()
    worker.run(done.set)
    assert done.wait(WAIT)
    assert seen == [0, 1, 2, 3, 4]
    worker.stop()


def test_timers_run_when_due():
    worker, done, seen = Worker("t", lambda error: None), threading.Event(), []
    worker.start()
    worker.run_later(30, lambda: (seen.append("late"), done.set()))
    worker.run_later(1, lambda: seen.append("early"))
    assert done.wait(WAIT)
    assert seen == ["early", "late"]
    worker.stop()


def test_an_error_is_reported_and_the_thread_goes_on():
    errors, done = [], threading.Event()
    worker = Worker("t", errors.append)
    worker.start()
    worker.run(lambda: 1 / 0)
    worker.run(done.set)
    assert done.wait(WAIT)
    assert isinstance(errors[0], ZeroDivisionError)
    worker.stop()


def test_stop_leaves_what_is_not_due():
    worker, seen = Worker("t", lambda error: None), []
    worker.start()
    worker.run_later(3_600_000, lambda: seen.append(1))
    worker.drain()
    worker.stop()
    worker.stop()
    assert seen == []
    worker.drain()
