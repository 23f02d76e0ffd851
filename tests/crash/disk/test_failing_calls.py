"""Every call to the disk fails once: an error answer, nothing acknowledged is lost, reads continue.

The n-th call of a scripted run fails, for n = 1, 2, 3… After a failed sync the simulated kernel
has dropped the pages it could not write, as real ones do: no later acknowledgement may depend on
them. The long form is ``scripts/torture calls``.
"""

import errno
import os
import random
from typing import Any

import pytest

from broker.errors import RocketMQError
from broker.store.message_store import GetMessageStatus

RUNS = int(os.environ.get("TORTURE_RUNS", "1"))
STEPS = int(os.environ.get("TORTURE_STEPS", "24"))

pytestmark = [pytest.mark.crash, pytest.mark.timeout(120 + 120 * RUNS)]

ERRORS = (RocketMQError, OSError)


class FailAt:
    """Fails the n-th call; with ``lasting`` every later call of the same name on the same file."""

    def __init__(self, n: int, *, lasting: bool) -> None:
        self.n = n
        self.lasting = lasting
        self.count = 0
        self.failed: tuple[str, str] | None = None

    def __call__(self, name: str, path: str) -> None:
        self.count += 1
        again = self.lasting and (name, path) == self.failed
        if self.count == self.n or again:
            self.failed = (name, path)
            raise OSError(errno.EIO, f"call {self.count} ({name}) fails", path)


def run_script(sim: Any, seed: str, flush: str, fail: Any) -> Any:
    """The script up to its end, or to a start that fails; never an error out of a put or a read."""
    disk = sim.Disk()
    disk.recording = True
    disk.fail = fail
    script = sim.Script(disk, random.Random(seed), flush)
    try:
        script.open()
        for _ in range(STEPS):
            try:
                script.step()
            except ERRORS:
                if script.store is None or not script.store.is_open:
                    raise
            if script.store.flusher.failed:
                assert not script.store.writable
                disk.mark("failed")
            read_everything(script.store)
    except ERRORS:
        pass
    disk.capture()
    return script


def read_everything(store: Any) -> None:
    """Visible messages can be read after any failure."""
    for topic, queue_ids in store.queues().items():
        for queue_id in queue_ids:
            offset = store.get_min_offset(topic, queue_id)
            end = store.get_max_offset(topic, queue_id)
            while offset < end:
                found = store.get_message(topic, queue_id, offset, 32)
                assert found.status is GetMessageStatus.FOUND, (topic, queue_id, offset, found)
                offset = found.next_begin_offset


def check_survivors(sim: Any, script: Any, rng: random.Random) -> None:
    journal = script.disk.journal
    cutter = sim.Cutter(journal)
    cutter.advance(len(journal))
    sim.survive(cutter.killed(), script.config, sim.ExpectedStore(cutter.marks, killed=False))
    guarantee = sim.ExpectedStore(cutter.marks, killed=False)
    sim.survive(cutter.cut(rng, 0.5), script.config, guarantee)


def check_no_ack_after_failed_sync(script: Any) -> None:
    """After a sync of the log failed nothing is acknowledged until the store is opened again."""
    failed = False
    for entry in script.disk.journal:
        if entry[:2] in (("mark", "failed"), ("mark", "opened")):
            failed = entry[1] == "failed"
        assert not (failed and entry[:2] == ("mark", "acked")), entry


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("run", range(RUNS))
def test_each_call_to_the_disk_may_fail(
    sim: Any, rng: random.Random, flush: str, lasting: bool, run: int
) -> None:
    seed = str(rng.random())
    healthy = FailAt(0, lasting=False)
    run_script(sim, seed, flush, healthy)
    assert healthy.count > STEPS
    # Both forms see every call once, each every second one.
    for n in range(1 + lasting, healthy.count + 1, 1 if RUNS > 1 else 2):
        fail = FailAt(n, lasting=lasting)
        script = run_script(sim, seed, flush, fail)
        try:
            check_no_ack_after_failed_sync(script)
            check_survivors(sim, script, rng)
        except BaseException as error:
            error.add_note(f"call {n} of {healthy.count} failed: {fail.failed}")
            raise
