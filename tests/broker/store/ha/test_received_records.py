"""ReceivedRecords releases whole valid records only, wherever the stream is cut or changed."""

import random

import pytest

from broker.errors import StoreError
from broker.message.message import MessageExt
from broker.message.record import encode_record
from broker.store.format.commitlog import encode_blank
from broker.store.format.ha import decode_replicated
from broker.store.ha.received_records import ReceivedRecords, Validated

FILE = 4096
LIMIT = 2048


def record(offset: int, body: bytes, number: int) -> bytes:
    return encode_record(
        MessageExt(
            topic="T",
            body=body,
            queue_id=0,
            queue_offset=number,
            physical_offset=offset,
            store_timestamp=1_000 + number,
        )
    )


def log(files: int = 2) -> bytes:
    """A log of full files; each ends with a blank record and bytes that belong to it."""
    data = b""
    number = 0
    while len(data) < files * FILE:
        one = record(len(data), bytes([number % 256]) * (100 + 37 * number % 400), number)
        left = FILE - len(data) % FILE
        if len(one) + 8 > left:
            data += encode_blank(left) + b"\x07" * (left - 8)
        else:
            data += one
            number += 1
    return data


LOG = log()


def collect(received: ReceivedRecords, start: int, data: bytes, sizes: list[int]) -> bytes:
    """Feed ``data`` in parts of these sizes that never cross a file; return the released bytes."""
    released = b""
    position = 0
    while position < len(data):
        offset = start + position
        size = min(sizes[position % len(sizes)], FILE - offset % FILE)
        part = received.feed(offset, data[position : position + size])
        position += size
        if part is not None:
            assert part.physical_offset == start + len(released)
            released += part.data
    return released


def test_all_records_and_blank_parts_are_released_at_every_cut() -> None:
    for cut in range(1, FILE):
        received = ReceivedRecords(0, FILE, LIMIT)
        first = received.feed(0, LOG[:cut])
        second = received.feed(cut, LOG[cut:FILE])
        released = b"".join(part.data for part in (first, second) if part is not None)
        assert released == LOG[:FILE]
        assert received.pending_bytes == 0


@pytest.mark.parametrize("limit", [LIMIT, 30])
def test_a_connection_that_ends_anywhere_is_resumed_by_the_next_one(limit: int) -> None:
    """``limit`` 30 would refuse the records: those before the blank part are fed at once."""
    blank = 0
    while blank + (size := int.from_bytes(LOG[blank : blank + 4])) < FILE:
        blank += size
    for cut in range(blank + 1, FILE):
        first = ReceivedRecords(blank, FILE, limit)
        released = first.feed(blank, LOG[blank:cut])
        end = blank if released is None else blank + len(released.data)
        assert limit == 30 or end == blank
        second = ReceivedRecords(end, FILE, LIMIT, first.blank_end)
        rest = second.feed(end, LOG[end : FILE + 200])
        assert rest is not None
        assert LOG[end:].startswith(rest.data)
        assert end + len(rest.data) >= FILE


def test_random_parts_release_the_same_log(rng: random.Random) -> None:
    for _ in range(50):
        received = ReceivedRecords(0, FILE, LIMIT)
        assert collect(received, 0, LOG, [rng.randrange(1, 700) for _ in range(97)]) == LOG
        assert received.next_offset == len(LOG)


def test_an_incomplete_record_is_kept_back() -> None:
    one = record(0, b"body", 0)
    received = ReceivedRecords(0, FILE, LIMIT)
    assert received.feed(0, one[:-1]) is None
    assert received.pending_bytes == len(one) - 1
    assert received.feed(len(one) - 1, one[-1:]) == Validated(
        0, one, 1_000, [decode_replicated(one, 0, 0)]
    )


def test_a_flipped_bit_is_never_released() -> None:
    one = record(0, b"first", 0)
    two = record(len(one), b"second", 1)
    # The fields that a CRC or a length protects; others (flag, times) have no check in the format.
    for place in (*range(8), *range(28, 36), len(two) - 3 - len(b"second")):
        changed = bytearray(two)
        changed[place] ^= 0x40
        received = ReceivedRecords(0, FILE, LIMIT)
        assert received.feed(0, one) is not None
        with pytest.raises(StoreError, match=f"physical offset {len(one)}"):
            received.feed(len(one), bytes(changed) + bytes(LIMIT))


def test_a_record_longer_than_the_limit_is_refused_before_it_is_buffered() -> None:
    big = record(0, bytes(LIMIT), 0)
    with pytest.raises(StoreError, match="a record of"):
        ReceivedRecords(0, FILE, LIMIT).feed(0, big[:100])


def test_bytes_of_another_offset_are_refused() -> None:
    received = ReceivedRecords(500, FILE, LIMIT)
    with pytest.raises(StoreError, match="sent physical offset 400, expected 500"):
        received.feed(400, b"x")


def test_a_blank_record_of_a_wrong_length_is_refused() -> None:
    with pytest.raises(StoreError, match="blank record"):
        ReceivedRecords(FILE - 100, FILE, LIMIT).feed(FILE - 100, encode_blank(99))


def test_records_are_released_up_to_the_first_one_of_an_unknown_topic() -> None:
    parts = []
    for topic in ("T", "T", "N" * 200, "T", "Other"):
        message = MessageExt(
            topic=topic, body=b"x", queue_id=0, physical_offset=sum(map(len, parts))
        )
        parts.append(encode_record(message))
    known = {b"T"}
    received = ReceivedRecords(0, FILE, LIMIT, known_topics=known)
    first = received.feed(0, b"".join(parts))
    assert first is not None
    assert first.data == parts[0] + parts[1]
    assert received.unknown_topic == b"N" * 200  # a record of version 2
    known.add(b"N" * 200)
    second = received.feed(received.next_offset, b"")
    assert second is not None
    assert second.data == parts[2] + parts[3]
    assert received.unknown_topic == b"Other"
    assert received.feed(received.next_offset, b"") is None
    known.add(b"Other")
    third = received.feed(received.next_offset, b"")
    assert third is not None
    assert third.data == parts[4]
    assert received.unknown_topic is None
    assert received.pending_bytes == 0


def test_records_of_a_deleted_topic_are_released_up_to_its_deletion() -> None:
    parts: list[bytes] = []
    for topic in ("Gone", "T", "Gone", "Gone"):
        at = sum(map(len, parts))
        message = MessageExt(topic=topic, body=b"x", queue_id=0, physical_offset=at)
        parts.append(encode_record(message))
    ends = {b"Gone": len(parts[0])}
    received = ReceivedRecords(0, FILE, LIMIT, known_topics={b"T"}, deleted_before=ends)
    first = received.feed(0, b"".join(parts))
    assert first is not None
    assert first.data == parts[0] + parts[1]
    assert received.unknown_topic == b"Gone"
    ends[b"Gone"] = len(b"".join(parts[:3]))
    second = received.feed(received.next_offset, b"")
    assert second is not None
    assert second.data == parts[2]
    assert received.unknown_topic == b"Gone"
