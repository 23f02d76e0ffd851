"""Why puts are refused: causes are independent, some are final."""

import pytest

from broker.store.faults.running_flags import RunningFlags


@pytest.fixture
def flags() -> RunningFlags:
    flags = RunningFlags()
    flags.started()
    return flags


def test_a_new_store_is_not_open_and_a_started_one_is() -> None:
    flags = RunningFlags()
    assert not flags.writable
    assert flags.refusal == "the store is not open"
    flags.started()
    assert flags.writable
    assert flags.refusal is None


@pytest.mark.parametrize(
    "final", ["make_sync_failed", "make_background_failed", "make_dispatch_failed"]
)
def test_final_causes_outlast_every_other(flags, final) -> None:
    flags.make_disk_full("commitlog/1")
    flags.make_disk_over_limit("95 %")
    getattr(flags, final)("reason")
    flags.make_shutting_down()
    assert flags.refusal == "reason"
    flags.disk_has_space()
    flags.disk_below_limit()
    flags.started()
    assert flags.refusal == "reason"
    assert not flags.writable


def test_a_full_disk_and_a_disk_over_its_limit_end_separately(flags) -> None:
    flags.make_disk_full("commitlog/1")
    flags.make_disk_over_limit("95 %")
    assert flags.disk_full
    assert flags.disk_over_limit
    assert flags.refusal == "disk full: commitlog/1"
    flags.disk_has_space()
    assert flags.refusal == "disk full: 95 %"
    flags.disk_below_limit()
    assert flags.writable


def test_the_last_reason_of_a_cause_is_reported(flags) -> None:
    flags.make_disk_full("commitlog/1")
    flags.make_disk_full("index/2")
    assert flags.refusal == "disk full: index/2"


def test_a_failed_sync_is_known(flags) -> None:
    assert not flags.sync_failed
    flags.make_sync_failed("sync of the CommitLog failed")
    assert flags.sync_failed
