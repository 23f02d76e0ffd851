import os
import signal

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
