"""A full disk: puts are refused with the path, reads continue, and the state ends by itself."""

import random
from typing import Any

import pytest

from broker.errors import DiskFullError
from broker.store.message_store import PutMessageStatus

pytestmark = pytest.mark.crash


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_disk_that_fills_up_at_any_byte_costs_nothing(
    sim: Any, rng: random.Random, flush: str
) -> None:
    seed = rng.random()
    # From no space at all up to more than the script takes.
    for capacity in range(0, 40_000, 1_304):
        disk = sim.Disk()
        disk.recording = True
        disk.capacity = capacity
        script = sim.Script(disk, random.Random(seed), flush)
        try:
            fill_and_free(script)
        except BaseException as error:
            error.add_note(f"capacity {capacity}")
            raise
        journal = disk.journal
        cutter = sim.Cutter(journal)
        cutter.advance(len(journal))
        guarantee = sim.ExpectedStore(cutter.marks, killed=False)
        sim.survive(cutter.cut(rng, 0.5), script.config, guarantee)


def fill_and_free(script: Any) -> None:
    disk = script.disk
    try:
        script.open()
    except DiskFullError:
        disk.capacity = 1 << 30
        script.open()
    for _ in range(30):
        script.put(script.rng.choice((1, 3)))
        script.clock.advance(script.rng.choice((10, 700)))
        if script.rng.random() < 0.3:
            script.flush()
            script.store.worker.fire()
    refused = script.statuses[PutMessageStatus.SERVICE_NOT_AVAILABLE]
    if not script.store.writable:
        # Found by a put, by dispatch, or by the last index entry.
        assert refused or script.store.dispatch_behind_bytes or script.store.index.waiting
        assert "/sim/store/" in script.store.not_writable_reason
        assert "No space left" in script.store.not_writable_reason
    disk.capacity = 1 << 30
    script.clock.advance(1_500)
    before = script.statuses[PutMessageStatus.PUT_OK]
    script.put()
    assert script.statuses[PutMessageStatus.PUT_OK] > before, script.store.not_writable_reason
    script.flush()
    script.store.dispatch()
    assert script.store.dispatch_behind_bytes == 0
