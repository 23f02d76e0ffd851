"""The facade of the engine: put results, reads, open and close."""

import os

import pytest

from broker.errors import StoreError, StoreLockedError, StoreStateError
from broker.message.record import decode_record, scan_records
from broker.store.message_store import (
    GetMessageStatus,
    MessageStore,
    PutMessageStatus,
)

S = GetMessageStatus
P = PutMessageStatus


def bodies(result):
    return [m.body for buffer in result.buffers for m in scan_records(buffer)]


def test_listeners_are_notified_of_dispatched_messages(stores, inner):
    store = stores.start()
    notified, filtered, waits = [], [], set()
    store.add_arriving_listener(lambda *args: notified.append(args))
    store.add_arriving_listener(lambda *args: filtered.append(args), waits)
    store.put_message(inner(properties={"TAGS": "TagA"}))
    waits.add("TopicB")
    store.put_message(inner(topic="TopicB", queue_id=2))
    assert [call[:3] for call in notified] == [("TopicA", 0, 1), ("TopicB", 2, 1)]
    assert notified[0][3:] == (2598919, stores.clock.now_ms(), b"TAGS\x01TagA\x02")
    assert [call[0] for call in filtered] == ["TopicB"]


def test_a_halt_leaves_the_files_of_a_kill_and_no_descriptor(stores, inner):
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before = descriptors()
    store = stores.start()
    store.put_message(inner())
    store.worker.drain()
    files = sorted((stores.root / "commitlog").iterdir())
    store.halt()
    assert sorted((stores.root / "commitlog").iterdir()) == files
    assert len(files) == 2  # the next file was prepared
    assert (stores.root / "abort").exists()
    assert descriptors() <= before


def test_a_clean_stop_removes_abort_and_the_unused_next_file(stores, inner):
    store = stores.start()
    store.put_message(inner())
    assert (stores.root / "abort").read_text().split()[0] == str(os.getpid())
    store.worker.drain()
    assert sorted(os.listdir(stores.root / "commitlog")) == ["0" * 20, f"{4096:020d}"]
    stores.close(store)
    assert not (stores.root / "abort").exists()
    assert os.listdir(stores.root / "commitlog") == ["0" * 20]
    assert (stores.root / "lock").read_text() == "lock"
    assert (stores.root / "checkpoint").stat().st_size == 4096


def test_every_file_has_its_full_length_and_space(stores, inner):
    store = stores.start()
    store.put_message(inner(properties={"KEYS": "k"}))
    for folder, size in (("commitlog", 4096), ("consumequeue", 400), ("index", 40 + 80 + 1000)):
        for path in (stores.root / folder).rglob("*"):
            if path.is_file():
                assert path.stat().st_size == size
                assert path.stat().st_blocks * 512 >= size


def test_the_prepared_file_is_used(stores, inner):
    store = stores.start()
    for n in range(10):
        store.put_message(inner(body=b"%04d" % n * 200))
        store.worker.drain()
    assert len(store.log.files.files) == 3


def test_a_second_store_on_the_directory_is_refused(stores):
    stores.start()
    with pytest.raises(StoreLockedError):
        stores.load()


def test_a_refused_store_touches_nothing(stores, inner):
    store = stores.start()
    store.put_message(inner())
    store.worker.drain()
    before = {p: p.stat().st_mtime_ns for p in stores.root.rglob("*")}
    with pytest.raises(StoreLockedError):
        MessageStore(store.config).load()
    assert {p: p.stat().st_mtime_ns for p in stores.root.rglob("*")} == before


def test_start_needs_load_and_load_comes_once(stores):
    with pytest.raises(StoreStateError):
        MessageStore(stores.config()).start()
    store = stores.load()
    with pytest.raises(StoreStateError):
        store.load()


def test_nothing_is_stored_before_start_and_after_shutdown(stores, inner):
    store = stores.load()
    assert store.put_message(inner()).status is P.SERVICE_NOT_AVAILABLE
    assert not store.writable
    store.start()
    assert store.writable
    assert store.put_message(inner()).status is P.PUT_OK
    stores.close(store)
    assert store.put_message(inner()).status is P.SERVICE_NOT_AVAILABLE
    assert "shutting down" in store.not_writable_reason


def test_shutdown_twice_does_nothing(stores):
    store = stores.start()
    stores.close(store)
    store.shutdown()


def test_a_failed_load_gives_the_lock_back(stores, inner):
    store = stores.start()
    store.put_message(inner())
    stores.close(store)
    stray = stores.root / "commitlog" / "notes.txt"
    stray.write_text("x")
    with pytest.raises(StoreError):
        stores.load()
    stray.unlink()
    assert stores.start().get_max_offset("TopicA", 0) == 1


def test_sizes_come_from_the_files_when_none_are_set(stores, inner):
    store = stores.start()
    for _ in range(30):
        store.put_message(inner(properties={"KEYS": "k"}))
    stores.close(store)
    default = MessageStore(
        type(store.config)(store_path_root_dir=str(stores.root), disk_max_used_space_ratio=95)
    )
    default.load()
    assert default.get_max_offset("TopicA", 0) == 30
    assert len(default.query_message("TopicA", "k", 64, 0, 1 << 62).buffers) == 30
    default.shutdown()


def test_sizes_that_do_not_fit_are_an_error_that_names_both(stores, inner):
    store = stores.start()
    store.put_message(inner(properties={"KEYS": "k"}))
    stores.close(store)
    for change, sizes in (
        ({"mapped_file_size_commit_log": 8192}, ("4096", "8192")),
        ({"mapped_file_size_consume_queue": 800}, ("400", "800")),
        ({"max_index_num": 60}, ("1120", "1320")),
    ):
        with pytest.raises(StoreError) as caught:
            stores.load(stores.config(**change))
        assert all(size in caught.value.message for size in sizes)


def test_a_deleted_topic_is_removed_and_restarts_at_offset_0(stores, inner):
    store = stores.start()
    for _ in range(25):
        store.put_message(inner())
    store.put_message(inner(topic="TopicB"))
    assert store.delete_topics(["TopicA", "Nobody"]) == ["TopicA"]
    assert not (stores.root / "consumequeue" / "TopicA").exists()
    assert store.get_message("TopicA", 0, 0).status is S.NO_MATCHED_LOGIC_QUEUE
    assert store.put_message(inner()).queue_offset == 0
    assert store.get_max_offset("TopicA", 0) == 1
    store = stores.reopen(store)
    assert store.get_max_offset("TopicA", 0) == 1
    assert store.get_max_offset("TopicB", 0) == 1


def test_a_deletion_that_cannot_be_noted_deletes_nothing_later(stores, inner, faulty_disk):
    store = stores.start(disk=faulty_disk)
    store.put_message(inner())
    faulty_disk.fail["rename"] = OSError(5, "Input/output error")
    with pytest.raises(OSError, match="Input/output error"):
        store.delete_topics(["TopicA"])
    del faulty_disk.fail["rename"]
    assert store.put_message(inner()).queue_offset == 1
    store.delete_topics(["TopicB"])
    store.try_write_manifest()
    stores.kill(store)
    store = stores.start()
    assert store.get_max_offset("TopicA", 0) == 2
    assert len(bodies(store.get_message("TopicA", 0, 0))) == 2


def test_a_light_queue_gets_a_unit_of_its_own(stores, inner):
    store = stores.start(stores.config(enable_multi_dispatch=True, enable_lmq=True))
    for n in range(3):
        names = "%LMQ%a,%LMQ%b" if n else "%LMQ%b"
        store.put_message(inner(body=b"%d" % n, properties={"INNER_MULTI_DISPATCH": names}))
    assert bodies(store.get_message("%LMQ%a", 0, 0)) == [b"1", b"2"]
    assert bodies(store.get_message("%LMQ%b", 0, 0)) == [b"0", b"1", b"2"]
    last = decode_record(store.get_message("TopicA", 0, 2).buffers[0])
    assert last.properties["INNER_MULTI_QUEUE_OFFSET"] == "1,2"
    store = stores.reopen(store)
    assert store.get_max_offset("%LMQ%a", 0) == 2


def test_a_batch_topic_counts_the_messages_within(stores, inner):
    store = stores.start()
    store.queue_table.set_batch_topics(["Bulk"])
    batch = {"INNER_NUM": "3", "UNIQ_KEY": "u"}
    first = store.put_message(inner(topic="Bulk", sys_flag=0xC0, properties=batch))
    second = store.put_message(inner(topic="Bulk", body=b"single"))
    third = store.put_message(inner(topic="Bulk", sys_flag=0xC0, properties=batch))
    assert [r.queue_offset for r in (first, second, third)] == [0, 3, 4]
    assert store.get_max_offset("Bulk", 0) == 7
    record = decode_record(store.get_record_at(third.physical_offset))
    assert record.properties["INNER_BASE"] == "4"
    result = store.get_message("Bulk", 0, 1, 32)
    assert (result.message_count, result.next_begin_offset) == (7, 7)
    result = store.get_message("Bulk", 0, 3, 1)
    assert (result.message_count, result.next_begin_offset) == (1, 4)
    store = stores.reopen(store)
    assert (store.get_min_offset("Bulk", 0), store.get_max_offset("Bulk", 0)) == (0, 7)
    assert (stores.root / "batchconsumequeue" / "Bulk" / "0").is_dir()


def test_a_directory_named_abort_is_refused_with_its_path(stores):
    (stores.root / "abort").mkdir(parents=True)
    with pytest.raises(StoreError, match=r"/store/abort: is a directory") as caught:
        stores.load()
    assert caught.value.hint == "move the directory away"
    assert (stores.root / "abort").is_dir()
    assert not (stores.root / "commitlog").exists()
    (stores.root / "abort").rmdir()
