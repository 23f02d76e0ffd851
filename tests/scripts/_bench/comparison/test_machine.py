"""scripts/bench: CPU time of other processes and steal, from recorded files of /proc."""

from pathlib import Path

import pytest

from tests.support.bench_modules import bench_module

machine = bench_module("comparison.machine")
OWN, CHILD, OTHER, KERNEL = 100, 101, 200, 30


def write_proc(proc: Path, total: list[int], seconds: dict[int, tuple[int, int, int]]) -> None:
    """``total``: the fields of the cpu line, s; ``seconds``: id -> parent, CPU, CPU reaped."""
    ticks = machine.TICKS
    proc.mkdir(exist_ok=True)
    (proc / "stat").write_text("cpu  " + " ".join(str(one * ticks) for one in total) + "\nintr 0\n")
    for number, (parent, cpu, reaped) in seconds.items():
        (proc / str(number)).mkdir(exist_ok=True)
        words = ["S", parent, *[0] * 9, cpu * ticks, 0, reaped * ticks, 0, *[0] * 5]
        text = f"{number} (a) name) " + " ".join(map(str, words))
        (proc / str(number) / "stat").write_text(text)


def processes(own: int, reaped: int, child: int, other: int, kernel: int) -> dict:
    return {
        1: (0, 0, 0),
        OWN: (1, own, reaped),
        CHILD: (OWN, child, 0),
        OTHER: (1, other, 0),
        KERNEL: (2, kernel, 0),
    }


def state_of(tmp_path: Path, after: list[int], seconds: dict, wall_s: float = 10.0):
    write_proc(tmp_path / "p", [0] * 10, processes(0, 0, 0, 0, 0))
    before = machine.take_snapshot(tmp_path / "p", OWN)._replace(at=0.0)
    write_proc(tmp_path / "p", after, seconds)
    now = machine.take_snapshot(tmp_path / "p", OWN)._replace(at=wall_s)
    return machine.state_between(before, now, 2, 0.5)


def test_other_cpu_is_the_machines_without_own_processes_and_kernel_threads(tmp_path) -> None:
    seconds = processes(own=2, reaped=3, child=4, other=3, kernel=1)
    # user 5, nice 2, system 6: 13 s, of which 9 are ours and 1 the kernel's
    state = state_of(tmp_path, [5, 2, 6, 7, 0, 0, 0, 0, 0, 0], seconds)
    assert state.other_pct == pytest.approx(15.0)
    assert state.steal_pct == 0.0
    assert state.disturbed


def test_interrupts_and_waits_for_the_disk_are_not_cpu_of_processes(tmp_path) -> None:
    state = state_of(tmp_path, [0, 0, 0, 0, 9, 5, 6, 0, 0, 0], processes(0, 0, 0, 0, 0))
    assert state.other_pct == 0.0
    assert not state.disturbed


def test_steal_of_more_than_a_tenth_disturbs(tmp_path) -> None:
    idle = processes(0, 0, 0, 0, 0)
    state = state_of(tmp_path, [0, 0, 0, 0, 0, 0, 0, 3, 0, 0], idle)
    assert state.steal_pct == pytest.approx(15.0)
    assert state.disturbed


def test_a_tenth_of_the_machine_does_not_disturb_and_more_does(tmp_path) -> None:
    assert not machine.MachineState(10.0, 10.0, 0.0).disturbed
    assert machine.MachineState(10.1, 0.0, 0.0).disturbed
    assert machine.MachineState(0.0, 10.1, 0.0).disturbed


def test_a_child_that_was_waited_for_still_counts_as_own(tmp_path) -> None:
    write_proc(tmp_path / "p", [0] * 10, {1: (0, 0, 0), OWN: (1, 1, 6), CHILD: (OWN, 2, 1)})
    found = machine.read_processes(tmp_path / "p")
    assert machine.tree_seconds(found, OWN) == 10


def test_the_real_machine_can_be_read() -> None:
    before = machine.take_snapshot()
    after = machine.take_snapshot()
    assert after.busy >= before.busy > 0
    assert after.own >= before.own > 0
