"""Rows of records read at once are those of the records read one by one."""

import random

import pytest

from broker.message.message import MessageExt
from broker.message.record import PROPERTY_CRC_SIZE, encode_property_crc, encode_record
from broker.store.dispatch import dispatch_rows
from broker.store.dispatch.dispatch_rows import DispatchRow, read_rows
from broker.store.format.commitlog import check_record, own_offset, peek_dispatch_fields
from broker.store.format.lost_sectors import SECTOR_SIZE, find_lost_part

BASE = 1 << 30
HOSTS = [bytes(8), bytes(20)]


def random_record(rng: random.Random, physical_offset: int, number: int) -> bytes:
    properties = b"UNIQ_KEY\x01U%d\x02" % number
    if rng.random() < 0.2:
        properties += b"long\x01" + b"x" * rng.choice([500, 1500]) + b"\x02"
    sealed = rng.random() < 0.3
    record = encode_record(
        MessageExt(
            rng.choice(["TopicA", "T" * 200, "Größe"]),
            rng.randbytes(rng.choice([0, 1, 300, 1200])),
            properties + bytes(PROPERTY_CRC_SIZE) if sealed else rng.choice([properties, b""]),
            physical_offset=physical_offset,
            queue_id=rng.randrange(4),
            queue_offset=number,
            store_timestamp=1_700_000_000_000 + number,
            born_host_raw=rng.choice(HOSTS),
            store_host_raw=rng.choice(HOSTS),
        )
    )
    if not sealed:
        return record
    before = record[:-PROPERTY_CRC_SIZE]
    return before + encode_property_crc(before)


def random_file(rng: random.Random, count: int) -> bytearray:
    data = bytearray()
    for number in range(count):
        data += random_record(rng, BASE + len(data), number)
    return data + bytes(SECTOR_SIZE)


def one_by_one(
    data: bytes, *, check_crc: bool, power_failed: bool
) -> tuple[list[DispatchRow], int]:
    rows, position = [], 0
    while True:
        size = check_record(data, position, len(data), check_crc=check_crc)
        if size > 0 and power_failed:
            size = find_lost_part(data, position, size)
        if size <= 0 or own_offset(data, position) != BASE + position:
            return rows, position
        _, queue_id, queue_offset, sys_flag, stored, topic, properties = peek_dispatch_fields(
            data, position
        )
        numbers = (BASE + position, size, stored, sys_flag, queue_offset, queue_id)
        rows.append((*numbers, topic, properties))
        position += size


def whole(data: bytearray, rng: random.Random) -> None:
    pass


def flip_a_bit(data: bytearray, rng: random.Random) -> None:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def lose_a_sector(data: bytearray, rng: random.Random) -> None:
    start = SECTOR_SIZE * rng.randrange(len(data) // SECTOR_SIZE)
    data[start : start + SECTOR_SIZE] = bytes(SECTOR_SIZE)


def cut(data: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(data))
    data[start:] = bytes(len(data) - start)


@pytest.mark.parametrize("power_failed", [False, True])
@pytest.mark.parametrize("check_crc", [False, True])
@pytest.mark.parametrize(
    "change", [whole, flip_a_bit, lose_a_sector, cut], ids=lambda f: f.__name__
)
def test_rows_are_those_of_single_records(
    rng: random.Random, change, check_crc: bool, power_failed: bool
) -> None:
    for _ in range(150):
        data = random_file(rng, rng.randrange(1, 12))
        change(data, rng)
        content = bytes(data)
        options = {"check_crc": check_crc, "power_failed": power_failed}
        assert read_rows(
            content, (0, len(content), len(content)), BASE, 99, **options
        ) == one_by_one(content, **options)


def test_rows_are_limited_in_number_and_continue_at_the_position_after_them(rng) -> None:
    content = bytes(random_file(rng, 10))
    options = {"check_crc": True, "power_failed": True}
    expected, end = one_by_one(content, **options)
    found: list[DispatchRow] = []
    position = 0
    while position < end:
        rows, position = read_rows(
            content, (position, len(content), len(content)), BASE, 3, **options
        )
        assert 0 < len(rows) <= 3
        found += rows
    assert found == expected


def test_the_last_row_starts_before_the_given_position(rng) -> None:
    content = bytes(random_file(rng, 12))
    options = {"check_crc": True, "power_failed": True}
    expected, end = one_by_one(content, **options)
    for stop in range(0, end + 1, 7):
        rows, position = read_rows(content, (0, stop, len(content)), BASE, 99, **options)
        assert rows == [row for row in expected if row[0] < BASE + stop]
        assert position == sum(row[1] for row in rows)


@pytest.mark.parametrize("left", range(0, 200, 9))
def test_the_end_of_a_file_ends_the_rows(rng, left: int) -> None:
    content = bytes(random_file(rng, 3))[: left - SECTOR_SIZE]
    rows, position = read_rows(
        content, (0, len(content), len(content)), BASE, 9, check_crc=True, power_failed=True
    )
    expected, end = one_by_one(content, check_crc=True, power_failed=True)
    assert rows == expected[: len(rows)]
    assert len(rows) >= 2 or position == end


def test_the_bytes_of_topics_and_properties_are_limited(rng, monkeypatch) -> None:
    monkeypatch.setattr(dispatch_rows, "MAX_TEXT_BYTES", 1000)
    content = bytes(random_file(rng, 40))
    options = {"check_crc": True, "power_failed": True}
    rows, _ = read_rows(content, (0, len(content), len(content)), BASE, 99, **options)
    expected, _ = one_by_one(content, **options)
    assert rows == expected[: len(rows)]
    assert 0 < len(rows) < len(expected)
    assert sum(len(topic) + len(properties) for *_, topic, properties in rows[:-1]) < 1000
