"""Progress is written after the log it rests on."""

import pytest

from broker.errors import StoreStateError


@pytest.mark.parametrize("flush_type", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_progress_is_written_after_the_log_it_rests_on(stores, inner, flush_type):
    store = stores.start(stores.config(flush_disk_type=flush_type))
    result = store.put_message(inner())
    flushed_at_write = []
    job = store.flush_barrier.before(lambda: flushed_at_write.append(store.flushed_where))
    job()
    assert flushed_at_write[0] >= result.physical_end


def test_messages_stored_after_the_copy_are_not_waited_for(stores, inner, faulty_disk):
    store = stores.start(disk=faulty_disk)
    store.put_message(inner())
    assert store.flush()
    job = store.flush_barrier.before(lambda: None)
    store.put_message(inner())
    syncs = store.flusher.syncs
    job()
    assert store.flusher.syncs == syncs


def test_nothing_is_written_when_the_log_cannot_be_flushed(stores, inner, faulty_disk):
    store = stores.start(disk=faulty_disk)
    store.put_message(inner())
    written = []
    job = store.flush_barrier.before(lambda: written.append(1))
    faulty_disk.fail["sync_data"] = OSError(5, "Input/output error")
    with pytest.raises(StoreStateError, match="Input/output error"):
        job()
    assert written == []
