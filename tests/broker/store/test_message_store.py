"""The engine's front door: what a put answers, what a read finds, how a store opens and closes."""

import os
from pathlib import Path

import pytest

from broker.errors import DiskFullError, StoreError, StoreLockedError, StoreStateError
from broker.message.record import decode_record, scan_records
from broker.store.files import Disk
from broker.store.message_store import (
    GetMessageStatus,
    MessageStore,
    PutMessageStatus,
)

S = GetMessageStatus
P = PutMessageStatus


def bodies(result):
    return [m.body for buffer in result.buffers for m in scan_records(buffer)]


# --- put ------------------------------------------------------------------------------------------


def test_a_put_message_is_found_where_the_result_says(stores, inner):
    store = stores.start()
    result = store.put_message(inner(body=b"one", queue_id=3, properties={"TAGS": "TagA"}))
    assert result.status is P.PUT_OK
    assert (result.queue_offset, result.physical_offset, result.message_count) == (0, 0, 1)
    assert result.store_timestamp == stores.clock.now_ms()
    message = decode_record(store.look_message(result.physical_offset), check_crc=True)
    assert (message.topic, message.queue_id, message.body) == ("TopicA", 3, b"one")
    assert message.store_timestamp == stores.clock.now_ms()
    assert message.total_size == result.store_size == result.physical_end


def test_queue_offsets_count_up_per_queue(stores, inner):
    store = stores.start()
    offsets = [store.put_message(inner(queue_id=n % 2)).queue_offset for n in range(6)]
    assert offsets == [0, 0, 1, 1, 2, 2]
    assert store.queues() == {"TopicA": [0, 1]}


def test_queue_offsets_go_on_after_a_restart(stores, inner):
    store = stores.start()
    for _ in range(30):
        store.put_message(inner())
    store = stores.reopen(store)
    assert store.put_message(inner()).queue_offset == 30
    assert store.report.clean


def test_prepared_and_rollback_records_take_no_queue_offset(stores, inner):
    store = stores.start()
    store.put_message(inner())
    for flag in (0x4, 0xC):
        assert store.put_message(inner(sys_flag=flag)).queue_offset == 0
    assert store.put_message(inner(sys_flag=0x8)).queue_offset == 1
    assert store.get_max_offset("TopicA", 0) == 2


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"body": bytes(3001)}, P.MESSAGE_ILLEGAL),
        ({"topic": "t" * 128}, P.MESSAGE_ILLEGAL),
        ({"topic": "%RETRY%" + "t" * 249}, P.MESSAGE_ILLEGAL),
        ({"topic": ""}, P.MESSAGE_ILLEGAL),
        ({"topic": "../up"}, P.MESSAGE_ILLEGAL),
        ({"queue_id": -1}, P.MESSAGE_ILLEGAL),
        ({"properties": b"k\x01" + bytes(32_766) + b"\x02"}, P.PROPERTIES_SIZE_EXCEEDED),
        ({"sys_flag": 0x80}, P.MESSAGE_ILLEGAL),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(stores, inner, change, status):
    store = stores.start()
    result = store.put_message(inner(**change))
    assert result.status is status
    assert result.remark
    assert store.max_physical_offset == 0
    assert store.put_failed == 1


def test_the_limits_themselves_fit(stores, inner):
    store = stores.start(stores.config(mapped_file_size_commit_log=65536))
    assert store.put_message(inner(body=bytes(3000))).status is P.PUT_OK
    assert store.put_message(inner(properties=b"k\x01" + b"v" * 32_764 + b"\x02")).status is P.PUT_OK
    assert store.put_message(inner(topic="t" * 127)).status is P.PUT_OK
    assert store.put_message(inner(topic="%RETRY%" + "t" * 248)).status is P.PUT_OK


def test_a_record_longer_than_a_file_is_illegal(stores, inner):
    store = stores.start(stores.config(max_message_size=10_000))
    assert store.put_message(inner(body=bytes(5000))).status is P.MESSAGE_ILLEGAL
    assert store.put_message(inner()).status is P.PUT_OK


def test_an_empty_body_has_crc_0(stores, inner):
    store = stores.start()
    result = store.put_message(inner(body=b""))
    assert decode_record(store.look_message(result.physical_offset)).body_crc == 0


def test_a_body_may_be_a_memoryview(stores, inner):
    store = stores.start()
    result = store.put_message(inner(body=memoryview(b"xxbodyxx")[2:6]))
    assert decode_record(store.look_message(result.physical_offset)).body == b"body"


def test_ipv6_hosts_set_their_flags(stores, inner):
    store = stores.start()
    message = inner()
    message.born_host = bytes(15) + b"\x01\0\0\0\x07"
    result = store.put_message(message)
    found = decode_record(store.look_message(result.physical_offset))
    assert found.sys_flag == 0x10
    assert found.born_host == "[::1]:7"


def test_a_batch_stands_together_in_one_file(stores, inner):
    store = stores.start()
    store.put_message(inner(body=bytes(2500)))
    results = store.put_messages([inner(body=bytes(500)) for _ in range(4)])
    assert [r.queue_offset for r in results] == [1, 2, 3, 4]
    starts = [r.physical_offset for r in results]
    assert starts[0] == 4096
    assert [r.physical_end for r in results[:-1]] == starts[1:]
    assert store.get_max_offset("TopicA", 0) == 5


def test_a_batch_is_stored_as_a_whole_or_not_at_all(stores, inner):
    store = stores.start()
    results = store.put_messages([inner(), inner(body=bytes(4000))])
    assert [r.status for r in results] == [P.MESSAGE_ILLEGAL]
    results = store.put_messages([inner(body=bytes(2000)) for _ in range(3)])
    assert [r.status for r in results] == [P.MESSAGE_ILLEGAL]
    assert store.max_physical_offset == 0


def test_store_times_never_decrease(stores, inner):
    store = stores.start()
    first = store.put_message(inner()).store_timestamp
    stores.clock.jump(-5000)
    assert store.put_message(inner()).store_timestamp == first


def test_dispatch_is_put_off_to_the_end_of_the_turn(stores, inner):
    turn = []
    store = stores.start(defer=turn.append)
    for _ in range(3):
        store.put_message(inner())
    assert len(turn) == 1
    assert store.get_max_offset("TopicA", 0) == 0
    assert store.dispatch_behind_bytes == store.max_physical_offset
    turn.pop()()
    assert store.get_max_offset("TopicA", 0) == 3
    assert store.dispatch_behind_bytes == 0
    store.put_message(inner())
    assert len(turn) == 1


# --- get ------------------------------------------------------------------------------------------


def test_statuses_of_a_read(stores, inner):
    store = stores.start()
    for n in range(5):
        store.put_message(inner(body=b"%d" % n))
    cases = {
        ("Nobody", 0, 0): (S.NO_MATCHED_LOGIC_QUEUE, 0),
        ("TopicA", 1, 0): (S.NO_MATCHED_LOGIC_QUEUE, 0),
        ("TopicA", 0, 5): (S.OFFSET_OVERFLOW_ONE, 5),
        ("TopicA", 0, 6): (S.OFFSET_OVERFLOW_BADLY, 5),
        ("TopicA", 0, -1): (S.OFFSET_TOO_SMALL, 0),
    }
    for (topic, queue_id, offset), (status, following) in cases.items():
        result = store.get_message(topic, queue_id, offset, 32)
        assert (result.status, result.next_begin_offset) == (status, following)
        assert result.buffers == []
    result = store.get_message("TopicA", 0, 2, 2)
    assert result.status is S.FOUND
    assert (result.next_begin_offset, result.min_offset, result.max_offset) == (4, 0, 5)
    assert bodies(result) == [b"2", b"3"]
    assert result.total_bytes == sum(len(buffer) for buffer in result.buffers)


def test_neighbours_in_the_log_come_in_one_slice(stores, inner):
    store = stores.start()
    for n in range(6):
        store.put_message(inner(body=b"%d" % n, topic="B" if n == 3 else "A"))
    result = store.get_message("A", 0, 0, 32)
    assert bodies(result) == [b"0", b"1", b"2", b"4", b"5"]
    assert len(result.buffers) == 2


def test_a_read_crosses_log_files(stores, inner):
    store = stores.start()
    for n in range(12):
        store.put_message(inner(body=b"%04d" % n * 200))
    result = store.get_message("TopicA", 0, 0, 32)
    assert [body[:4] for body in bodies(result)] == [b"%04d" % n for n in range(12)]


def test_a_read_ends_at_the_end_of_a_queue_file(stores, inner):
    store = stores.start()
    for _ in range(25):
        store.put_message(inner())
    assert store.get_message("TopicA", 0, 15, 32).next_begin_offset == 20
    assert store.get_message("TopicA", 0, 20, 32).next_begin_offset == 25


def test_bytes_limit_applies_from_the_second_message_on(stores, inner):
    store = stores.start()
    for _ in range(3):
        store.put_message(inner(body=bytes(1000)))
    assert store.get_message("TopicA", 0, 0, 32, 10).message_count == 1
    assert store.get_message("TopicA", 0, 0, 32, 2300).message_count == 2


def test_configured_limits_bound_a_read(stores, inner):
    config = stores.config(max_transfer_count_on_message_in_memory=2)
    store = stores.start(config)
    for _ in range(3):
        store.put_message(inner())
    assert store.get_message("TopicA", 0, 0, 32).message_count == 2


def test_old_messages_have_their_own_limits_and_suggest_a_slave(stores, inner):
    config = stores.config(
        access_message_in_memory_max_ratio=0, max_transfer_count_on_message_in_disk=1
    )
    store = stores.start(config)
    for _ in range(3):
        store.put_message(inner())
    result = store.get_message("TopicA", 0, 0, 32)
    assert (result.message_count, result.suggest_slave) == (1, True)
    assert store.get_message("TopicA", 0, 2, 32).suggest_slave is False


def test_a_tag_filter_looks_at_many_units(stores, inner):
    store = stores.start(stores.config(mapped_file_size_consume_queue=40_000))
    for n in range(300):
        store.put_message(inner(body=b"%d" % n, properties={"TAGS": "hit" if n % 100 == 99 else "x"}))
    code = store.reput.tags_code(b"TAGS\x01hit\x02")
    result = store.get_message("TopicA", 0, 0, 32, matcher=lambda c: c == code)
    assert bodies(result) == [b"99", b"199", b"299"]
    assert result.next_begin_offset == 300
    result = store.get_message("TopicA", 0, 0, 2, matcher=lambda c: c == code)
    assert bodies(result) == [b"99", b"199"]
    result = store.get_message("TopicA", 0, 0, 32, matcher=lambda c: False)
    assert (result.status, result.next_begin_offset) == (S.NO_MATCHED_MESSAGE, 300)


def test_a_record_filter_sees_the_raw_properties(stores, inner):
    store = stores.start()
    for n in range(4):
        store.put_message(inner(body=b"%d" % n, properties={"a": str(n)}))
    result = store.get_message("TopicA", 0, 0, 32, record_matcher=lambda raw: b"a\x012\x02" in raw)
    assert bodies(result) == [b"2"]
    assert result.next_begin_offset == 4


def test_records_of_a_deleted_file_were_removed(stores, inner):
    store = stores.start()
    for n in range(12):
        store.put_message(inner(body=b"%04d" % n * 200))
    store.flush()
    store.log.files.remove_first()
    result = store.get_message("TopicA", 0, 0, 2)
    assert (result.status, result.next_begin_offset) == (S.MESSAGE_WAS_REMOVING, 2)
    result = store.get_message("TopicA", 0, 0, 32)
    assert bodies(result)[0][:4] == b"0004"


def test_damaged_records_are_never_handed_out(stores, inner):
    store = stores.start()
    places = [store.put_message(inner(body=b"%d" % n)).physical_offset for n in range(3)]
    store.damaged.add(places[1])
    result = store.get_message("TopicA", 0, 0, 32)
    assert bodies(result) == [b"0", b"2"]
    assert result.next_begin_offset == 3


def test_slices_stay_valid_after_their_file_is_gone(stores, inner):
    store = stores.start()
    for n in range(8):
        store.put_message(inner(body=b"%04d" % n * 200))
    result = store.get_message("TopicA", 0, 0, 2)
    store.flush()
    store.log.files.remove_first()
    assert [body[:4] for body in bodies(result)] == [b"0000", b"0001"]


# --- looking up -----------------------------------------------------------------------------------


def test_only_the_start_of_a_record_is_looked_up(stores, inner):
    store = stores.start()
    store.put_message(inner())
    place = store.put_message(inner(body=bytes(100)))
    assert store.look_message(place.physical_offset, place.store_size) is not None
    assert store.look_message(place.physical_offset, place.store_size - 1) is None
    for offset in (-1, 1, place.physical_offset + 1, place.physical_end, 4096, 1 << 40):
        assert store.look_message(offset) is None


def test_a_record_inside_a_body_is_no_record(stores, inner):
    store = stores.start()
    first = store.put_message(inner())
    copy = bytes(store.look_message(first.physical_offset))
    second = store.put_message(inner(body=copy))
    assert store.look_message(second.physical_offset + 88) is None


def test_query_by_key_finds_each_word_of_keys(stores, inner):
    store = stores.start()
    properties = {"UNIQ_KEY": "AC10", "KEYS": "k1  k2"}
    place = store.put_message(inner(properties=properties)).physical_offset
    for key in ("AC10", "k1", "k2"):
        result = store.query_message("TopicA", key, 32, 0, 1 << 62)
        assert [decode_record(b).physical_offset for b in result.buffers] == [place]
        assert result.index_last_update_physical_offset == place
        assert result.index_last_update_timestamp == stores.clock.now_ms()
    assert store.query_message("TopicB", "k1", 32, 0, 1 << 62).buffers == []
    assert store.query_message("TopicA", "k3", 32, 0, 1 << 62).buffers == []


def test_query_looks_at_store_time(stores, inner):
    store = stores.start()
    times = []
    for _ in range(3):
        times.append(store.put_message(inner(properties={"KEYS": "k"})).store_timestamp)
        stores.clock.advance(10_000)
    query = store.query_message
    assert len(query("TopicA", "k", 32, times[0], times[2]).buffers) == 3
    assert len(query("TopicA", "k", 32, times[1], times[1]).buffers) == 1
    assert len(query("TopicA", "k", 32, times[2] + 1, 1 << 62).buffers) == 0
    assert len(query("TopicA", "k", 2, 0, 1 << 62).buffers) == 2


def test_query_answers_at_most_max_msgs_num_batch(stores, inner):
    store = stores.start(stores.config(max_msgs_num_batch=3))
    for _ in range(5):
        store.put_message(inner(properties={"KEYS": "k"}))
    assert len(store.query_message("TopicA", "k", 100, 0, 1 << 62).buffers) == 3


def test_query_spans_index_files(stores, inner):
    store = stores.start()
    for n in range(120):
        store.put_message(inner(properties={"KEYS": f"k{n % 4}"}))
    assert len(store.index.files) == 3
    assert len(store.query_message("TopicA", "k1", 64, 0, 1 << 62).buffers) == 30


def test_a_key_of_a_deleted_log_file_answers_nothing(stores, inner):
    store = stores.start()
    store.put_message(inner(body=bytes(3000), properties={"KEYS": "old"}))
    store.put_message(inner(body=bytes(3000), properties={"KEYS": "new"}))
    store.flush()
    store.log.files.remove_first()
    assert store.query_message("TopicA", "old", 32, 0, 1 << 62).buffers == []
    assert len(store.query_message("TopicA", "new", 32, 0, 1 << 62).buffers) == 1


def test_without_index_nothing_is_found_and_nothing_written(stores, inner):
    store = stores.start(stores.config(message_index_enable=False))
    store.put_message(inner(properties={"KEYS": "k"}))
    assert store.query_message("TopicA", "k", 32, 0, 1 << 62).buffers == []
    assert not (stores.root / "index").exists()


def test_offset_by_time(stores, inner):
    store = stores.start()
    start = stores.clock.now_ms()
    for _ in range(3):  # two messages at each of three times
        store.put_message(inner())
        store.put_message(inner())
        stores.clock.advance(1000)
    find = store.offset_by_time
    cases = [
        (start - 1, 0, 0),
        (start, 0, 1),
        (start + 1, 2, 1),
        (start + 1000, 2, 3),
        (start + 2000, 4, 5),
        (start + 2001, 6, 5),
    ]
    for timestamp, lower, upper in cases:
        assert find("TopicA", 0, timestamp) == lower
        assert find("TopicA", 0, timestamp, "UPPER") == upper
    assert find("Nobody", 0, start) == 0


def test_times_of_messages(stores, inner):
    store = stores.start()
    assert store.earliest_message_time() == -1
    first = store.put_message(inner()).store_timestamp
    stores.clock.advance(5)
    store.put_message(inner())
    assert store.earliest_message_time() == first
    assert store.earliest_message_time("TopicA", 0) == first
    assert store.store_timestamp_at("TopicA", 0, 1) == first + 5
    assert store.store_timestamp_at("TopicA", 0, 2) == -1
    assert store.earliest_message_time("Nobody", 0) == -1


def test_units_are_shown_across_files(stores, inner):
    store = stores.start()
    for _ in range(25):
        store.put_message(inner())
    units = store.consume_queue_units("TopicA", 0, 18, 5)
    assert [unit.queue_offset for unit in units] == [18, 19, 20, 21, 22]
    assert store.consume_queue_units("TopicA", 9, 0, 5) == []


# --- listeners ------------------------------------------------------------------------------------


def test_listeners_hear_of_dispatched_messages(stores, inner):
    store = stores.start()
    heard, filtered, waits = [], [], set()
    store.add_arriving_listener(lambda *args: heard.append(args))
    store.add_arriving_listener(lambda *args: filtered.append(args), waits)
    store.put_message(inner(properties={"TAGS": "TagA"}))
    waits.add("TopicB")
    store.put_message(inner(topic="TopicB", queue_id=2))
    assert [call[:3] for call in heard] == [("TopicA", 0, 1), ("TopicB", 2, 1)]
    assert heard[0][3:] == (2598919, stores.clock.now_ms(), b"TAGS\x01TagA\x02")
    assert [call[0] for call in filtered] == ["TopicB"]


# --- life -----------------------------------------------------------------------------------------


def test_a_clean_stop_removes_abort_and_the_unused_next_file(stores, inner):
    store = stores.start()
    store.put_message(inner())
    assert (stores.root / "abort").read_text().split()[0] == str(os.getpid())
    store._worker.drain()
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
        store._worker.drain()
    assert len(store.log.files.files) == 3


def test_a_second_store_on_the_directory_is_refused(stores):
    stores.start()
    with pytest.raises(StoreLockedError):
        stores.load()


def test_a_refused_store_touches_nothing(stores, inner):
    store = stores.start()
    store.put_message(inner())
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


# --- full disks -----------------------------------------------------------------------------------


def test_a_full_disk_is_an_answer_and_ends_by_itself(stores, inner, faulty_disk):
    store = stores.start(disk=faulty_disk)
    store.put_message(inner(body=bytes(3000)))
    store._worker.drain()
    store.log.preparer.discard()
    faulty_disk.fail["reserve"] = DiskFullError("commitlog/x: No space left on device")
    end = store.max_physical_offset
    result = store.put_message(inner(body=bytes(3000)))
    assert result.status is P.SERVICE_NOT_AVAILABLE
    assert "No space" in result.remark
    assert store.max_physical_offset == end
    assert not store.writable
    assert store.put_message(inner()).status is P.SERVICE_NOT_AVAILABLE
    assert bodies(store.get_message("TopicA", 0, 0)) == [bytes(3000)]
    del faulty_disk.fail["reserve"]
    stores.clock.advance(1_000)
    result = store.put_message(inner(body=bytes(3000)))
    assert (result.status, result.queue_offset) == (P.PUT_OK, 1)
    assert store.writable


def test_a_full_disk_under_a_queue_keeps_the_message_for_later(stores, inner, faulty_disk):
    store = stores.start(disk=faulty_disk)
    store.put_message(inner())
    faulty_disk.fail["reserve"] = DiskFullError("consumequeue/x: No space left on device")
    result = store.put_message(inner(topic="TopicB"))
    assert result.status is P.PUT_OK
    assert store.get_max_offset("TopicB", 0) == 0
    assert store.dispatch_behind_bytes == result.store_size
    assert not store.writable
    del faulty_disk.fail["reserve"]
    stores.clock.advance(1_000)
    assert store.put_message(inner()).status is P.PUT_OK
    assert store.get_max_offset("TopicB", 0) == 1
    assert store.dispatch_behind_bytes == 0


def test_a_limit_on_file_size_is_no_signal(stores, inner, tmp_path: Path):
    import resource

    store = stores.start()
    store.put_message(inner(body=bytes(3000)))
    store._worker.drain()
    store.log.preparer.discard()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        result = store.put_message(inner(body=bytes(3000)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert result.status is P.SERVICE_NOT_AVAILABLE
    assert isinstance(Disk(), Disk)


# --- topics ---------------------------------------------------------------------------------------


def test_a_deleted_topic_is_gone_and_begins_anew(stores, inner):
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


# --- light and batch queues -----------------------------------------------------------------------


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
    record = decode_record(store.look_message(third.physical_offset))
    assert record.properties["INNER_BASE"] == "4"
    result = store.get_message("Bulk", 0, 1, 32)
    assert (result.message_count, result.next_begin_offset) == (7, 7)
    result = store.get_message("Bulk", 0, 3, 1)
    assert (result.message_count, result.next_begin_offset) == (1, 4)
    store = stores.reopen(store)
    assert (store.get_min_offset("Bulk", 0), store.get_max_offset("Bulk", 0)) == (0, 7)
    assert (stores.root / "batchconsumequeue" / "Bulk" / "0").is_dir()
