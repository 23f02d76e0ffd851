"""Cleaning: which files are deleted, when, and which files follow the log."""

import errno
import os
import time

import pytest

from broker.store import clean
from broker.store.clean import disk_ratio
from broker.store.logfile.disk import Disk
from broker.store.message_store import GetMessageStatus, PutMessageStatus

HOUR_MS = 3_600_000


class SpaceDisk(Disk):
    """A disk with a usage set by the test, in percent."""

    percent = 10

    def space(self, path):
        return self.percent, 100 - self.percent


@pytest.fixture
def disk():
    return SpaceDisk()


@pytest.fixture
def store(stores, inner, disk):
    made = stores.start(stores.config(file_reserved_time=1), disk=disk)
    for n in range(40):
        made.put_message(inner(body=b"%04d" % n * 150, properties={"KEYS": f"k{n}"}))
    made.flush()
    return made


def noon_of(hour):
    now = time.localtime(1_800_000_000)
    start = time.mktime((now.tm_year, now.tm_mon, now.tm_mday, hour, 30, 0, 0, 0, -1))
    return int(start * 1000)


def age(store, until_ms):
    for file in store.log.files.files:
        store.disk.touch(file.path, until_ms)


def test_nothing_goes_before_its_time(store):
    now = noon_of(4)
    age(store, now - HOUR_MS + 1000)
    assert store.clean_expired(now).removed_commit_log_files == []


def test_expired_files_go_in_the_hours_of_deletion(store):
    now = noon_of(5)
    age(store, now - 2 * HOUR_MS)
    assert store.clean_expired(now).removed_commit_log_files == []
    now = noon_of(4)
    age(store, now - 2 * HOUR_MS)
    before = len(store.log.files.files)
    report = store.clean_expired(now)
    assert len(report.removed_commit_log_files) == before - 1
    assert len(store.log.files.files) == 1
    assert len(os.listdir(store.config.commit_log_folder)) <= 2


def test_deleted_files_are_reported(store, caplog):
    caplog.set_level("INFO", "broker.store.clean")
    now = noon_of(4)
    age(store, now)
    store.clean_expired(now)
    assert not caplog.records
    age(store, now - 2 * HOUR_MS)
    removed = store.clean_expired(now).removed_commit_log_files
    (record,) = caplog.records
    assert f"deleted {len(removed)} CommitLog files up to {removed[-1]}" in record.getMessage()


def test_at_most_a_batch_goes_at_once(store):
    import msgspec

    store.set_config(msgspec.structs.replace(store.config, delete_file_batch_max=2))
    now = noon_of(4)
    age(store, now - 2 * HOUR_MS)
    assert len(store.clean_expired(now).removed_commit_log_files) == 2


def test_a_request_and_a_fuller_disk_need_no_hour(store, disk):
    now = noon_of(5)
    age(store, now - 2 * HOUR_MS)
    assert store.clean_expired(now).removed_commit_log_files == []
    assert store.clean_expired(now, manual=True).removed_commit_log_files
    disk.percent = 96
    assert store.clean_expired(noon_of(5)).disk_ratio == 96


def test_above_the_threshold_files_go_before_their_time(store, disk):
    now = noon_of(5)
    age(store, now)
    disk.percent = 84
    assert store.clean_expired(now).removed_commit_log_files == []
    disk.percent = 86
    assert store.clean_expired(now).removed_commit_log_files


def test_above_the_warning_level_nothing_is_stored_until_it_is_below(store, disk, inner, stores):
    disk.percent = 91
    assert store.clean_expired(noon_of(5)).over_warning_level
    result = store.put_message(inner())
    assert result.status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    assert "91 %" in result.remark
    stores.clock.advance(5000)
    assert store.put_message(inner()).status is PutMessageStatus.SERVICE_NOT_AVAILABLE
    disk.percent = 50
    store.clean_expired(noon_of(5))
    assert store.put_message(inner()).status is PutMessageStatus.PUT_OK


def test_queues_and_index_follow_the_log(store):
    now = noon_of(4)
    age(store, now - 2 * HOUR_MS)
    index_files = len(store.index.files)
    report = store.clean_expired(now)
    assert store.min_physical_offset == store.log.files.files[-1].start
    low = store.get_min_offset("TopicA", 0)
    assert 0 < low < 40
    assert store.get_message("TopicA", 0, low - 1).status is GetMessageStatus.OFFSET_TOO_SMALL
    assert store.get_message("TopicA", 0, low).message_count == 40 - low
    assert store.query_message("TopicA", "k0", 9, 0, 1 << 62).buffers == []
    assert len(store.query_message("TopicA", "k39", 9, 0, 1 << 62).buffers) == 1
    assert report.removed_consume_queue_files > 0
    assert report.removed_index_files == index_files - len(store.index.files)


def test_many_queues_are_cleaned_in_several_iterations(stores, inner, disk, monkeypatch):
    """The event loop serves others in between; a pull meanwhile skips records that are gone."""
    monkeypatch.setattr(clean, "QUEUES_PER_SLICE", 3)
    turns: list = []
    config = stores.config(file_reserved_time=1, mapped_file_size_consume_queue=60)
    store = stores.start(config, disk=disk, defer=turns.append)
    for n in range(80):
        store.put_message(inner(body=b"%04d" % n * 150, queue_id=n % 8))
    while turns:
        turns.pop(0)()
    assert store.flush()
    now = noon_of(4)
    age(store, now - 2 * HOUR_MS)
    slices = 0
    report = store.clean_expired(now)
    removed = report.removed_consume_queue_files
    while turns:
        lows = [store.get_min_offset("TopicA", queue_id) for queue_id in range(8)]
        assert [low > 0 for low in lows] == [queue_id < 3 * (slices + 1) for queue_id in range(8)]
        pulled = store.get_message("TopicA", 7, 0)
        assert pulled.status is GetMessageStatus.MESSAGE_WAS_REMOVING
        assert pulled.next_begin_offset == 3
        turns.pop(0)()
        slices += 1
    assert slices == 2
    assert all(store.get_min_offset("TopicA", queue_id) > 0 for queue_id in range(8))
    assert store.clean_expired(now).removed_consume_queue_files > 0 < removed


def test_a_stopped_store_ends_the_cleaning_of_queues(stores, inner, disk, monkeypatch):
    monkeypatch.setattr(clean, "QUEUES_PER_SLICE", 1)
    turns: list = []
    store = stores.start(stores.config(file_reserved_time=1), disk=disk, defer=turns.append)
    for n in range(40):
        store.put_message(inner(body=b"%04d" % n * 150, queue_id=n % 4))
    while turns:
        turns.pop(0)()
    assert store.flush()
    age(store, noon_of(4) - 2 * HOUR_MS)
    store.clean_expired(noon_of(4))
    store.shutdown()
    (rest,) = turns
    rest()
    assert len(turns) == 1
    assert [queue.min_offset > 0 for queue in store.queue_table.all()] == [
        True,
        False,
        False,
        False,
    ]


def test_bounds_are_the_same_after_a_restart(store, stores):
    now = noon_of(4)
    age(store, now - 2 * HOUR_MS)
    store.clean_expired(now)
    bounds = store.get_min_offset("TopicA", 0), store.get_max_offset("TopicA", 0)
    store = stores.reopen(store)
    assert store.report.scanned_bytes == 0
    assert (store.get_min_offset("TopicA", 0), store.get_max_offset("TopicA", 0)) == bounds


def test_a_reader_keeps_its_slices(store):
    result = store.get_message("TopicA", 0, 0, 2)
    copy = [bytes(buffer) for buffer in result.buffers]
    now = noon_of(4)
    age(store, now - 2 * HOUR_MS)
    store.clean_expired(now)
    assert [bytes(buffer) for buffer in result.buffers] == copy


def test_unflushed_and_undispatched_data_is_kept(stores, inner, disk):
    config = stores.config(file_reserved_time=1)
    store = stores.start(config, disk=disk, defer=lambda fn: None)
    for _ in range(20):
        store.put_message(inner(body=bytes(600)))
    now = noon_of(4)
    age(store, now - 2 * HOUR_MS)
    assert store.clean_expired(now).removed_commit_log_files == []
    store.flush()
    assert store.clean_expired(now).removed_commit_log_files


def test_a_file_that_cannot_be_deleted_stays_and_goes_later(store, caplog, monkeypatch):
    now = noon_of(4)
    age(store, now - 2 * HOUR_MS)
    first = store.log.files.files[0]
    bounds = store.get_min_offset("TopicA", 0), store.log.min_offset

    def refuse(path):
        raise OSError(errno.EACCES, "not now", path)

    with monkeypatch.context() as patch:
        patch.setattr(store.disk, "unlink", refuse)
        assert store.clean_expired(now).removed_commit_log_files == []
    assert first.path in caplog.text
    assert (store.get_min_offset("TopicA", 0), store.log.min_offset) == bounds
    assert store.get_message("TopicA", 0, 0, 1).status is GetMessageStatus.FOUND
    assert first.path in store.clean_expired(now).removed_commit_log_files


def test_a_queue_file_that_cannot_be_deleted_keeps_no_minimum_wrong(store, monkeypatch):
    now = noon_of(4)
    age(store, now - 2 * HOUR_MS)
    unlink = store.disk.unlink

    def refuse(path):
        if "consumequeue" in path:
            raise OSError(errno.EACCES, "not now", path)
        unlink(path)

    with monkeypatch.context() as patch:
        patch.setattr(store.disk, "unlink", refuse)
        with pytest.raises(OSError, match="not now"):
            store.clean_expired(now)
    low = store.get_min_offset("TopicA", 0)
    assert low > 0
    assert store.get_message("TopicA", 0, low, 1).status is GetMessageStatus.FOUND
    assert store.clean_expired(now).removed_consume_queue_files > 0


@pytest.mark.parametrize(
    ("used", "usable", "percent"), [(0, 0, 0), (0, 10, 0), (1, 999, 1), (50, 50, 50), (10, 0, 100)]
)
def test_disk_ratio_rounds_up(used, usable, percent):
    assert disk_ratio(used, usable) == percent
