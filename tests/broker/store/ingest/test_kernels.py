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
from broker.store.format.vectorized.kernels import CRC_TABLES
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

    def append(self, capacity: int, room: int) -> tuple[int, int, bytes]:
        """Append; (records, bytes, the buffer), whose bytes after the end are guards."""
        shapes = np.array([shape_row(self.shape)])
        parameters = np.array([START, capacity, STAMP])
        out = np.full(room, GUARD, dtype=np.uint8)
        count, size = append(
            self.data,
            self.text,
            self.rows,
            self.segments,
            self.places,
            self.stored,
            self.templates,
            shapes,
            parameters,
            CRC_TABLES,
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


def test_records_end_before_a_queue_that_is_not_open(rng: random.Random) -> None:
    tables = Tables(rng, 30)
    tables.places[1, col.OPEN] = 0
    first = tables.rows[:, col.PLACE].tolist().index(1)
    assert tables.append(1 << 20, 1 << 20)[0] == first


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
