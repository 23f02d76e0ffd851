"""No loop of ingest accesses a byte outside of its arrays, whatever it reads.

Two builds of the same source, each in its own process: see :mod:`tests.support.ingest_memory`.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba", reason="the compiled loops need the extra 'fast'")

ROOT = Path(__file__).parents[4]
ROUNDS = int(os.environ.get("TORTURE_RUNS", "1"))


def run(rng: random.Random, build: str, rounds: int, **environment: str) -> list[int]:
    """Run a build; the numbers that it prints."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.support.ingest_memory",
            build,
            str(rng.random()),
            str(rounds),
        ],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=250 + ROUNDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    return [int(number) for number in done.stdout.split()]


def test_an_access_outside_of_an_array_ends_the_guarded_build(tmp_path: Path) -> None:
    """The proof that the other tests can fail: a read of one byte too many, at either end."""
    script = """
from tests.support.ingest_memory import CheckedArrays, GuardedArrays
import ctypes, os, sys
make = GuardedArrays()
make.at_end = sys.argv[1] == "end"
array = make(10, "u1")
address = array.ctypes.data + (10 if make.at_end else -1)
ctypes.string_at(array.ctypes.data, 10)
if os.fork() == 0:
    ctypes.string_at(address, 1)
    os._exit(0)
assert os.wait()[1] == 11, "no signal"
checked = CheckedArrays()(4, "u1")
for key in (4, -1, slice(0, 5), slice(-1, 2)):
    try:
        checked[key]
    except IndexError:
        continue
    raise AssertionError(key)
"""
    for end in ("end", "start"):
        subprocess.run([sys.executable, "-c", script, end], cwd=ROOT, check=True, timeout=120)


def test_the_compiled_loops_stay_between_their_guard_pages(rng: random.Random) -> None:
    written = run(rng, "guard", 4_000 * ROUNDS)
    assert min(written) > 100


def test_the_source_of_the_loops_uses_no_index_outside(rng: random.Random) -> None:
    written = run(rng, "checked", 2_000 * ROUNDS, NUMBA_DISABLE_JIT="1")
    assert min(written) > 5
