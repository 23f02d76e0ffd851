"""Measured runs: a disturbed one is repeated a bounded number of times, then kept as disturbed.

A ratio is the median of the ratios of pairs, one run of each broker taken in turn. It exists only
with at least three pairs, and only if no run of them was disturbed or counted errors.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from comparison.machine import MachineState

ATTEMPTS = 3
MIN_PAIRS = 3
REFERENCE = "java"

Figures = dict[str, float]


class StateWatch(Protocol):
    """Measures the state of the machine during a run."""

    def start(self) -> None: ...
    def stop(self) -> MachineState: ...
    def wait_quiet(self, limit_s: float) -> None: ...


@dataclass(frozen=True)
class Run:
    """Figures of one run, the machine's state during it, and the number of the attempt."""

    figures: Figures
    state: MachineState
    attempt: int = 1

    @property
    def errors(self) -> int:
        """Requests that failed."""
        return int(self.figures.get("errors", 0))


def measure(
    work: Callable[[], Figures],
    watch: StateWatch,
    *,
    attempts: int = ATTEMPTS,
    quiet_s: float = 10.0,
) -> Run:
    """Run ``work``, again while it was disturbed, at most ``attempts`` times; the last run.

    Before each repetition it waits at most ``quiet_s`` for a quiet machine.
    """
    for attempt in range(1, attempts + 1):
        if attempt > 1:
            watch.wait_quiet(quiet_s)
        watch.start()
        figures = work()
        run = Run(figures, watch.stop(), attempt)
        if not run.state.disturbed:
            break
    return run


@dataclass
class Row:
    """One workload: the runs of each target, in the order of the pairs."""

    workload: str
    runs: dict[str, list[Run]] = field(default_factory=dict)

    def add(self, target: str, run: Run) -> None:
        """Append the run of the next pair."""
        self.runs.setdefault(target, []).append(run)

    def median(self, target: str, figure: str) -> float | None:
        """Median over the pairs; None if the target was not measured or lacks the figure."""
        values = [run.figures[figure] for run in self.runs.get(target, []) if figure in run.figures]
        return statistics.median(values) if values else None

    def refusal(self, target: str, reference: str = REFERENCE) -> str:
        """Reason why there is no ratio; empty if there is one."""
        own, others = self.runs.get(target, []), self.runs.get(reference, [])
        if not own or not others:
            return "-"
        if any(run.errors for run in (*own, *others)):
            return "failed"
        if any(run.state.disturbed for run in (*own, *others)):
            return "disturbed"
        return "" if min(len(own), len(others)) >= MIN_PAIRS else "too few pairs"

    def ratio(self, target: str, figure: str, reference: str = REFERENCE) -> float | None:
        """Median of the ratios of the pairs; None if it is refused or the figure is missing."""
        if self.refusal(target, reference):
            return None
        pairs = zip(self.runs[target], self.runs[reference], strict=False)
        ratios = [
            own.figures[figure] / other.figures[figure]
            for own, other in pairs
            if figure in own.figures and other.figures.get(figure)
        ]
        return statistics.median(ratios) if len(ratios) >= MIN_PAIRS else None

    def worst_state(self) -> MachineState:
        """The highest values of all runs."""
        states = [run.state for runs in self.runs.values() for run in runs]
        return MachineState(*(max(column) for column in zip(*states, strict=True)))
