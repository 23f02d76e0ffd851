"""FlushConsumeQueueService: queues are synced before the log files of their records go."""

import errno

import pytest


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
