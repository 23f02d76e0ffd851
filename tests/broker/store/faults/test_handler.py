"""FaultHandler: which failure refuses writes, for how long, and how often it is logged."""

import errno
import logging

import pytest

from broker.common.clock import ManualClock
from broker.errors import DescriptorLimitError, DiskFullError, StoreError
from broker.store.faults.handler import FaultHandler
from broker.store.faults.running_flags import RunningFlags
from broker.store.logfile.disk import Disk

FULL = DiskFullError("commitlog/x: No space left on device")


class Handler(FaultHandler):
    """A handler whose store is open and writable."""

    def __init__(self, root):
        self.clock = ManualClock()
        self.flags = RunningFlags()
        self.flags.started()
        self.disk = Disk()
        super().__init__(self.disk, str(root), self.clock, self.flags)


@pytest.fixture
def faults(tmp_path):
    return Handler(tmp_path)


def messages(caplog):
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("error", [FULL, DescriptorLimitError("no descriptor")])
def test_temporary_errors_of_background_jobs_do_not_refuse_writes(faults, error):
    faults.background_failed(error)
    assert faults.flags.writable


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), StoreError("x")])
def test_a_file_error_of_a_background_job_counts_as_a_failed_sync(faults, error):
    faults.background_failed(error)
    assert faults.flags.sync_failed


def test_an_unexpected_error_of_a_background_job_counts_as_a_dead_thread(faults):
    faults.background_failed(KeyError("x"))
    assert not faults.flags.sync_failed
    assert faults.flags.refusal == "background job failed: KeyError: 'x'"


def test_a_failed_sync_is_marked_in_the_abort_file(faults, tmp_path):
    faults.sync_failed("sync of x failed")
    assert (tmp_path / "abort").read_bytes().endswith(b"sync failed\n")
    assert faults.flags.refusal == "sync of x failed"


def test_after_the_loss_of_the_directory_nothing_is_written_there(faults, tmp_path):
    assert "restore the directory" in faults.directory_lost("lock was removed")
    faults.sync_failed("sync of x failed")
    assert not (tmp_path / "abort").exists()
    assert not faults.flags.sync_failed
    assert faults.disk.refusal


def test_a_full_disk_is_retried_at_most_once_a_second(faults):
    assert not faults.retry_due()
    faults.disk_full(FULL)
    assert not faults.retry_due()
    faults.clock.advance(1_000)
    assert faults.retry_due()
    assert not faults.retry_due()


def test_a_full_disk_and_its_end_are_logged_once(faults, caplog):
    caplog.set_level(logging.WARNING, "broker.store.faults.handler")
    for _ in range(3):
        faults.disk_full(FULL)
        faults.disk_over_limit("95 % used")
    faults.flags.disk_has_space()
    faults.flags.disk_below_limit()
    faults.report_recovered_space()
    assert len(messages(caplog)) == 1
    faults.clock.advance(10_000)
    faults.report_recovered_space()
    faults.report_recovered_space()
    assert [text.partition(":")[0] for text in messages(caplog)] == [
        "disk full, writes are refused until there is space",
        "the disk has space again",
    ]


def test_an_allocation_error_is_logged_again_only_when_it_changes(faults, caplog):
    for text in ("a", "a", "b"):
        faults.allocation_failed(StoreError(text))
    assert [text[-1] for text in messages(caplog)] == ["a", "b"]
