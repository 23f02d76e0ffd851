"""Reads: pulls, filters and limits, lookups by offset, key and time."""

import importlib

import pytest

from broker.message.record import decode_record, scan_records
from broker.store.message_store import GetMessageStatus, PutMessageStatus

S = GetMessageStatus
P = PutMessageStatus


def bodies(result):
    return [m.body for buffer in result.buffers for m in scan_records(buffer)]


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


def test_a_read_without_a_filter_equals_one_whose_filter_accepts_all(stores, inner, rng):
    store = stores.start()
    for n in range(60):
        body = b"%04d" % n * rng.randrange(1, 200)
        store.put_message(inner(body=body, topic=rng.choice("AAB")))
    for _ in range(300):
        topic, start = rng.choice("AB"), rng.randrange(-1, 45)
        limits = rng.randrange(1, 40), rng.choice((0, 1, 900, 2_000, 10_000))
        plain = store.get_message(topic, 0, start, *limits)
        assert plain == store.get_message(topic, 0, start, *limits, matcher=lambda code: True)


@pytest.fixture(params=["slices", "copies"])
def ordinary(request, stores):
    """``ordinary(store, …)``: get_ordinary, by slices and by the compiled loop, as get_message."""
    make = None
    if request.param == "copies":
        pytest.importorskip("numba", reason="the compiled loops need the extra 'fast'")
        make = importlib.import_module("broker.store.pulling.record_copies").RecordCopies

    def read(store, topic, start, count=32):
        """The bodies, None for an unusual read; equal to those of a read."""
        if make is not None and store.reader.copies is None:
            store.reader.copies = make(store.reader)
        found = store.get_ordinary(topic, 0, start, count)
        if found is None:
            return None
        number, size, records, queue = found
        # Before the next call: the records are valid until then.
        parts = b"".join(records)
        result = store.get_message(topic, 0, start, count)
        assert (result.status, result.message_count, result.total_bytes) == (S.FOUND, number, size)
        assert parts == b"".join(result.buffers)
        assert len(parts) == size
        assert (result.min_offset, result.max_offset) == (queue.min_offset, queue.max_offset)
        assert result.next_begin_offset == start + number
        return bodies(result)

    return read


class TestOrdinaryReads:
    """Reads without a filter by get_ordinary: those of get_message, or left to it."""

    def test_random_places(self, stores, inner, rng, ordinary):
        store = stores.start(stores.config(mapped_file_size_commit_log=1 << 16))
        for n in range(60):
            body = b"%04d" % n * rng.randrange(1, 200)
            store.put_message(inner(body=body, topic=rng.choice("AAB")))
        found = [
            ordinary(store, rng.choice("ABC"), rng.randrange(-2, 45), rng.randrange(1, 40))
            for _ in range(300)
        ]
        assert sum(one is not None for one in found) > 10

    def test_the_whole_queue_by_one_read_after_the_other(self, stores, inner, ordinary):
        store = stores.start(stores.config(mapped_file_size_commit_log=1 << 20))
        for n in range(55):
            store.put_message(inner(body=b"%d" % n))
        seen = []
        while (part := ordinary(store, "TopicA", len(seen), 7)) is not None:
            seen += part
        assert seen == [b"%d" % n for n in range(55)]

    def test_the_limit_of_bytes_is_left(self, stores, inner, ordinary):
        config = stores.config(max_transfer_bytes_on_message_in_memory=2_000)
        store = stores.start(config)
        for _ in range(3):
            store.put_message(inner(body=bytes(900)))
        assert ordinary(store, "TopicA", 0) is None
        assert ordinary(store, "TopicA", 0, 1) == [bytes(900)]

    def test_the_configured_number_of_messages(self, stores, inner, ordinary):
        store = stores.start(stores.config(max_transfer_count_on_message_in_memory=2))
        for n in range(3):
            store.put_message(inner(body=b"%d" % n))
        assert ordinary(store, "TopicA", 0) == [b"0", b"1"]

    def test_a_damaged_region_is_left(self, stores, inner, ordinary):
        store = stores.start()
        places = [store.put_message(inner()).physical_offset for _ in range(3)]
        store.reader.damaged.append((places[1], places[2]))
        assert ordinary(store, "TopicA", 0) is None

    def test_expired_messages_are_left(self, stores, inner, ordinary):
        store = stores.start()
        for n in range(12):
            store.put_message(inner(body=b"%04d" % n * 200))
        store.flush()
        store.log.files.remove_first()
        assert ordinary(store, "TopicA", 0) is None
        assert ordinary(store, "TopicA", 4, 2) is not None

    def test_records_that_were_not_compared_are_left_once(self, stores, inner, ordinary):
        store = stores.start()
        for n in range(5):
            store.put_message(inner(body=b"%d" % n))
        store = stores.reopen(store)
        assert ordinary(store, "TopicA", 0) is None
        store.get_message("TopicA", 0, 0, 32)
        assert ordinary(store, "TopicA", 0) == [b"%d" % n for n in range(5)]

    @pytest.mark.parametrize("number", [0, 2, 3])
    def test_a_filler_unit_is_left(self, stores, inner, ordinary, number):
        """A copy of the next unit: the message of its offset is lost."""
        store = stores.start()
        for n in range(5):
            store.put_message(inner(body=b"%d" % n))
        mapping = store.queue_table.find("TopicA", 0).files.files[0].mapping
        unit = slice(20 * number, 20 * number + 20)
        before = mapping[unit]
        mapping[unit] = mapping[20 * number + 20 : 20 * number + 40]
        assert ordinary(store, "TopicA", 0, number + 1) is None
        if number:
            assert ordinary(store, "TopicA", 0, number) == [b"%d" % n for n in range(number)]
        mapping[unit] = before

    @pytest.mark.parametrize("size", [0, -1, -50, -(2**31)])
    @pytest.mark.parametrize("number", range(4))
    @pytest.mark.parametrize("topics", ["A", "AB"])
    def test_a_unit_without_a_size_is_left(self, stores, inner, ordinary, topics, number, size):
        store = stores.start()
        for _ in range(4):
            for topic in topics:
                store.put_message(inner(topic))
        mapping = store.queue_table.find("A", 0).files.files[0].mapping
        place = slice(20 * number + 8, 20 * number + 12)
        before = mapping[place]
        mapping[place] = size.to_bytes(4, "big", signed=True)
        ordinary(store, "A", 0, 0)  # chooses slices or copies
        assert store.get_ordinary("A", 0, 0, 4) is None
        mapping[place] = before

    def test_batch_queues_are_left(self, stores, inner, ordinary):
        store = stores.start()
        store.queue_table.set_batch_topics(["Bulk"])
        store.put_message(inner("Bulk", sys_flag=0xC0, properties={"INNER_NUM": "3"}))
        assert ordinary(store, "Bulk", 0) is None


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
        store.put_message(
            inner(body=b"%d" % n, properties={"TAGS": "hit" if n % 100 == 99 else "x"})
        )
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
    store.reader.damaged.append((places[1], places[2]))
    assert store.get_record_at(places[1]) is None
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


def test_only_the_start_of_a_record_is_looked_up(stores, inner):
    store = stores.start()
    store.put_message(inner())
    place = store.put_message(inner(body=bytes(100)))
    assert store.get_record_at(place.physical_offset, place.store_size) is not None
    assert store.get_record_at(place.physical_offset, place.store_size - 1) is None
    for offset in (-1, 1, place.physical_offset + 1, place.physical_end, 4096, 1 << 40):
        assert store.get_record_at(offset) is None


def test_a_record_inside_a_body_is_not_a_record(stores, inner):
    store = stores.start()
    first = store.put_message(inner())
    copy = bytes(store.get_record_at(first.physical_offset))
    second = store.put_message(inner(body=copy))
    assert store.get_record_at(second.physical_offset + 88) is None


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


OWN_OFFSET_AT = 28


def damage_own_offset(stores, physical_offset):
    start = physical_offset - physical_offset % 4096
    path = stores.root / "commitlog" / f"{start:020d}"
    data = bytearray(path.read_bytes())
    data[physical_offset - start + OWN_OFFSET_AT + 7] ^= 1
    path.write_bytes(data)


def test_a_pull_skips_and_reports_a_record_with_a_wrong_physical_offset(stores, inner, caplog):
    """A clean start reads no records: the pull finds it."""
    store = stores.start()
    places = [store.put_message(inner(body=b"%d" % n)) for n in range(6)]
    stores.close(store)
    for number in (2, 3, 5):
        damage_own_offset(stores, places[number].physical_offset)
    store = stores.start()
    assert store.report.damaged_regions == []
    result = store.get_message("TopicA", 0, 0, 32)
    assert bodies(result) == [b"0", b"1", b"4"]
    assert (result.next_begin_offset, result.message_count) == (6, 3)
    assert store.reader.damaged == [
        (places[2].physical_offset, places[3].physical_end),
        (places[5].physical_offset, places[5].physical_end),
    ]
    reported = [line for line in caplog.messages if "wrong physical offset" in line]
    assert len(reported) == 2
    assert f"at physical offset {places[2].physical_offset}" in reported[0]
    assert bodies(store.get_message("TopicA", 0, 3, 32)) == [b"4"]
    assert store.get_message("TopicA", 0, 5, 32).message_count == 0
    assert store.get_record_at(places[2].physical_offset) is None
    # Hidden after a restart, too, and the offsets continue.
    assert store.put_message(inner(body=b"6")).queue_offset == 6
    store = stores.reopen(store)
    assert store.reader.damaged[0] == (places[2].physical_offset, places[3].physical_end)
    assert bodies(store.get_message("TopicA", 0, 0, 32)) == [b"0", b"1", b"4", b"6"]


def test_a_pull_of_batches_skips_a_record_with_a_wrong_physical_offset(stores, inner):
    store = stores.start()
    store.queue_table.set_batch_topics(["Bulk"])
    batch = {"INNER_NUM": "3"}
    places = [
        store.put_message(inner("Bulk", body=b"%d" % n, sys_flag=0xC0, properties=batch))
        for n in range(3)
    ]
    stores.close(store)
    damage_own_offset(stores, places[1].physical_offset)
    store = stores.start()
    result = store.get_message("Bulk", 0, 0, 32)
    assert (result.message_count, result.next_begin_offset) == (6, 9)
    assert bodies(result) == [b"0", b"2"]
    assert store.reader.damaged == [(places[1].physical_offset, places[1].physical_end)]


def test_a_pull_skips_a_record_with_a_wrong_size(stores, inner, caplog):
    store = stores.start()
    places = [store.put_message(inner(body=b"%d" % n)) for n in range(6)]
    stores.close(store)
    path = stores.root / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[places[2].physical_offset + 2] ^= 1
    path.write_bytes(data)
    store = stores.start()
    for _ in range(2):
        assert bodies(store.get_message("TopicA", 0, 0, 32)) == [b"0", b"1", b"3", b"4", b"5"]
    assert store.reader.damaged == [(places[2].physical_offset, places[2].physical_end)]
    assert any("wrong size in the record: skipped" in line for line in caplog.messages)


def test_each_record_is_compared_with_its_position_once(stores, inner):
    """A second pull of the same records costs as before; a filtered pull skips some."""
    store = stores.start()
    places = [store.put_message(inner(body=b"%d" % n)) for n in range(6)]
    stores.close(store)
    store = stores.start()
    queue = store.queue_table.find("TopicA", 0)
    assert store.get_message("TopicA", 0, 0, 32, matcher=lambda code: False).message_count == 0
    assert queue.checked == (0, 0)
    assert store.get_message("TopicA", 0, 0, 4).message_count == 4
    assert queue.checked == (0, 4)
    damage_own_offset(stores, places[5].physical_offset)  # the file is mapped
    damage_own_offset(stores, places[3].physical_offset)
    assert bodies(store.get_message("TopicA", 0, 0, 4)) == [b"0", b"1", b"2", b"3"]
    assert bodies(store.get_message("TopicA", 0, 4, 4)) == [b"4"]
    damage_own_offset(stores, places[3].physical_offset)
