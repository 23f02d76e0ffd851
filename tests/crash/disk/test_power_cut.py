"""Power is cut at every write and every sync of a scripted run; what was promised is there.

SYNC_FLUSH promises every acknowledged message. ASYNC_FLUSH promises what a completed flush
covered. A kill of the process (page cache intact) must cost neither anything at all. The long form
is ``scripts/torture power``.
"""

import os
import random
import time
from typing import Any

import pytest

RUNS = int(os.environ.get("TORTURE_RUNS", "1"))
STEPS = int(os.environ.get("TORTURE_STEPS", "36"))
# Each point of a run is cut once per share of unsynced sectors that happens to be kept.
KEEP = (0.0, 0.5, 1.0)

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120 + 120 * RUNS)]


def record(sim: Any, rng: random.Random, flush: str, steps: int) -> Any:
    disk = sim.Disk()
    script = sim.Script(disk, rng, flush)
    with sim.Tracer(disk):
        script.open()
        for _ in range(steps):
            script.step()
    return script


def attempt(sim: Any, script: Any, disk: Any, promise: Any, position: int, **options: Any) -> None:
    try:
        sim.survive(disk, script.config, promise, **options)
    except BaseException as error:
        error.add_note(f"cut at {position} of {len(script.disk.journal)}")
        raise


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("run", range(RUNS))
def test_what_was_promised_survives_a_power_cut_anywhere(
    sim: Any, rng: random.Random, flush: str, run: int, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    script = record(sim, rng, flush, STEPS)
    journal = script.disk.journal
    cutter = sim.Cutter(journal)
    cuts = 0
    for position in range(len(journal) + 1):
        cutter.advance(position)
        for keep in KEEP if RUNS > 1 else (KEEP[position % len(KEEP)],):
            promise = sim.Promise(cutter.marks, killed=False)
            disk = cutter.cut(rng, keep)
            attempt(sim, script, disk, promise, position, again=position % 4 == 0)
            cuts += 1
    if RUNS > 1:
        with capsys.disabled():
            acked = sum(entry[:2] == ("mark", "acked") for entry in journal)
            print(
                f"\n{flush}: {len(journal)} points, {cuts} cuts, {acked} acknowledged, 0 lost,"
                f" {time.monotonic() - began:.0f} s"
            )


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("run", range(RUNS))
def test_a_kill_between_any_two_lines_of_the_engine_costs_nothing(
    sim: Any, rng: random.Random, flush: str, run: int
) -> None:
    script = record(sim, rng, flush, STEPS)
    cutter = sim.Cutter(script.disk.journal)
    for position in range(len(script.disk.journal) + 1):
        cutter.advance(position)
        promise = sim.Promise(cutter.marks, killed=True)
        attempt(sim, script, cutter.killed(), promise, position, again=position % 4 == 0)


@pytest.mark.parametrize("run", range(RUNS))
def test_power_cut_during_the_recovery_from_a_power_cut(
    sim: Any, rng: random.Random, run: int
) -> None:
    script = record(sim, rng, "SYNC_FLUSH", STEPS)
    cutter = sim.Cutter(script.disk.journal)
    for position in sorted(rng.sample(range(1, len(script.disk.journal) + 1), 12)):
        cutter.advance(position)
        promise = sim.Promise(cutter.marks, killed=False)
        disk = cutter.cut(rng, 0.5)
        base = sim.Disk(disk.boot)
        base.folders = {path: dict(names) for path, names in disk.folders.items()}
        base.folder_ids = dict(disk.folder_ids)
        base.inodes = {
            number: type(inode)(number, bytes(inode.data)) for number, inode in disk.inodes.items()
        }
        with sim.Tracer(disk):
            store = sim.reopen(disk, script.config)
        store.shutdown()
        second = sim.Cutter(disk.journal, base)
        for place in range(0, len(disk.journal) + 1, 3):
            second.advance(place)
            attempt(sim, script, second.cut(rng, 0.5), promise, position, again=False)
