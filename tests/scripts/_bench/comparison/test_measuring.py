"""scripts/bench: disturbed runs are repeated, and their ratios refused."""

from collections.abc import Iterator

import pytest

from tests.support.bench_modules import bench_module

machine = bench_module("comparison.machine")
measuring = bench_module("comparison.measuring")
QUIET = machine.MachineState(1.0, 0.0, 0.1)
BUSY = machine.MachineState(30.0, 0.0, 2.0)
STOLEN = machine.MachineState(1.0, 30.0, 2.0)


class FakeWatch:
    """Returns prepared states, and counts the waits for a quiet machine."""

    def __init__(self, *states) -> None:
        self._states: Iterator = iter(states)
        self.waits: list[float] = []

    def start(self) -> None:
        pass

    def stop(self):
        return next(self._states)

    def wait_quiet(self, limit_s: float) -> None:
        self.waits.append(limit_s)


def work_of(*rates: float):
    numbers = iter(rates)
    return lambda: {"msgs_per_s": next(numbers)}


def run(rate: float, state=QUIET, **figures: float):
    return measuring.Run({"msgs_per_s": rate, **figures}, state)


def row_of(java: list, plain: list):
    return measuring.Row("send.async.1x1", {"java": java, "plain": plain})


def test_a_quiet_run_is_measured_once() -> None:
    watch = FakeWatch(QUIET)
    found = measuring.measure(work_of(5.0), watch)
    assert (found.figures, found.state, found.attempt) == ({"msgs_per_s": 5.0}, QUIET, 1)
    assert watch.waits == []


@pytest.mark.parametrize("state", [BUSY, STOLEN])
def test_a_disturbed_run_is_repeated_after_a_wait_for_a_quiet_machine(state) -> None:
    watch = FakeWatch(state, QUIET)
    found = measuring.measure(work_of(1.0, 5.0), watch, quiet_s=7.0)
    assert found.figures == {"msgs_per_s": 5.0}
    assert found.attempt == 2
    assert watch.waits == [7.0]


def test_repetition_ends_after_three_attempts_and_the_run_stays_disturbed() -> None:
    watch = FakeWatch(BUSY, BUSY, BUSY, QUIET)
    found = measuring.measure(work_of(1.0, 2.0, 3.0, 4.0), watch)
    assert found.figures == {"msgs_per_s": 3.0}
    assert found.state.disturbed
    assert found.attempt == 3


def test_a_ratio_is_the_median_of_the_pairs() -> None:
    row = row_of([run(10), run(20), run(10)], [run(10), run(60), run(20)])
    assert row.refusal("plain") == ""
    assert row.ratio("plain", "msgs_per_s") == 2.0
    assert row.median("plain", "msgs_per_s") == 20


@pytest.mark.parametrize("disturbed", ["java", "plain"])
def test_one_disturbed_run_refuses_the_ratio(disturbed: str) -> None:
    row = row_of([run(10)] * 3, [run(20)] * 3)
    row.runs[disturbed][1:2] = [run(10, BUSY)]
    assert row.refusal("plain") == "disturbed"
    assert row.ratio("plain", "msgs_per_s") is None


def test_fewer_than_three_pairs_have_no_ratio() -> None:
    row = row_of([run(10)] * 3, [run(20)] * 2)
    assert row.refusal("plain") == "too few pairs"
    assert row.ratio("plain", "msgs_per_s") is None


def test_failed_requests_refuse_the_ratio() -> None:
    row = row_of([run(10)] * 3, [run(20), run(20), run(20, errors=1.0)])
    assert row.refusal("plain") == "failed"
    assert row.ratio("plain", "msgs_per_s") is None


def test_a_broker_that_was_not_measured_has_a_dash() -> None:
    row = row_of([], [run(20)] * 3)
    assert row.refusal("plain") == "-"
    assert row.refusal("fast") == "-"
    assert row.median("fast", "msgs_per_s") is None


def test_the_state_of_a_row_is_the_worst_of_its_runs() -> None:
    row = row_of([run(10, STOLEN)], [run(20, BUSY)])
    assert row.worst_state() == machine.MachineState(30.0, 30.0, 2.0)
