"""IndexFile: layout, hashes, chains, the number of slots."""

import random
from collections.abc import Callable

import pytest

from broker.common.java import string_hash
from broker.errors import RemoteProtocolError
from broker.store.format import indexfile
from broker.store.format.indexfile import (
    ENTRY_SIZE,
    FILE_SIZE,
    SLOTS,
    IndexEntry,
    IndexHeader,
    decode_entry,
    decode_header,
    encode_header,
    entry_position,
    file_size,
    index_key_hash,
    message_keys,
    overlaps,
    probe_slot_count,
    scan_entries,
    slot_position,
    time_diff_seconds,
    topic_prefix,
    walk_chain,
)
from tests.support.store_units import encode_entry

Put = tuple[int, int, int]  # hash, physical offset, storeTimestamp


def build(puts: list[Put], slots: int, entries: int) -> bytes:
    """An index file as the store fills it, straight from the description of ``put``."""
    data = bytearray(file_size(slots, entries))
    header = IndexHeader()
    for key_hash, physical_offset, timestamp in puts:
        place = slot_position(key_hash % slots)
        before = int.from_bytes(data[place : place + 4], "big")
        diff = time_diff_seconds(timestamp, header.begin_timestamp)
        number = header.index_count
        entry = IndexEntry(number, key_hash, physical_offset, diff, before)
        at = entry_position(number, slots)
        data[at : at + ENTRY_SIZE] = encode_entry(entry)
        data[place : place + 4] = number.to_bytes(4, "big")
        if number <= 1:
            header = header._replace(
                begin_timestamp=timestamp, begin_physical_offset=physical_offset
            )
        header = header._replace(
            end_timestamp=timestamp,
            end_physical_offset=physical_offset,
            hash_slot_count=header.hash_slot_count + (before == 0),
            index_count=number + 1,
        )
    data[:40] = encode_header(header)
    return bytes(data)


@pytest.fixture
def java_files(vectors: dict) -> list[bytes]:
    return [bytes.fromhex(file["hex"]) for file in vectors["index"]["files"]]


def test_hashes_are_those_of_java(vectors: dict) -> None:
    for vector in vectors["java_hash"]:
        topic, separator, key = vector["string"].partition("#")
        if separator:
            assert index_key_hash(topic, key) == vector["index_hash"]
            assert index_key_hash(topic, key) % 5_000_000 == vector["slot_of_5000000"]


def test_sizes_are_the_defaults_of_java(vectors: dict) -> None:
    assert vectors["index"]["default_file_size"] == FILE_SIZE


def test_files_of_java_decode_and_encode_to_the_same_bytes(
    vectors: dict, java_files: list[bytes]
) -> None:
    slots = vectors["index"]["slots"]
    for data, vector in zip(java_files, vectors["index"]["files"], strict=True):
        header = decode_header(data)
        assert tuple(header) == tuple(vector["header"].values())
        assert encode_header(header) == data[:40]
        entries = list(scan_entries(data, slots))
        assert {str(e.number): list(e[1:]) for e in entries} == {
            number: list(entry.values()) for number, entry in vector["entries"].items()
        }
        for entry in entries:
            at = entry_position(entry.number, slots)
            assert encode_entry(entry) == data[at : at + ENTRY_SIZE]
        table = [int.from_bytes(data[slot_position(s) :][:4], "big") for s in range(slots)]
        assert table == vector["slot_table"]


def test_puts_build_the_file_that_java_built(vectors: dict, java_files: list[bytes]) -> None:
    puts = [
        (index_key_hash(*put["key"].split("#", 1)), put["phy"], put["store_ts"])
        for put in vectors["index"]["puts"]
        if put["file"] == 0
    ]
    assert build(puts, vectors["index"]["slots"], vectors["index"]["index_num"]) == java_files[0]


def test_queries_find_the_messages_of_java_in_its_order(
    vectors: dict, java_files: list[bytes]
) -> None:
    slots = vectors["index"]["slots"]
    for query in vectors["index"]["queries"]:
        key_hash = index_key_hash(query["topic"], query["key"])
        found = []
        for data in reversed(java_files):
            header = decode_header(data)
            times = header.begin_timestamp, header.end_timestamp
            if overlaps(*times, query["begin"], query["end"]):
                chain = walk_chain(data, key_hash, slots, begin=query["begin"], end=query["end"])
                found += [entry.physical_offset for entry in chain]
        assert found == query["phy_offsets_in_found_order"], query["note"]


def test_a_message_is_put_under_uniq_key_and_each_word(vectors: dict) -> None:
    assert message_keys("U", "a  b ") == ["U", "a", "b"]
    assert message_keys(None, None) == []
    for vector in vectors["record"]:
        if "rollback" in vector["name"]:
            continue  # never indexed
        properties = vector["decoded"]["properties"]
        words = message_keys(properties.get("UNIQ_KEY"), properties.get("KEYS"))
        topic = vector["decoded"]["topic"]
        assert [f"{topic}#{word}" for word in words] == vector["index_keys"]


def test_time_difference_is_in_whole_seconds_and_clamped() -> None:
    assert time_diff_seconds(1999, 0) == 0
    assert time_diff_seconds(2999, 1000) == 1
    assert time_diff_seconds(500, 1000) == 0
    assert time_diff_seconds(1 << 60, 1000) == (1 << 31) - 1


def test_ranges_overlap_as_in_java() -> None:
    assert overlaps(100, 200, 0, 1000)
    assert overlaps(100, 200, 150, 150)
    assert overlaps(100, 200, 200, 300)
    assert overlaps(100, 200, 0, 100)
    assert not overlaps(100, 200, 201, 300)
    assert not overlaps(100, 200, 0, 99)


def test_lookup_equals_a_dictionary(rng: random.Random) -> None:
    slots = 13
    puts = [(rng.randrange(40), 100 * n, 1_700_000_000_000 + n) for n in range(200)]
    data = build(puts, slots, 250)
    for key_hash in range(40):
        wanted = [offset for h, offset, _ in reversed(puts) if h == key_hash]
        assert [e.physical_offset for e in walk_chain(data, key_hash, slots)] == wanted


def test_the_number_of_slots_is_worked_out(rng: random.Random, java_files: list[bytes]) -> None:
    for data in java_files:
        assert probe_slot_count(data) == 5
    for slots in (1, 7, 40, 101, SLOTS):
        puts = [(rng.randrange(1 << 31), 100 * n, 1_700_000_000_000 + 10 * n) for n in range(60)]
        assert probe_slot_count(build(puts, slots, 150)) == slots


def test_the_shape_of_a_file_with_the_record_at_offset_0_only() -> None:
    """With 20 slots its entries would be zeros, which look like a record at offset 0 too."""
    time_ms = 1_795_000_000_000
    puts = [(0x1285AE28, 0, time_ms), (0x50D5F761, 0, time_ms)]
    assert probe_slot_count(build(puts, 40, 100)) == 40
    assert probe_slot_count(build(puts[::-1], 40, 100)) == 40


def test_a_file_that_fits_nothing_has_no_slots(rng: random.Random) -> None:
    header = encode_header(IndexHeader(1, 2, 3, 4, 5, 20))
    assert probe_slot_count(header + rng.randbytes(3000)) == 0
    assert probe_slot_count(header + bytes(3)) == 0


@pytest.mark.parametrize(
    ("field", "value"), [(0, -1), (0, -(1 << 31)), (12, -1), (12, -(1 << 31)), (16, -1), (16, 9)]
)
def test_an_entry_with_a_value_that_no_store_writes_fits_no_number_of_slots(
    field: int, value: int
) -> None:
    """Hash, seconds and previous entry are never negative, and a chain leads to older entries."""
    puts = [(7 * number, 100 * number, 1_700_000_000_000) for number in range(1, 9)]
    data = bytearray(build(puts, 5, 20))
    assert probe_slot_count(data) == 5
    at = entry_position(4, 5) + field
    data[at : at + 4] = value.to_bytes(4, "big", signed=True)
    assert probe_slot_count(data) == 0


@pytest.mark.parametrize("character", ["a", "\x7f", "\x00", "é", "消", "\U0001f600"])
@pytest.mark.parametrize("size", [0, 1, 2, 1_023, 1_024, 1_025, 4_400])
def test_the_hash_of_any_length_and_alphabet_is_javas(character: str, size: int) -> None:
    key = character * size
    value = string_hash(f"T#{key}")
    expected = 0 if value == -(1 << 31) else abs(value)
    assert indexfile.key_hash(topic_prefix("T"), key.encode()) == expected
    assert index_key_hash("T", key) == expected


def test_bytes_that_are_not_utf8_have_a_hash() -> None:
    for key in (b"\xff", b"\xff" * 2_000, b"a\x80b"):
        assert 0 <= indexfile.key_hash(topic_prefix("T"), key) < 1 << 31


def test_broken_chains_end(java_files: list[bytes]) -> None:
    data = bytearray(java_files[0])
    key_hash = index_key_hash("TopicA", "key1")
    for number in range(1, 5):
        for previous in (-1, number, 4, 99, (1 << 31) - 1):
            broken = bytearray(data)
            at = entry_position(number, 5) + 16
            broken[at : at + 4] = previous.to_bytes(4, "big", signed=True)
            assert len(list(walk_chain(broken, key_hash, 5))) <= 5


def test_every_cut_and_flip_gives_a_value_or_an_error(
    java_files: list[bytes],
    every_cut: Callable[..., list[int]],
    every_flip: Callable[..., int],
) -> None:
    key_hash = index_key_hash("TopicA", "key1")

    def decode(data: bytes) -> object:
        decode_header(data)
        return (
            list(walk_chain(data, key_hash, 5)),
            list(scan_entries(data, 5)),
            probe_slot_count(data),
        )

    assert min(every_cut(decode, java_files[0])) == 40
    assert every_flip(decode, java_files[0]) == 0


def test_a_position_outside_the_file_is_refused(java_files: list[bytes]) -> None:
    for number in (-1, 5, 1 << 30):
        with pytest.raises(RemoteProtocolError):
            decode_entry(java_files[0], number, 5)
    assert decode_header(bytes(40)).index_count == 1
    assert list(walk_chain(bytes(40), 1, 5)) == []
    assert indexfile.index_key("t", "k") == "t#k"


@pytest.mark.parametrize("count", [1, 7, 8, 40, 1_300])
@pytest.mark.parametrize("same", [False, True], ids=["any", "same"])
def test_many_keys_have_the_hashes_of_each(rng: random.Random, count: int, same: bool) -> None:
    """Keys of one length and topic, of several, longer than a lane, not of ASCII, of one client."""
    for longest, highest, equal in ((32, 127, 0), (32, 127, 24), (40, 127, 0), (32, 255, 0)):
        size = 32 if equal else rng.randint(1, longest)
        start = rng.randbytes(equal // 2).hex().encode()
        keys = [
            start + bytes(rng.randint(0, highest) for _ in range(length - equal))
            for length in (size if same else rng.randint(1 + equal, longest) for _ in range(count))
        ]
        prefixes = [topic_prefix("T" if same else rng.choice("TUV")) for _ in keys]
        hashes = [
            indexfile.key_hash(prefix, key) for prefix, key in zip(prefixes, keys, strict=True)
        ]
        assert indexfile.key_hashes(prefixes, keys) == hashes


def test_the_lowest_hash_of_many_keys_is_0_as_of_one() -> None:
    key = "0" * 32
    prefix = ((1 << 31) - string_hash(key)) * pow(31, -32, 1 << 32) % (1 << 32)
    assert indexfile.key_hash(prefix, key.encode()) == 0
    assert indexfile.key_hashes([prefix] * 9, [key.encode()] * 9) == [0] * 9
