"""Each call of a whole broker to the disk fails once: nothing that it acknowledged is lost.

A client may be refused and try again; a message acknowledged afterwards must be on the disk.
The long form is ``scripts/torture broker``.
"""

import errno
import os
import random
from collections import Counter
from collections.abc import Callable
from functools import partial

import pytest

from broker.errors import RocketMQError
from tests.support.recording import Recording
from tests.support.traffic import Traffic

RUNS = int(os.environ.get("TORTURE_RUNS", "1"))
STEPS = int(os.environ.get("TORTURE_STEPS", "24"))
CALLS = int(os.environ.get("TORTURE_CUTS", "40"))  # of each script; 0: every one

# Of one run: about 0.1 s per step of a script that is repeated, five times as much under load.
pytestmark = [pytest.mark.crash, pytest.mark.timeout(120 + (CALLS or 1_000) * STEPS // 2)]


class FailAt:
    """Fails the n-th call; with ``lasting`` every later call of the same name on the same file."""

    def __init__(self, n: int, *, lasting: bool) -> None:
        self.n = n
        self.lasting = lasting
        self.on_lasting: Callable[[], None] = lambda: None
        self.calls: Counter[str] = Counter()
        self.failed: tuple[str, str] | None = None

    def __call__(self, name: str, path: str) -> None:
        self.calls[name] += 1
        again = self.lasting and (name, path) == self.failed
        if self.calls.total() == self.n or again:
            if self.lasting:
                self.on_lasting()
            self.failed = (name, path)
            raise OSError(errno.EIO, f"call {self.calls.total()} ({name}) fails", path)


def run_script(seed: str, flush: str, fail: FailAt) -> Recording:
    """The script up to its end, or to a start or stop that fails."""

    def script(traffic: Traffic) -> None:
        traffic.disk_fails = True
        traffic.steps(STEPS)

    recording = Recording(random.Random(seed), flush)
    recording.disk.fail = fail
    fail.on_lasting = partial(recording.disk.mark, "failing")
    try:
        recording.live(script)
    except (RocketMQError, OSError):
        # Nothing but a start may end with an error: no send, no pull, no stop.
        assert not recording.is_serving, f"{fail.failed} ended a broker"
    return recording


@pytest.mark.parametrize("lasting", [False, True], ids=["once", "lasting"])
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("run", range(RUNS))
def test_nothing_acknowledged_is_lost_when_a_call_to_the_disk_fails(
    rng: random.Random, flush: str, lasting: bool, run: int
) -> None:
    seed = str(rng.random())
    healthy = FailAt(0, lasting=False)
    run_script(seed, flush, healthy)
    numbers = range(1, healthy.calls.total() + 1)
    for n in rng.sample(numbers, min(CALLS or len(numbers), len(numbers))):
        fail = FailAt(n, lasting=lasting)
        recording = run_script(seed, flush, fail)
        for image in recording.last_images():
            image.event += f", call {n} of {len(numbers)} failed: {fail.failed}, script {seed}"
            image.check()
