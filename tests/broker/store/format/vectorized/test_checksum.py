"""CRC-32 in compiled loops: zlib's values at every length, with and without ISA-L."""

import random
import subprocess
import sys
import zlib

import pytest

np = pytest.importorskip("numpy", reason="the loops need the extra 'fast'")
numba = pytest.importorskip("numba", reason="the loops need the extra 'fast'")

ALL_LENGTHS = """
import sys, zlib
if {without}:
    sys.modules["isal"] = None
import numba
import numpy as np
from broker.store.format.vectorized.checksum import crc32

@numba.njit(nogil=True)
def found(buf, start, stop):
    return crc32(buf, start, stop)

data = np.arange(1000, dtype=np.uint16).astype(np.uint8)
for length in [*range(300), 900]:
    for start in (0, 3):
        assert found(data, start, start + length) == zlib.crc32(data[start : start + length])
print("equal")
"""
OUTSIDE = """
import zlib
import numpy as np
from broker.store.format.vectorized.checksum import crc32
data = np.arange(40, dtype=np.uint8)
assert int(crc32(data, 3, 40)) == zlib.crc32(data[3:])
try:
    crc32(data, 3, 41)
except IndexError:
    print("refused")
"""


def run(code: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": ":".join(sys.path), **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout.strip()


@pytest.mark.parametrize("without", [False, True], ids=["isal", "zlib"])
def test_the_values_are_those_of_zlib(without: bool) -> None:
    assert run(ALL_LENGTHS.format(without=without)) == "equal"


def test_machine_code_of_one_process_runs_in_another_without_isal(tmp_path) -> None:
    """The cached code has the name of the function, not its address."""
    (tmp_path / "cached.py").write_text(
        "import numba\n"
        "from broker.store.format.vectorized.checksum import crc32\n"
        "@numba.njit(nogil=True, cache=True)\n"
        "def found(buf, start, stop):\n"
        "    return crc32(buf, start, stop)\n"
    )
    code = (
        "import sys, zlib, numpy as np\n"
        "sys.path.insert(0, {folder!r})\n"
        "if {without}: sys.modules['isal'] = None\n"
        "from cached import found\n"
        "data = np.arange(99, dtype=np.uint8)\n"
        "assert found(data, 1, 98) == zlib.crc32(data[1:98])\n"
        "print(sum(found.stats.cache_hits.values()))\n"
    )
    folder = str(tmp_path)
    assert run(code.format(folder=folder, without=False), NUMBA_CACHE_DIR=folder) == "0"
    assert run(code.format(folder=folder, without=True), NUMBA_CACHE_DIR=folder) == "1"


def test_the_values_of_random_bytes_are_those_of_zlib(rng: random.Random) -> None:
    from broker.store.format.vectorized.checksum import crc32

    @numba.njit
    def found(buf, start, stop):
        return crc32(buf, start, stop)

    data = np.frombuffer(rng.randbytes(70_000), dtype=np.uint8)
    for _ in range(200):
        start, stop = sorted((rng.randrange(70_001), rng.randrange(70_001)))
        assert found(data, start, stop) == zlib.crc32(data[start:stop])


def test_loops_that_run_as_python_read_no_byte_outside() -> None:
    assert run(OUTSIDE, NUMBA_DISABLE_JIT="1") == "refused"
