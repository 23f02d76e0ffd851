"""Power is cut, or the process killed, at every write while timers are stored and delivered.

A flushed message is delivered once: never lost, and never repeated if its delivered copy is still
in the log. A flushed recall holds. The next start runs on whatever the disk has kept of wheel,
timer log and checkpoint.
"""

import os
import random
from collections import Counter
from typing import Any

import pytest

from broker.common.clock import ManualClock
from tests.support.timers import START_MS, Timers

RUNS = int(os.environ.get("TORTURE_RUNS", "1"))
STEPS = int(os.environ.get("TORTURE_STEPS", "36"))
KEEP = (0.0, 0.5, 1.0)

pytestmark = [pytest.mark.crash, pytest.mark.timeout(180 + 180 * RUNS)]

CONFIG = {
    "mapped_file_size_commit_log": 16 * 1024,
    "mapped_file_size_consume_queue": 20 * 40,
    "mapped_file_size_timer_log": 52 * 8 + 16,
    "timer_roll_window_slot": 30,
    "max_message_size": 4_000,
    "file_reserved_time": 100_000,
    "message_index_enable": False,
}


def broker(disk: Any, flush: str, now_ms: int = START_MS) -> Timers:
    timers = Timers(
        "/sim/store", disk=disk, clock=ManualClock(now_ms), flush_disk_type=flush, **CONFIG
    )
    timers.slots = 512
    return timers.open()


def script(disk: Any, rng: random.Random, flush: str, steps: int) -> int:
    """Random sends, recalls, deliveries, writes and restarts; marks record the guarantees."""
    timers = broker(disk, flush)
    due: dict[str, int] = {}

    def guarantee(kind: str, name: str) -> None:
        if timers.store.flush():
            disk.mark(kind, name)

    for number in range(steps):
        roll = rng.random()
        now_ms = timers.clock.now_ms()
        if roll < 0.4:
            name = f"m{number}"
            delay_ms = rng.choice((700, 2_500, 8_000, 45_000)) + rng.randrange(1_000)
            timers.send(name, delay_ms)
            due[name] = now_ms + delay_ms
            guarantee("sent", name)
        elif roll < 0.5 and any(time > now_ms + 1_000 for time in due.values()):
            name = rng.choice([n for n, time in due.items() if time > now_ms + 1_000])
            disk.mark("recalling", name)
            timers.recall(name, due.pop(name))
            guarantee("recalled", name)
        elif roll < 0.8:
            timers.clock.advance(rng.randrange(4_000))
            timers.store.dispatch()
            timers.timers.run(rng.choice((1, 3, 50)))
        elif roll < 0.93:
            timers.persist()
        elif roll < 0.96:
            timers.close()
            timers.open()
        else:
            timers.kill()
            disk.locked = False
            timers.open()
        due = {n: time for n, time in due.items() if time > timers.clock.now_ms()}
    return timers.clock.now_ms()


def whole(timers: Timers) -> Counter[str]:
    """Deliveries by name, without records torn by the cut: properties have no checksum."""
    return Counter(
        message.properties["UNIQ_KEY"]
        for message in timers.messages()
        if "TIMER_DEQUEUE_MS" in message.properties
    )


def check(disk: Any, flush: str, marks: list[Any], now_ms: int) -> None:
    """Every guarantee holds after the restart, after all is delivered, and after another stop."""
    sent, recalling, recalled = (
        {mark[1] for mark in marks if mark[0] == kind} for kind in ("sent", "recalling", "recalled")
    )
    timers = broker(disk, flush, now_ms)
    timers.wait(200_000)
    counts = whole(timers)
    repeated = {name: count for name, count in counts.items() if count > 1}
    assert not repeated
    assert not sent - recalling - counts.keys()
    assert not recalled & counts.keys()
    assert timers.timers.wheel.pending == 0
    timers.close()
    timers.open()
    timers.wait(60_000)
    assert whole(timers) == counts
    timers.close()


def replay(sim: Any, rng: random.Random, flush: str, *, killed: bool) -> Counter[str]:
    disk = sim.Disk()
    with sim.Tracer(disk):
        end_ms = script(disk, rng, flush, STEPS)
    cutter = sim.Cutter(disk.journal)
    done: Counter[str] = Counter()
    step = 1 if RUNS > 1 else 3
    for position in range(0, len(disk.journal) + 1, step):
        cutter.advance(position)
        if killed:
            if position and disk.journal[position - 1][0] in ("write", "size"):
                continue  # one store to memory, seen as several sectors
            image = cutter.killed()
        else:
            image = cutter.cut(rng, KEEP[position // step % len(KEEP)])
        try:
            check(image, flush, cutter.marks, end_ms)
        except BaseException as error:
            error.add_note(f"at {position} of {len(disk.journal)}")
            raise
        done["points"] += 1
    return done


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("run", range(RUNS))
def test_a_power_cut_anywhere_loses_and_repeats_no_timer(
    sim: Any, rng: random.Random, flush: str, run: int
) -> None:
    assert replay(sim, rng, flush, killed=False)["points"] > 30


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("run", range(RUNS))
def test_a_kill_anywhere_loses_and_repeats_no_timer(
    sim: Any, rng: random.Random, flush: str, run: int
) -> None:
    assert replay(sim, rng, flush, killed=True)["points"] > 30
