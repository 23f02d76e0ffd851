"""WakeSignal: level-triggered, consumed by one wait."""

import threading

from broker.store.flushing.wake_signal import WakeSignal

WAIT = 20  # seconds; only a broken test waits so long


def test_a_signal_set_before_the_wait_ends_it_once():
    signal = WakeSignal()
    signal.set()
    signal.set()
    assert signal.wait(0)
    assert not signal.wait(0)


def test_a_wait_without_signal_ends_at_its_timeout():
    assert not WakeSignal().wait(0.001)


def test_each_signal_reaches_the_waiting_thread():
    signal, answer = WakeSignal(), WakeSignal()
    rounds = []

    def serve():
        while signal.wait(WAIT) and len(rounds) < 100:
            rounds.append(1)
            answer.set()

    thread = threading.Thread(target=serve)
    thread.start()
    for _ in range(100):
        signal.set()
        assert answer.wait(WAIT)
    signal.set()
    thread.join(WAIT)
    assert len(rounds) == 100


def test_signals_of_many_threads_do_not_fail():
    signal = WakeSignal()
    setters = [
        threading.Thread(target=lambda: [signal.set() for _ in range(500)]) for _ in range(4)
    ]
    for thread in setters:
        thread.start()
    while any(thread.is_alive() for thread in setters):
        signal.wait(0.001)
    for thread in setters:
        thread.join()
    signal.set()
    assert signal.wait(0)
