"""Recovery that dispatches runs leaves the same files as record by record, and the same report."""

import random

import pytest

from broker.store.recovery.log_scan import LogScan
from broker.store.recovery.runs import encoded_run
from broker.store.recovery.runs.run_dispatcher import RunDispatcher
from tests.support.lossy_recovery import LOSSES, assert_the_same, count_runs


@pytest.mark.parametrize("rows", [3, 50, 8192])
@pytest.mark.parametrize("lose", LOSSES, ids=lambda f: f.__name__)
def test_runs_leave_the_same(
    stores, inner, tmp_path, rng: random.Random, monkeypatch, lose, rows: int
):
    def runs(patch: pytest.MonkeyPatch) -> list[int]:
        patch.setattr(LogScan, "vectorized_from_bytes", 1 << 60)
        patch.setattr(encoded_run, "ROWS", rows)
        return count_runs(patch, RunDispatcher)

    assert_the_same(stores, inner, tmp_path, rng, monkeypatch, lose, runs)
