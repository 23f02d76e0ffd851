"""FlushConsumeQueueService: queues are synced before the log files of their records go."""

import errno
import threading
from pathlib import Path

import pytest

from broker.store import message_store
from broker.store.format.checkpoint import decode_checkpoint
from broker.store.recovery.store_recovery import SYNC_FAILED
from tests.support.crash_script import InlineWorker


@pytest.fixture
def store(stores, inner, faulty_disk):
    opened = stores.start(disk=faulty_disk)
    for number in range(5):
        opened.put_message(inner(queue_id=number % 2))
    opened.flush()
    return opened


def test_a_thorough_sync_records_the_time_of_the_last_dispatched_record(store, stores):
    before = store.checkpoint.value.logics_msg_timestamp
    store.queue_flush.sync(thorough=False)
    assert store.checkpoint.value.logics_msg_timestamp == before
    store.queue_flush.sync(thorough=True)
    assert store.checkpoint.value.logics_msg_timestamp == stores.clock.now_ms()
    assert not store.queue_table.dirty


def test_a_sync_leaves_the_gathered_records_to_the_thread_that_appends(stores, inner):
    """Records that were gathered while another thread wrote those before them were lost."""
    store = stores.start(defer=lambda call: None)
    write = store.log.gather()
    end = store.log.max_offset
    store.put_message(inner())
    syncing = threading.Thread(target=lambda: store.queue_flush.sync(thorough=True))
    syncing.start()
    syncing.join()
    assert store.log.max_offset == end
    write()
    assert store.log.max_offset == store.log.appended_offset > end


def test_a_failed_sync_of_the_queues_keeps_the_log_files(store, faulty_disk):
    faulty_disk.fail["sync_data"] = OSError(errno.EIO, "Input/output error")
    try:
        assert not store.queue_flush.sync_before_delete(store.max_physical_offset)
    finally:
        del faulty_disk.fail["sync_data"]
    assert store.flags.sync_failed


def test_queues_can_be_synced_before_their_log_files_are_deleted(store):
    assert store.queue_flush.sync_before_delete(store.max_physical_offset)
    assert store.writable


@pytest.fixture
def threadless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs run at once, timers when the test fires them."""
    monkeypatch.setattr(message_store, "Worker", InlineWorker)
    monkeypatch.setattr(message_store.FlushService, "start", lambda self: None)
    monkeypatch.setattr(message_store.DirectoryMonitor, "start", lambda self: None)


def put_dispatched(store, message, clock) -> int:
    """Store a message whose queue becomes dirty; returns the time of its record."""
    assert store.put_message(message).queue_offset >= 0
    assert store.flush()
    return clock.now_ms()


def test_all_dirty_queues_are_flushed_once_per_thorough_interval(threadless, stores, inner):
    store = stores.start()
    interval = store.config.flush_consume_queue_thorough_interval
    stores.clock.advance(interval)
    first = put_dispatched(store, inner(), stores.clock)
    store.worker.fire()
    assert store.checkpoint.value.logics_msg_timestamp == first
    stores.clock.advance(interval - 1)
    second = put_dispatched(store, inner(), stores.clock)
    store.worker.fire()  # one dirty page is not enough before the interval is over
    assert store.queue_table.dirty
    assert store.checkpoint.value.logics_msg_timestamp == first
    stores.clock.advance(2)
    store.worker.fire()  # scheduled again because a queue stayed dirty
    assert not store.queue_table.dirty
    assert store.checkpoint.value.logics_msg_timestamp == second
    stores.clock.advance(1)
    put_dispatched(store, inner(), stores.clock)
    store.worker.fire()
    assert store.checkpoint.value.logics_msg_timestamp == second, "the interval starts again"


@pytest.mark.parametrize("first", ["queues", "index"])
def test_no_checkpoint_and_no_clean_stop_after_a_failed_sync(
    threadless, stores, inner, faulty_disk, first
):
    """The kernel may drop the pages of a failed sync; the next sync of the file succeeds."""
    store = stores.start(disk=faulty_disk)
    stores.clock.advance(store.config.flush_consume_queue_thorough_interval)
    put_dispatched(store, inner(properties={"KEYS": "k"}), stores.clock)
    before = store.checkpoint.value
    faulty_disk.fail["sync_data"] = OSError(errno.EIO, "Input/output error")
    if first == "queues":
        store.worker.fire()
    else:
        store.worker.run(store.index.files[-1].sync)
    del faulty_disk.fail["sync_data"]
    assert store.flags.sync_failed
    stores.clock.advance(store.config.flush_consume_queue_thorough_interval)
    store.worker.fire()
    path = Path(store.config.root, "checkpoint")
    assert not path.exists() or decode_checkpoint(path.read_bytes()) == before
    store.shutdown()
    assert not path.exists() or decode_checkpoint(path.read_bytes()) == before
    assert Path(store.config.root, "abort").read_bytes().endswith(SYNC_FAILED)


def test_a_full_index_file_is_recorded_in_the_checkpoint(threadless, stores, inner):
    store = stores.start()
    before = store.checkpoint.value.index_msg_timestamp
    for number in range(store.config.max_index_num + 1):
        put_dispatched(store, inner(properties={"KEYS": f"k{number}"}), stores.clock)
    assert len(store.index.files) > 1
    assert before < store.checkpoint.value.index_msg_timestamp <= stores.clock.now_ms()


def test_a_store_without_an_index_flushes_its_queues(threadless, stores, inner):
    store = stores.start(stores.config(message_index_enable=False))
    stores.clock.advance(store.config.flush_consume_queue_thorough_interval)
    stored = put_dispatched(store, inner(), stores.clock)
    store.worker.fire()
    assert not store.queue_table.dirty
    assert store.checkpoint.value.logics_msg_timestamp == stored
