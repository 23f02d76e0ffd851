"""The state of the machine during a run: CPU time of other processes, and steal.

CPU time of other processes is the user and system time of the machine (``/proc/stat``) without that
of this program's process tree (brokers and load generator are its children) and of kernel threads,
which write back the data of the brokers. Both are percent of the machine's CPU time: 100 is all
processors during the whole run.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")
KERNEL_THREADS = 2  # process id of kthreadd, the parent of all kernel threads
DISTURBED_PCT = 10.0


class Snapshot(NamedTuple):
    """CPU seconds since the start of the machine, and since the start of this program (``own``)."""

    at: float
    busy: float
    steal: float
    own: float
    kernel: float


class MachineState(NamedTuple):
    """Percent of the machine's CPU time, and the load average of one minute."""

    other_pct: float
    steal_pct: float
    load: float

    @property
    def disturbed(self) -> bool:
        """Whether other processes, or other guests of the host, took more than 10 %."""
        return max(self.other_pct, self.steal_pct) > DISTURBED_PCT

    def __str__(self) -> str:
        return f"other {self.other_pct:.1f} % steal {self.steal_pct:.1f} % load {self.load:.1f}"


def state_between(before: Snapshot, after: Snapshot, processors: int, load: float) -> MachineState:
    """The state from ``before`` to ``after``."""
    capacity = max(after.at - before.at, 1e-9) * processors
    other = (after.busy - before.busy) - (after.own - before.own) - (after.kernel - before.kernel)
    steal = after.steal - before.steal
    return MachineState(max(0.0, other) / capacity * 100, steal / capacity * 100, load)


class Process(NamedTuple):
    """Parent, CPU seconds of the process, and those of its children that it has waited for."""

    parent: int
    seconds: float
    reaped: float


def read_processes(proc: Path = Path("/proc")) -> dict[int, Process]:
    """All processes by id; one that ends meanwhile is left out."""
    found = {}
    for folder in proc.iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            words = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        times = [int(word) / TICKS for word in words[11:15]]
        found[int(folder.name)] = Process(int(words[1]), sum(times[:2]), sum(times[2:]))
    return found


def tree_seconds(processes: dict[int, Process], root: int) -> float:
    """CPU seconds of a process and its descendants, ended ones included."""
    children: dict[int, list[int]] = {}
    for number, process in processes.items():
        children.setdefault(process.parent, []).append(number)
    total = 0.0
    pending = [root]
    while pending:
        number = pending.pop()
        pending += children.get(number, [])
        if number in processes:
            total += processes[number].seconds + processes[number].reaped
    return total


def take_snapshot(proc: Path = Path("/proc"), root: int | None = None) -> Snapshot:
    """Read ``/proc``; ``root``: this program's process id."""
    times = [int(word) / TICKS for word in (proc / "stat").read_text().split("\n")[0].split()[1:]]
    user, nice, system, steal = times[0], times[1], times[2], times[7]
    processes = read_processes(proc)
    kernel = sum(one.seconds for one in processes.values() if one.parent == KERNEL_THREADS)
    own = tree_seconds(processes, os.getpid() if root is None else root)
    return Snapshot(time.monotonic(), user + nice + system, steal, own, kernel)


class Watch:
    """Measures the state between :meth:`start` and :meth:`stop`."""

    def __init__(self) -> None:
        self._before = take_snapshot()

    def start(self) -> None:
        """Begin."""
        self._before = take_snapshot()

    def stop(self) -> MachineState:
        """End; return the state since :meth:`start`."""
        after = take_snapshot()
        return state_between(self._before, after, os.cpu_count() or 1, os.getloadavg()[0])

    def wait_quiet(self, limit_s: float, step_s: float = 0.5) -> None:
        """Wait until the machine is not disturbed for ``step_s``, at most ``limit_s``."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            self.start()
            time.sleep(step_s)
            if not self.stop().disturbed:
                return
