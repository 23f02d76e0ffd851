"""Power is cut at every write and every sync of a scripted run; acknowledged messages are there.

SYNC_FLUSH guarantees every acknowledged message, ASYNC_FLUSH every message that a completed flush
covered. A kill of the process (page cache intact) must cost neither anything at all. The long form
is ``scripts/torture power``.
"""

import errno
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


def attempt(
    sim: Any, script: Any, disk: Any, guarantee: Any, position: int, **options: Any
) -> None:
    try:
        sim.survive(disk, script.config, guarantee, **options)
    except BaseException as error:
        error.add_note(f"cut at {position} of {len(script.disk.journal)}")
        raise


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("run", range(RUNS))
def test_acknowledged_messages_survive_a_power_cut_anywhere(
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
            guarantee = sim.ExpectedStore(cutter.marks, killed=False)
            disk = cutter.cut(rng, keep)
            attempt(sim, script, disk, guarantee, position, again=position % 4 == 0)
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
        guarantee = sim.ExpectedStore(cutter.marks, killed=True)
        attempt(sim, script, cutter.killed(), guarantee, position, again=position % 4 == 0)


def fill(script: Any, topic: str, count: int) -> None:
    for _ in range(count):
        script.number += 1
        inner = script.inner(topic, 0, b"%06d" % script.number + bytes(900))
        script.store.put_message(inner)
    script.store.flush()
    script.store.dispatch()


def cut_now(sim: Any, script: Any, rng: random.Random) -> Any:
    """The disk after a power cut that keeps only synced bytes."""
    cutter = sim.Cutter(script.disk.journal)
    cutter.advance(len(script.disk.journal))
    return cutter.cut(rng, 0.0)


def test_a_queue_without_log_files_keeps_its_next_offset(sim: Any, rng: random.Random) -> None:
    """No record is left to rebuild from: its units must be on the disk before the log goes."""
    disk = sim.Disk()
    script = sim.Script(disk, rng, "SYNC_FLUSH")
    with sim.Tracer(disk):
        script.open()
        fill(script, "T0", 2)
        fill(script, "T1", 20)
        script.clean()
        disk.sync_folder(f"{sim.root}/commitlog")
    store = sim.reopen(cut_now(sim, script, rng), script.config)
    assert store.log.min_offset > 0
    assert store.get_min_offset("T0", 0) == 2
    assert store.put_message(script.inner("T0", 0, b"next")).queue_offset == 2


def test_the_names_of_log_files_survive_a_kill_and_then_a_power_cut(
    sim: Any, rng: random.Random
) -> None:
    """Unsynced writes of a killed process count as stored from the next start on."""

    def fail(name: str, path: str) -> None:
        if name == "sync_folder" and path.endswith("commitlog"):
            raise OSError(errno.EIO, "no names are synced", path)

    disk = sim.Disk()
    disk.fail = fail
    script = sim.Script(disk, rng, "ASYNC_FLUSH")
    with sim.Tracer(disk):
        script.open()
        script.store.put_message(script.inner("T0", 0, b"only"))
        disk.locked = False  # killed
        first_entry = len(disk.journal)
        disk.fail = None
        script.open()
    cutter = sim.Cutter(disk.journal)
    noted = False
    for position in range(first_entry, len(disk.journal) + 1):
        cutter.advance(position)
        store = sim.reopen(cutter.cut(rng, 0.0), script.config)
        stored = store.get_message("T0", 0, 0, 1).status.name == "FOUND"
        assert stored or not noted, position
        noted = stored
    assert noted


@pytest.mark.parametrize("run", range(RUNS))
def test_power_cut_during_the_recovery_from_a_power_cut(
    sim: Any, rng: random.Random, run: int
) -> None:
    script = record(sim, rng, "SYNC_FLUSH", STEPS)
    cutter = sim.Cutter(script.disk.journal)
    for position in sorted(rng.sample(range(1, len(script.disk.journal) + 1), 12)):
        cutter.advance(position)
        guarantee = sim.ExpectedStore(cutter.marks, killed=False)
        disk = cutter.cut(rng, 0.5)
        base = disk.copy()
        with sim.Tracer(disk):
            store = sim.reopen(disk, script.config)
        store.shutdown()
        second = sim.Cutter(disk.journal, base)
        for place in range(0, len(disk.journal) + 1, 3):
            second.advance(place)
            attempt(sim, script, second.cut(rng, 0.5), guarantee, position, again=False)
