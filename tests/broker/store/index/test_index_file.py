"""One IndexFile: entries, chains, the consistency of its header, repair and truncation."""

import random
from pathlib import Path

import pytest

from broker.common.java import string_hash
from broker.store.format.indexfile import (
    ENTRY_SIZE,
    HEADER_SIZE,
    decode_header,
    entry_position,
    key_hash,
    scan_entries,
    slot_position,
    walk_chain,
)
from broker.store.index.index_file import IndexFile, cut_entries, repair_slots
from broker.store.index.index_service import IndexService
from broker.store.logfile.disk import Disk

PREFIX = string_hash("T#") & 0xFFFFFFFF
BEGIN = 1_700_000_000_000
SLOTS, ENTRIES = 7, 20
EVER = 1 << 62


@pytest.fixture
def service(tmp_path: Path):
    made = IndexService(Disk(), str(tmp_path / "index"), SLOTS, ENTRIES)
    made.now_ms = lambda: BEGIN
    yield made
    made.close()


@pytest.fixture
def index(service: IndexService) -> IndexFile:
    """A file with 10 entries of keys k0, k1, k2 at the offsets 0, 100, …, one second apart."""
    for number in range(10):
        put(service, number)
    (file,) = service.files
    write_header(file)
    return file


def put(service: IndexService, number: int, keys: int = 1) -> None:
    words = [b"k%d" % ((number + more) % 3) for more in range(keys)]
    service.put_keys(PREFIX, words, number * 100, BEGIN + number * 1000)


def write_header(index: IndexFile) -> None:
    index.flush_header()


def places(index: IndexFile, word: bytes, **limits: int) -> list[int]:
    begin, end = limits.get("begin", 0), limits.get("end", EVER)
    return index.find(key_hash(PREFIX, word), begin, end, limits.get("limit", 100))


# ---- reading and writing


def test_the_header_has_bounds_and_counts(index: IndexFile) -> None:
    header = decode_header(index.file.mapping)
    assert header == index.header
    assert (header.begin_physical_offset, header.end_physical_offset) == (0, 900)
    assert (header.begin_timestamp, header.end_timestamp) == (BEGIN, BEGIN + 9000)
    assert (header.index_count, header.hash_slot_count) == (11, 3)


def test_hits_are_the_newest_first_and_bounded(index: IndexFile) -> None:
    assert places(index, b"k1") == [700, 400, 100]
    assert places(index, b"k1", limit=2) == [700, 400]
    assert places(index, b"k9") == []


def test_hits_are_within_the_time_range(index: IndexFile) -> None:
    assert places(index, b"k1", begin=BEGIN + 2000, end=BEGIN + 5000) == [400]
    assert index.overlaps(BEGIN + 9000, EVER)
    assert not index.overlaps(BEGIN + 9001, EVER)
    assert not index.overlaps(0, BEGIN - 1)


def test_a_header_is_written_on_demand(service: IndexService, index: IndexFile) -> None:
    before = bytes(index.file.mapping[:HEADER_SIZE])
    put(service, 10)
    assert bytes(index.file.mapping[:HEADER_SIZE]) == before
    write_header(index)
    assert decode_header(index.file.mapping).index_count == 12


def test_a_file_takes_one_entry_less_than_its_limit(service: IndexService) -> None:
    """Entry 0 is never used."""
    put(service, 0, keys=ENTRIES + 5)
    first, second = service.files
    assert first.full
    assert (first.count, second.count) == (ENTRIES, 5 + 1 + 1)


def test_the_keys_of_the_first_message_count_from_its_own_time(service: IndexService) -> None:
    put(service, 5, keys=3)
    (file,) = service.files
    write_header(file)
    entries = list(scan_entries(file.file.mapping, SLOTS))
    assert [entry.time_diff_seconds for entry in entries] == [0, 0, 0]
    assert file.begin_timestamp == BEGIN + 5000


# ---- consistency of the header


def test_a_new_and_a_filled_file_are_sound(service: IndexService, index: IndexFile) -> None:
    assert index.sound
    put(service, 10)
    assert index.sound


@pytest.mark.parametrize("change", ["count", "begin", "end", "begin time", "end time", "slots"])
def test_a_header_that_contradicts_its_entries_is_not_sound(index: IndexFile, change: str) -> None:
    changes = {
        "count": {"index_count": 10},
        "begin": {"begin_physical_offset": 1},
        "end": {"end_physical_offset": 901},
        "begin time": {"begin_timestamp": BEGIN - 5000},
        "end time": {"end_timestamp": BEGIN + 20_000},
        "slots": {"hash_slot_count": -1},
    }
    index.read_header(index.header._replace(**changes[change]))
    assert not index.sound


@pytest.mark.parametrize("count", [0, -1, ENTRIES + 1])
def test_a_count_outside_the_file_is_not_sound(index: IndexFile, count: int) -> None:
    index.read_header(index.header._replace(index_count=count))
    assert not index.sound


def test_an_empty_file_is_sound(index: IndexFile) -> None:
    index.read_header(index.header._replace(index_count=1))
    assert index.sound


# ---- slots past the header


def test_slots_past_the_header_are_set_to_the_newest_counted_entry(
    service: IndexService, index: IndexFile
) -> None:
    header = index.header
    for number in range(10, 14):
        put(service, number)
    index.read_header(header)  # the process was killed before the header was written
    assert repair_slots(index) == 3
    assert places(index, b"k1") == [700, 400, 100]
    assert places(index, b"k0") == [900, 600, 300, 0]
    assert repair_slots(index) == 0


def test_a_slot_of_uncounted_entries_only_becomes_empty(service: IndexService) -> None:
    put(service, 0)
    (file,) = service.files
    header = file.header
    put(service, 1)
    file.read_header(header)
    assert repair_slots(file) == 1
    slot = key_hash(PREFIX, b"k1") % SLOTS
    at = slot_position(slot)
    assert bytes(file.file.mapping[at : at + 4]) == bytes(4)
    assert file.used_slots == 1


# ---- truncation


@pytest.mark.parametrize("kept", range(11))
def test_truncation_leaves_the_file_of_the_kept_records(
    service: IndexService, index: IndexFile, tmp_path: Path, kept: int
) -> None:
    assert cut_entries(index, kept * 100) is (kept < 10)
    other = IndexService(Disk(), str(tmp_path / "other"), SLOTS, ENTRIES)
    other.now_ms = lambda: BEGIN
    for number in range(kept):
        put(other, number)
    for word in (b"k0", b"k1", b"k2"):
        expected = places(other.files[0], word) if kept else []
        assert places(index, word) == expected
    assert index.count == kept + 1
    if kept:
        assert index.sound
        assert index.end_physical_offset == (kept - 1) * 100
    rest = bytes(index.file.mapping[entry_position(kept + 1, SLOTS) :])
    assert not any(rest)
    other.close()


def test_entries_added_after_a_truncation_are_found(
    service: IndexService, index: IndexFile
) -> None:
    cut_entries(index, 500)
    for number in range(5, 9):
        put(service, number)
    write_header(index)
    assert places(index, b"k1") == [700, 400, 100]
    assert index.sound


def test_random_truncations_and_puts_equal_a_list(
    service: IndexService, rng: random.Random
) -> None:
    put(service, 0)
    (file,) = service.files
    model = [0]
    for _ in range(60):
        if rng.random() < 0.3 and len(model) > 1:
            end = rng.randrange(1, model[-1] + 2)
            model = [number for number in model if number < end]
            cut_entries(file, end * 100)
        elif not file.full:
            put(service, model[-1] + 1)
            model.append(model[-1] + 1)
        for word in range(3):
            expected = [number * 100 for number in reversed(model) if number % 3 == word]
            assert places(file, b"k%d" % word) == expected


def test_erasing_removes_all_bytes_after_the_last_entry(index: IndexFile) -> None:
    at = entry_position(index.count, SLOTS)
    index.file.mapping[at : at + ENTRY_SIZE] = b"x" * ENTRY_SIZE
    index.erase_after()
    assert not any(index.file.mapping[at:])
    assert index.synced


def test_a_failed_sync_is_repeated_by_the_next_one(index: IndexFile, monkeypatch) -> None:
    index.synced = False
    calls: list[bool] = []

    def sync() -> None:
        calls.append(True)
        if len(calls) == 1:
            raise OSError("I/O error")

    monkeypatch.setattr(type(index.file), "sync", lambda file: sync())
    with pytest.raises(OSError, match="I/O"):
        index.sync()
    index.sync()
    index.sync()  # nothing has changed since
    assert len(calls) == 2


def test_a_query_finds_the_entries_of_the_chain(service: IndexService, rng: random.Random) -> None:
    """Compared with the chain that offline tools walk, also in damaged files."""
    for number in range(ENTRIES - 1):
        service.put_keys(
            PREFIX, [b"k%d" % rng.randrange(9)], number * 100, BEGIN + rng.randrange(9_000)
        )
    (file,) = service.files
    write_header(file)
    mapping = file.file.mapping
    found = 0
    for damaged in range(300):
        if damaged:
            at = rng.randrange(HEADER_SIZE, len(mapping))
            mapping[at] = rng.choice((0, 1, 7, 255, rng.randrange(256)))
        for word in range(9):
            hashed = key_hash(PREFIX, b"k%d" % word)
            begin = rng.choice((0, BEGIN, BEGIN + rng.randrange(9_000)))
            end = rng.choice((EVER, begin + rng.randrange(9_000)))
            limit = rng.randrange(1, 12)
            chain = walk_chain(mapping, hashed, SLOTS, begin=begin, end=end)
            expected = [entry.physical_offset for entry in chain][:limit]
            assert file.find(hashed, begin, end, limit) == expected, (damaged, word)
            found += len(expected)
    assert found > 100
