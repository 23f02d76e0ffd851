"""The compiled loops against plain Python: CRC, records, links of an IndexFile, bounds of results.

The callers' tests (test_columns, test_hash_kernels) compare whole scans; here each loop is checked
alone, also where it stops.
"""

import random
from typing import Any

import pytest

pytest.importorskip("numba", reason="the compiled loops need the extra 'fast'")
import numpy as np

from broker.common.java import string_hash
from broker.message.message import MessageExt
from broker.message.properties import encode_properties
from broker.message.record import (
    PROPERTY_CRC_SIZE,
    encode_property_crc,
    encode_record,
)
from broker.store.format import indexfile
from broker.store.format.vectorized import kernels
from tests.support.store_units import encode_entry

BASE = 1 << 30


def array(data: bytes) -> Any:
    return np.frombuffer(data, dtype=np.uint8)


def log(count: int, **fields: Any) -> tuple[bytes, list[int]]:
    """Records one after the other from physical offset BASE, and their positions."""
    data = bytearray()
    positions = []
    for number in range(count):
        properties = encode_properties({"TAGS": f"Tag{number}", "KEYS": f"k{number} other"})
        message = MessageExt("TopicA", b"body %d" % number, properties, queue_id=number)
        for name, value in fields.items():
            setattr(message, name, value)
        message.physical_offset = BASE + len(data)
        positions.append(len(data))
        data += encode_record(message)
    return bytes(data), positions


def walk(data: bytes, *, start: int = 0, end: int | None = None, rows: int = 100) -> Any:
    found = np.zeros(rows, dtype=np.int64)
    count, stop = kernels.walk(array(data), BASE, start, len(data) if end is None else end, found)
    return found[:count].tolist(), stop


def fill(data: bytes, flags: int = 0, *, end: int | None = None, rows: int = 100) -> Any:
    """The filled table (columns x rows) and the position at which the loop stopped."""
    table = np.zeros((kernels.COLUMN_COUNT, rows), dtype=np.int64)
    limit = len(data) if end is None else end
    count, stop = kernels.fill(array(data), BASE, 0, limit, flags, table)
    return table[:, :count], stop


def test_walk_and_fill_find_every_record() -> None:
    data, positions = log(20)
    assert walk(data) == (positions, len(data))
    table, stop = fill(data, kernels.WITH_CRC | kernels.WITH_PROPERTIES)
    assert table[kernels.POSITION].tolist() == positions
    assert table[kernels.QUEUE_ID].tolist() == list(range(20))
    assert table[kernels.CRC_OK].tolist() == [1] * 20
    assert stop == len(data)


def test_reading_stops_at_the_given_end_and_at_a_full_table() -> None:
    data, positions = log(20)
    assert walk(data, end=positions[5]) == (positions[:5], positions[5])
    assert walk(data, rows=3) == (positions[:3], positions[3])
    assert walk(data, start=positions[4], end=positions[6])[0] == positions[4:6]
    for given in ({"end": positions[5]}, {"rows": 5}):
        table, stop = fill(data, **given)
        assert (table.shape[1], stop) == (5, positions[5])


def test_a_record_that_is_cut_off_is_not_read() -> None:
    """Every cut within the last record leaves the records before it."""
    data, positions = log(3)
    for cut in range(positions[2], len(data)):
        assert walk(data[:cut]) == (positions[:2], positions[2])
        table, stop = fill(data[:cut])
        assert (table.shape[1], stop) == (2, positions[2])


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, b"\x7f\xff\xff\xff"),  # longer than the file
        (0, b"\xff\xff\xff\xff"),  # negative length
        (0, b"\0\0\0\x10"),  # shorter than any record
        (4, b"\0\0\0\0"),  # no magic number
        (4, b"\xcb\xd4\x31\x94"),  # the magic number of a blank record
        (28, b"\0\0\0\0\0\0\0\x01"),  # a record of another physical offset
    ],
)
def test_neither_loop_reads_past_a_doubtful_header(at: int, value: bytes) -> None:
    data, positions = log(3)
    changed = bytearray(data)
    changed[positions[1] + at : positions[1] + at + len(value)] = value
    assert walk(bytes(changed)) == (positions[:1], positions[1])
    table, stop = fill(bytes(changed))
    assert (table.shape[1], stop) == (1, positions[1])


def test_lengths_that_do_not_fill_the_record_stop_the_scan() -> None:
    """Each byte of the three lengths, off by one in both directions."""
    data, _ = log(1)
    body_length_at = 84
    topic_at = body_length_at + 4 + len(b"body 0")
    properties_at = topic_at + 1 + len("TopicA")
    for at in (
        *range(body_length_at, body_length_at + 4),
        topic_at,
        *range(properties_at, properties_at + 2),
    ):
        for step in (1, -1):
            changed = bytearray(data)
            changed[at] = (changed[at] + step) % 256
            table, stop = fill(bytes(changed))
            assert (table.shape[1], stop) == (0, 0), (at, step)


def test_a_changed_body_stops_the_scan_only_if_the_crc_is_requested() -> None:
    data, positions = log(3)
    changed = bytearray(data)
    changed[positions[1] + 88] ^= 1
    table, stop = fill(bytes(changed), kernels.WITH_CRC)
    assert (table.shape[1], stop) == (1, positions[1])
    table, stop = fill(bytes(changed))
    assert (table.shape[1], stop) == (3, len(data))
    assert table[kernels.CRC_OK].tolist() == [-1] * 3


def test_a_record_crc_in_the_properties_is_left_to_the_plain_scanner() -> None:
    properties = encode_properties({"KEYS": "k"}) + b"\x02"
    message = MessageExt(
        "TopicA", b"body", properties + bytes(PROPERTY_CRC_SIZE), physical_offset=BASE
    )
    record = encode_record(message)
    before = record[:-PROPERTY_CRC_SIZE]
    record = before + encode_property_crc(before)
    assert fill(record, kernels.WITH_CRC)[1] == 0
    assert fill(record)[1] == len(record)


def test_empty_properties_are_absent_and_the_last_of_two_wins() -> None:
    properties = b"TAGS\x01\x02KEYS\x01first\x02\x01nameless\x02KEYS\x01last\x02UNIQ_KEY\x02"
    data = encode_record(MessageExt("TopicA", b"b", properties, physical_offset=BASE))
    table, _ = fill(data, kernels.WITH_PROPERTIES)
    assert table[kernels.TAGS_LENGTH, 0] == -1
    assert table[kernels.UNIQ_KEY_LENGTH, 0] == -1
    at, length = table[kernels.KEYS_AT, 0], table[kernels.KEYS_LENGTH, 0]
    assert data[at : at + length] == b"last"


@pytest.mark.parametrize(
    ("topic", "tags", "plain"), [("TopicA", "x", 1), ("TopicA", "ä", 0), ("Tä", "x", 0)]
)
def test_text_that_is_not_ascii_is_marked(topic: str, tags: str, plain: int) -> None:
    properties = encode_properties({"TAGS": tags})
    data = encode_record(MessageExt(topic, b"b", properties, physical_offset=BASE))
    table, _ = fill(data, kernels.WITH_PROPERTIES)
    assert table[kernels.PLAIN_TEXT, 0] == plain


def test_hashes_continue_from_their_seeds() -> None:
    text = b"TopicA#key"
    starts, lengths = np.array([0, 6, 3]), np.array([10, 4, -1])
    seeds = np.array([0, string_hash("TopicA"), 5])
    out = np.zeros(3, dtype=np.int64)
    kernels.hash_slices(array(text), starts, lengths, seeds, out)
    assert out.tolist() == [string_hash("TopicA#key"), string_hash("TopicA#key"), 5]


def test_slices_are_equal_only_with_equal_lengths_and_bytes() -> None:
    starts, lengths = np.array([0, 0, 0, 3]), np.array([3, 3, 2, 0])
    other_starts, other_lengths = np.array([1, 2, 1, 0]), np.array([3, 3, 3, 0])
    out = np.zeros(4, dtype=np.bool_)
    kernels.equal_slices(
        array(b"abc"), starts, lengths, array(b"xabcx"), other_starts, other_lengths, out
    )
    assert out.tolist() == [True, False, False, True]


def test_keys_of_a_record_are_never_split_over_two_calls() -> None:
    """A row whose words do not all fit is not counted as done."""
    table, _ = fill(log(4)[0], kernels.WITH_PROPERTIES)
    rows = np.arange(4)
    for space in range(10):
        out = np.zeros((3, space), dtype=np.int64)
        words, done = kernels.key_slices(array(log(4)[0]), table, rows, out)
        assert (words, done) == (min(space // 2, 4) * 2, min(space // 2, 4))


def links(hashes: list[int], slots: int) -> tuple[list[int], list[int]]:
    """The link of each index entry and the newest entry of each slot, entry by entry."""
    newest = [0] * slots
    found = []
    for place, hashed in enumerate(hashes, 1):
        found.append(newest[hashed % slots])
        newest[hashed % slots] = place
    return found, newest


def test_wrong_links_are_counted_beyond_the_space_for_them(rng: random.Random) -> None:
    hashes = [rng.randrange(1 << 31) for _ in range(100)]
    right, newest = links(hashes, 8)
    wrong = list(right)
    for place in (10, 50, 99):
        wrong[place] += 1
    for space, listed in ((5, [10, 50, 99]), (2, [10, 50])):
        faults, heads = np.zeros((2, space), dtype=np.int64), np.zeros(8, dtype=np.int64)
        found = kernels.chain_faults(np.array(hashes), np.array(wrong), 8, heads, faults)
        assert found == 3
        assert faults[0, : len(listed)].tolist() == listed
        assert faults[1, : len(listed)].tolist() == [right[place] for place in listed]
        assert heads.tolist() == newest


def put(entries: list[tuple[int, int, int]], slots: int, capacity: int) -> Any:
    """An IndexFile after adding entries: taken, header numbers, bytes."""
    buf = np.zeros(indexfile.file_size(slots, capacity), dtype=np.uint8)
    header = np.array([0, 0, 0, 0, 0, 1], dtype=np.int64)
    columns = np.array(entries, dtype=np.int64).T.copy()
    taken = kernels.put_entries(buf, np.array([slots, capacity]), header, columns)
    return taken, header.tolist(), buf.tobytes()


def test_entries_are_added_up_to_the_capacity_of_the_file(rng: random.Random) -> None:
    entries = [(rng.randrange(1 << 31), number * 100, 5000 + number * 700) for number in range(40)]
    taken, header, data = put(entries, 8, 25)
    assert taken == 24  # number 0 is not used, as in Java
    assert header == [5000, 5000 + 23 * 700, 0, 2300, len({h % 8 for h, _, _ in entries[:24]}), 25]
    expected, newest = links([hashed for hashed, _, _ in entries[:24]], 8)
    for number, (hashed, physical, stored) in enumerate(entries[:24], 1):
        at = indexfile.entry_position(number, 8)
        seconds = indexfile.time_diff_seconds(stored, 5000)
        entry = indexfile.IndexEntry(number, hashed, physical, seconds, expected[number - 1])
        assert data[at : at + 20] == encode_entry(entry)
    for slot, place in enumerate(newest):
        at = indexfile.slot_position(slot)
        assert int.from_bytes(data[at : at + 4], "big") == place


@pytest.mark.parametrize(
    ("begin_ms", "stored_ms", "seconds"),
    [(1000, 3999, 2), (5000, 1000, 0), (1, 1 << 60, 0x7FFFFFFF), (1000, 1000, 0)],
)
def test_time_differences_are_seconds_within_an_int(
    begin_ms: int, stored_ms: int, seconds: int
) -> None:
    _, _, data = put([(1, 0, begin_ms), (2, 100, stored_ms)], 8, 25)
    at = indexfile.entry_position(2, 8) + 12
    assert int.from_bytes(data[at : at + 4], "big") == seconds
