"""An IndexFile after a power cut: the valid prefix is kept, everything else is derived from it."""

import pytest

from broker.message.record import decode_record
from broker.store.index.index_file import IndexFile
from broker.store.recovery.index_validator import IndexValidator

ENTRY = 20
SLOTS = 20
ENTRIES_AT = 40 + SLOTS * 4


@pytest.fixture
def store(stores, inner):
    """One index file of 40 entries for 20 messages with two keys each."""
    store = stores.start()
    for number in range(20):
        stores.clock.advance(1500)
        keys = {"UNIQ_KEY": f"U{number}", "KEYS": f"k{number % 7}"}
        store.put_message(inner(body=b"%03d" % number, properties=keys))
    yield store
    # Tests leave damage behind, which the check of every closed store would find.
    store.index.drop_from(0)


@pytest.fixture
def index(store) -> IndexFile:
    return store.index.files[0]


@pytest.fixture
def validator(store):
    return IndexValidator(store.log, store.reput)


def damage(index, number, data=bytes(ENTRY), at=0):
    start = ENTRIES_AT + number * ENTRY + at
    index.file.mapping[start : start + len(data)] = data


def content(index):
    return bytes(index.file.mapping[: ENTRIES_AT + index.count * ENTRY])


def test_a_whole_file_is_valid_to_its_end(validator, index):
    assert validator.valid_entries(index) == index.count == 41


@pytest.mark.parametrize("number", [1, 2, 17, 30, 40])
def test_entries_end_at_the_first_that_is_not_valid(validator, index, number):
    damage(index, number)
    # A message counts with both of its keys or not at all.
    assert validator.valid_entries(index) == number - (number - 1) % 2


@pytest.mark.parametrize(("at", "data"), [(0, b"\0\0\0\1"), (4, b"\1"), (11, b"\7")])
def test_an_entry_of_another_record_or_key_is_not_valid(validator, index, at, data):
    damage(index, 21, data, at)
    assert validator.valid_entries(index) == 21


@pytest.mark.parametrize("corruption", ["header", "slots", "links", "seconds"])
def test_all_other_files_are_rebuilt(validator, index, corruption):
    before = content(index)
    mapping = index.file.mapping
    if corruption == "header":
        mapping[:40] = bytes(40)
        index.count, index.begin_timestamp, index.end_timestamp = 1, 0, 0
    elif corruption == "slots":
        mapping[40:ENTRIES_AT] = bytes([0, 0, 1, 7]) * SLOTS
    else:
        for number in range(2, 41):
            damage(index, number, bytes(4), 12 if corruption == "seconds" else 16)
    validator.restore(index, validator.valid_entries(index))
    assert content(index) == before


def test_a_cut_file_keeps_its_entries_and_takes_new_ones(validator, store, index, inner):
    damage(index, 31, bytes(ENTRY * 10))
    kept = validator.valid_entries(index)
    assert kept == 31
    validator.restore(index, kept)
    assert index.end_physical_offset == store.queue_table.find("TopicA", 0).unit(14)[0]
    for number in range(20):
        found = store.query_message("TopicA", f"U{number}", 9, 0, 1 << 62)
        assert len(found.buffers) == (number < 15)
    store.put_message(inner(body=b"new", properties={"UNIQ_KEY": "new"}))
    assert len(store.query_message("TopicA", "new", 9, 0, 1 << 62).buffers) == 1


def test_entries_of_deleted_records_cannot_be_checked_and_stay(validator, store, index):
    store.flush()
    store.log.files.file_size = 4096
    first = index.file.mapping[ENTRIES_AT + ENTRY + 4 : ENTRIES_AT + ENTRY + 12]
    assert int.from_bytes(first, "big") == 0
    damage(index, 1, b"\x12\x34\x56\x78")
    assert validator.valid_entries(index) == 1
    store.log.files.files[0].start += 4096  # as if the log began behind all of them
    try:
        assert validator.valid_entries(index) > 1
    finally:
        store.log.files.files[0].start -= 4096
        validator.restore(index, 1 + 40)


def test_a_cut_file_ends_at_the_time_of_its_last_entry(validator, store, index):
    damage(index, 31, bytes(ENTRY * 10))
    validator.restore(index, validator.valid_entries(index))
    (record,) = store.query_message("TopicA", "U14", 9, 0, 1 << 62).buffers
    last = decode_record(bytes(record))
    assert index.end_physical_offset == last.physical_offset
    assert index.end_timestamp == last.store_timestamp


def test_without_the_record_of_the_last_entry_its_seconds_give_the_time(validator, store, index):
    damage(index, 31, bytes(ENTRY * 10))
    kept = validator.valid_entries(index)
    last = ENTRIES_AT + (kept - 1) * ENTRY
    damage(index, kept - 1, (1 << 40).to_bytes(8, "big"), 4)  # past the log
    validator.restore(index, kept)
    seconds = int.from_bytes(index.file.mapping[last + 12 : last + 16], "big")
    assert seconds > 0
    assert index.end_timestamp == index.begin_timestamp + seconds * 1000
