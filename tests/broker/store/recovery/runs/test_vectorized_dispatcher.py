"""Recovery by compiled loops leaves the same files as record by record, and the same report."""

import importlib.util
import random
import shutil
import sys
from pathlib import Path

import pytest

from broker.store.format.vectorized.loops import compiled
from broker.store.recovery import log_scan
from broker.store.recovery.log_scan import LogScan
from tests.support.lossy_recovery import LOSSES, assert_the_same, count_runs, fill, recover

pytest.importorskip("numba", reason="the compiled loops need the extra 'fast'")

from broker.store.recovery.runs import vectorized_dispatcher
from broker.store.recovery.runs.vectorized_dispatcher import VectorizedDispatcher


@pytest.mark.parametrize("rows", [3, 50, 8192])
@pytest.mark.parametrize("lose", LOSSES, ids=lambda f: f.__name__)
def test_compiled_loops_leave_the_same(
    stores, inner, tmp_path, rng: random.Random, monkeypatch, lose, rows: int
):
    def vectorized(patch: pytest.MonkeyPatch) -> list[int]:
        patch.setattr(LogScan, "vectorized_from_bytes", 0)
        patch.setattr(vectorized_dispatcher, "ROWS", rows)
        return count_runs(patch, VectorizedDispatcher)

    assert_the_same(stores, inner, tmp_path, rng, monkeypatch, lose, vectorized)


def test_numba_that_cannot_be_imported_leaves_recovery_without_it(
    stores, inner, tmp_path, rng: random.Random, monkeypatch, caplog
):
    store = stores.start(stores.config(mapped_file_size_commit_log=16_384))
    fill(store, stores, rng, inner, 400)
    stores.kill(store)
    root = Path(store.config.root)
    (root / "abort").write_text("1\n")
    other = tmp_path / "other"
    shutil.copytree(root, other)
    expected = recover(stores, root)
    monkeypatch.setattr(LogScan, "vectorized_from_bytes", 0)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(log_scan, "compiled", compiled.__wrapped__)
    monkeypatch.setattr(log_scan, "PAGE_OUT_BYTES", 4_096)
    assert recover(stores, other) == expected
    assert "pip install" in caplog.text


def test_loops_are_compiled_only_for_a_scan_that_takes_longer(
    stores, inner, tmp_path, rng: random.Random, monkeypatch
):
    store = stores.start(stores.config(mapped_file_size_commit_log=16_384))
    fill(store, stores, rng, inner, 400)
    stores.kill(store)
    root = Path(store.config.root)
    (root / "abort").write_text("1\n")
    monkeypatch.setattr(LogScan, "vectorized_from_bytes", 1)
    used = count_runs(monkeypatch, VectorizedDispatcher)
    for kept, factor, expected in (
        (False, 1 << 40, False),
        (False, 1, True),
        (True, 1 << 40, True),
    ):
        other = tmp_path / f"{kept}{factor}"
        shutil.copytree(root, other)
        monkeypatch.setattr(LogScan, "vectorized_from_bytes", 1)
        monkeypatch.setattr(log_scan, "COMPILING_FACTOR", factor)
        monkeypatch.setattr(VectorizedDispatcher, "code_is_kept", lambda kept=kept: kept)
        used.clear()
        recover(stores, other)
        assert bool(used) == expected, (kept, factor)
