import os
import signal
import threading

import pytest

from mqadmin.traffic.stop import StopSignal


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_recorded_and_the_second_one_raises(number: int) -> None:
    with StopSignal() as stop:
        os.kill(os.getpid(), number)
        assert stop.requested
        assert stop.number == number
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_raises_where_nothing_has_happened_yet() -> None:
    with StopSignal() as stop, pytest.raises(KeyboardInterrupt), stop.interruptible():
        os.kill(os.getpid(), signal.SIGINT)
    assert stop.number == signal.SIGINT


def test_an_earlier_signal_raises_on_entry() -> None:
    stop = StopSignal()
    stop.request()
    with pytest.raises(KeyboardInterrupt), stop.interruptible():
        pytest.fail("must not run")


def test_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with StopSignal():
        assert signal.getsignal(signal.SIGINT) != before[0]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_requested_stop_has_the_number_of_an_interrupt() -> None:
    stop = StopSignal()
    assert (stop.requested, stop.number) == (False, 0)
    stop.request()
    assert stop.requested
    assert stop.number


def test_without_a_signal_an_interruptible_call_runs_to_its_end() -> None:
    done = []
    with StopSignal() as stop:
        with stop.interruptible():
            done.append(1)
        os.kill(os.getpid(), signal.SIGTERM)
        done.append(2)
    assert done == [1, 2]
    assert stop.number == signal.SIGTERM


def test_after_an_interruptible_call_a_signal_is_only_recorded() -> None:
    with StopSignal() as stop:
        with stop.interruptible():
            pass
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested


def test_the_first_number_is_kept_when_the_second_signal_is_another() -> None:
    with StopSignal() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert stop.number == signal.SIGTERM


def test_handlers_are_restored_after_an_error() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(ValueError, match="mine"), StopSignal():
        raise ValueError("mine")
    assert signal.getsignal(signal.SIGTERM) == before


def test_in_another_thread_signals_are_left_alone_and_a_request_works() -> None:
    before = signal.getsignal(signal.SIGINT)
    found = []

    def run() -> None:
        with StopSignal() as stop:
            found.append(signal.getsignal(signal.SIGINT) == before)
            stop.request()
            found.append(stop.requested)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [True, True]
