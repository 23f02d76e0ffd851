"""Words that compiled loops load: every address, every byte; the checked form raises outside."""

import subprocess
import sys

import pytest

np = pytest.importorskip("numpy", reason="the loops need the extra 'fast'")
numba = pytest.importorskip("numba", reason="the loops need the extra 'fast'")

DATA = bytes(range(0x70, 0x70 + 40))
CHECKED = """
import numpy as np
from broker.store.format.vectorized.words import load_word
data = np.arange(0x70, 0x70 + 40, dtype=np.uint8)
for at in range(33):
    assert int(load_word(data, at)) == int.from_bytes(data[at : at + 8].tobytes(), "little")
try:
    load_word(data, 33)
except IndexError:
    print("refused")
"""


def test_a_word_is_loaded_from_any_address() -> None:
    from broker.store.format.vectorized.words import load_word

    @numba.njit
    def load(buf, at):
        return load_word(buf, at)

    data = np.frombuffer(DATA, dtype=np.uint8)
    for at in range(len(DATA) - 7):
        assert int(load(data, at)) == int.from_bytes(DATA[at : at + 8], "little")


def test_loops_that_run_as_python_load_no_byte_outside() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHECKED],
        env={"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.strip() == "refused"
