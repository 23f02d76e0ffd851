"""`append` and `derive` against the codecs, at the ends of every buffer, and with guard bytes."""

import random

import pytest

pytest.importorskip("numba", reason="ingest needs the extra 'fast'")
import numpy as np

from broker.message.record import (
    FIXED_SIZES,
    HOST_SHAPE_SHIFT,
    MAGIC_V1,
    MAGIC_V2,
    decode_record,
    peek_record_size,
)
from broker.server.ingest.vectorized_ingest import shape_row
from broker.store.format.consumequeue import UNIT_SIZE, tags_code
from broker.store.format.indexfile import key_hash, message_keys, topic_prefix
from broker.store.ingest import columns as col
from broker.store.ingest.kernels import append, derive

START, STAMP, GUARD = 1 << 33, 1_700_000_000_123, 0xA5


class Tables:
    """Random rows, as `scan` leaves them, with open places."""

    def __init__(self, rng: random.Random, count: int, shape: int = 0) -> None:
        self.shape = shape
        data, text = bytearray(), bytearray()
        self.rows = np.zeros((count, col.ROW_COLUMNS), dtype=np.int64)
        self.places = np.zeros((3, col.PLACE_COLUMNS), dtype=np.int64)
        self.expected = []
        topics = ("T", "x" * 127, "y" * 200)
        stored = bytearray()
        for number, topic in enumerate(topics):
            wide = 2 if len(topic) > 127 else 1
            name = len(topic).to_bytes(wide, "big") + topic.encode()
            place = self.places[number]
            place[[col.OPEN, col.QUEUE_ID, col.NEXT_OFFSET]] = 1, 7 + number, 1_000 * number
            place[col.TOPIC_SYS_FLAG] = 2 * (number == 1)
            place[col.MAGIC] = MAGIC_V2 if wide == 2 else MAGIC_V1
            place[[col.STORED_AT, col.STORED_LENGTH]] = len(stored), len(name)
            place[col.KEY_PREFIX] = topic_prefix(topic)
            stored += name
        for row in self.rows:
            tag = "".join(rng.choices("abcXYZ", k=rng.randrange(6)))
            keys = " ".join(rng.choices(["k", "key2", "", "another"], k=rng.randrange(4)))
            uniq = f"U{rng.getrandbits(rng.randrange(1, 128))}"
            start = len(text)
            for column, value in ((col.TAGS_AT, tag), (col.KEYS_AT, keys), (col.UNIQ_KEY_AT, uniq)):
                row[[column, column + 1]] = len(text), len(value)
                text += value.encode()
            row[[col.PROPERTIES_AT, col.PROPERTIES_LENGTH]] = start, len(text) - start
            body = rng.randbytes(rng.randrange(1, 300))
            row[[col.BODY_AT, col.BODY_LENGTH]] = len(data), len(body)
            data += body
            row[col.PLACE] = rng.randrange(3)
            row[[col.FLAG, col.SYS_FLAG]] = rng.randrange(-(2**31), 2**31), rng.choice((0, 1, 0x31))
            row[[col.BORN_TIMESTAMP, col.RECONSUME_TIMES]] = rng.getrandbits(60), rng.randrange(9)
            self.expected.append((topics[row[col.PLACE]], body, tag, keys, uniq))
        self.data = np.frombuffer(bytes(data), dtype=np.uint8)
        self.text = np.frombuffer(bytes(text), dtype=np.uint8).copy()
        self.stored = np.frombuffer(bytes(stored), dtype=np.uint8)
        self.templates = np.zeros((1, FIXED_SIZES[shape]), dtype=np.uint8)
        self.segments = np.zeros((1, col.SEGMENT_COLUMNS), dtype=np.int64)
        self.shapes = np.array([shape_row(shape)])

    def append(self, capacity: int, room: int) -> tuple[int, int, bytes]:
        """Append; (records, bytes, the buffer), whose bytes after the end are guards."""
        parameters = np.zeros(col.APPEND_PARAMETERS, dtype=np.int64)
        parameters[: col.END] = START, capacity, STAMP
        return self.append_to(parameters, room)

    def append_to(self, parameters: np.ndarray, room: int) -> tuple[int, int, bytes]:
        """Append with these parameters, as :meth:`append`."""
        out = np.full(room, GUARD, dtype=np.uint8)
        count, size = append(
            self.data,
            self.text,
            self.rows,
            self.segments,
            self.places,
            self.stored,
            self.templates,
            self.shapes,
            parameters,
            out,
        )
        assert (out[int(size) :] == GUARD).all()
        return int(count), int(size), out[: int(size)].tobytes()


@pytest.mark.parametrize("shape", range(4))
def test_records_decode_to_their_rows(rng: random.Random, shape: int) -> None:
    tables = Tables(rng, 40, shape)
    count, size, log = tables.append(1 << 20, 1 << 20)
    assert count == 40
    assert size == len(log)
    position = 0
    offsets = [0, 1_000, 2_000]
    for row, (topic, body, tag, _, _) in zip(tables.rows, tables.expected, strict=True):
        record = decode_record(log, position, check_crc=True)
        place = int(row[col.PLACE])
        assert (record.topic, record.body, record.queue_id) == (topic, body, 7 + place)
        assert (record.queue_offset, record.physical_offset) == (offsets[place], START + position)
        assert (record.flag, record.store_timestamp) == (row[col.FLAG], STAMP)
        assert record.born_timestamp == row[col.BORN_TIMESTAMP]
        assert record.reconsume_times == row[col.RECONSUME_TIMES]
        assert record.sys_flag == row[col.SYS_FLAG] & ~0x30 | shape << HOST_SHAPE_SHIFT
        assert bool(record.sys_flag & 2) == (place == 1)
        assert row[col.TAGS_CODE] == tags_code(tag)
        at, length = row[[col.PROPERTIES_AT, col.PROPERTIES_LENGTH]]
        assert record.properties_raw == tables.text[at : at + length].tobytes()
        assert peek_record_size(log, position) == row[col.SIZE]
        offsets[place] += 1
        position += int(row[col.SIZE])
    assert position == size


def test_the_parameters_sum_up_the_records(rng: random.Random) -> None:
    tables = Tables(rng, 20)
    parameters = np.array((START, 1 << 20, STAMP, -1, -1, -1), dtype=np.int64)
    count, size, _ = tables.append_to(parameters, 4_000)
    assert 0 < count < 20
    rows = tables.rows[:count]
    ends = rows[:, col.PROPERTIES_AT] + rows[:, col.PROPERTIES_LENGTH]
    assert parameters[col.END] == START + size
    assert parameters[col.TEXT_END] == ends.max()
    assert parameters[col.KEYS_BYTES] == rows[:, col.KEYS_LENGTH].sum()


def test_parameters_without_space_for_the_results_append_nothing(rng: random.Random) -> None:
    short = np.array((START, 1 << 20, STAMP), dtype=np.int64)
    assert Tables(rng, 6).append_to(short, 4_000) == (0, 0, b"")


def test_records_end_before_the_end_of_file_and_buffer(rng: random.Random) -> None:
    state = rng.getstate()
    whole = Tables(rng, 6).append(1 << 20, 1 << 20)[2]
    for limit in range(0, len(whole) + 2, 7):
        for capacity, room in ((limit, 1 << 16), (1 << 20, limit)):
            rng.setstate(state)
            tables = Tables(rng, 6)
            count, size, log = tables.append(capacity, room)
            assert size <= limit
            assert whole.startswith(log)
            assert tables.places[:, col.TAKEN].sum() == count
            assert tables.places[:, col.TAKEN_BYTES].sum() == size


def test_a_queue_that_is_not_open_ends_its_segment_only(rng: random.Random) -> None:
    tables = Tables(rng, 30)
    tables.segments = np.zeros((3, col.SEGMENT_COLUMNS), dtype=np.int64)
    tables.segments[:, col.SEGMENT_AT] = 50, 60, 70
    tables.rows[:, col.SEGMENT] = np.repeat(range(3), 10)
    tables.rows[:, col.FRAME_END] = range(100, 130)
    tables.rows[:, col.PLACE] = 0
    tables.rows[[10, 12, 25], col.PLACE] = 1
    tables.places[1, col.OPEN] = 0
    count, size, log = tables.append(1 << 20, 1 << 20)
    assert count == 15
    assert tables.rows[:15, col.SEGMENT].tolist() == [0] * 10 + [2] * 5
    assert tables.rows[:15, col.QUEUE_OFFSET].tolist() == list(range(15))
    columns = [col.FIRST_ROW, col.TAKEN_ROWS, col.POSITION, col.STOP]
    assert tables.segments[:, columns].tolist() == [
        [0, 10, 109, col.NO_FRAME],
        [0, 0, 60, col.LEFT_FRAME],
        [10, 5, 124, col.LEFT_FRAME],
    ]
    bodies = [body for _, body, *_ in tables.expected]
    position = 0
    for body in bodies[:10] + bodies[20:25]:
        assert decode_record(log, position, check_crc=True).body == body
        position += peek_record_size(log, position)
    assert position == size


def test_a_full_file_ends_the_segment_and_all_after_it(rng: random.Random) -> None:
    tables = Tables(rng, 9)
    tables.segments = np.zeros((4, col.SEGMENT_COLUMNS), dtype=np.int64)
    tables.rows[:, col.SEGMENT] = [0, 0, 0, 1, 1, 1, 3, 3, 3]
    tables.rows[:, col.FRAME_END] = range(1, 10)
    rows, places = tables.rows.copy(), tables.places.copy()
    size = tables.append(1 << 20, 1 << 20)[1]
    none, full = col.NO_FRAME, col.FULL
    for capacity, stops in ((size - 1, [none, none, none, full]), (0, [full] * 4)):
        tables.rows, tables.places = rows.copy(), places.copy()
        tables.segments[:, col.STOP] = none
        count = tables.append(capacity, 1 << 20)[0]
        assert tables.segments[:, col.STOP].tolist() == stops
        assert tables.segments[:, col.TAKEN_ROWS].sum() == count


def test_each_record_has_the_host_of_its_segment(rng: random.Random) -> None:
    """IPv4 and IPv6 in turn; the templates have the same store host."""
    tables = Tables(rng, 6)
    hosts = bytes([10, 0, 0, 1, 0, 0, 0x12, 0x34]), bytes(range(16)) + bytes([0, 0, 0x56, 0x78])
    tables.data = np.frombuffer(tables.data.tobytes() + b"".join(hosts), dtype=np.uint8)
    ends = len(tables.data) - 28, len(tables.data) - 20
    tables.segments = np.zeros((6, col.SEGMENT_COLUMNS), dtype=np.int64)
    for number, segment in enumerate(tables.segments):
        segment[[col.HOST_AT, col.SHAPE]] = ends[number % 2], number % 2
        tables.rows[number, col.SEGMENT] = number
    tables.templates = np.zeros((2, FIXED_SIZES[1]), dtype=np.uint8)
    tables.shapes = np.array([shape_row(0), shape_row(1)])
    count, _, log = tables.append(1 << 20, 1 << 20)
    position = 0
    for number in range(count):
        record = decode_record(log, position, check_crc=True)
        assert (
            record.born_host
            == ("10.0.0.1:4660", "[1:203:405:607:809:a0b:c0d:e0f]:22136")[number % 2]
        )
        position += peek_record_size(log, position)
    assert count == 6


def test_index_entries_are_those_of_the_plain_path(rng: random.Random) -> None:
    for _ in range(20):
        tables = Tables(rng, 25)
        tables.append(1 << 20, 1 << 20)
        expected = [
            (key_hash(topic_prefix(topic), word.encode()), int(row[col.PHYSICAL_OFFSET]))
            for row, (topic, _, _, keys, uniq) in zip(tables.rows, tables.expected, strict=True)
            for word in message_keys(uniq, keys)
        ]
        units = np.zeros(25 * UNIT_SIZE, dtype=np.uint8)
        entries = np.zeros((3, 25 * 20), dtype=np.int64)
        count = derive(tables.text, tables.rows, tables.places, units, entries)
        assert list(map(tuple, entries[:2, :count].T.tolist())) == expected


def test_tables_that_are_too_small_are_reported(rng: random.Random) -> None:
    tables = Tables(rng, 5)
    tables.append(1 << 20, 1 << 20)
    entries = np.zeros((3, 200), dtype=np.int64)
    for size in range(5 * UNIT_SIZE):
        units = np.full(size, GUARD, dtype=np.uint8)
        assert derive(tables.text, tables.rows, tables.places, units, entries) == -1
    units = np.zeros(5 * UNIT_SIZE, dtype=np.uint8)
    assert derive(tables.text, tables.rows, tables.places, units, entries[:, :3].copy()) == -1
