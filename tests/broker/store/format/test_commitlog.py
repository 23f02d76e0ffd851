"""CommitLog files: names, blanks, the scanner after corruption, the fast walk."""

import mmap
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from broker.errors import LocalProtocolError, RemoteProtocolError
from broker.message.message import MessageExt
from broker.message.record import encode_property_crc, encode_record
from broker.store.format import commitlog
from broker.store.format.commitlog import (
    BAD_BLANK,
    BAD_CRC,
    BAD_LENGTHS,
    BAD_MAGIC,
    BAD_PROPERTY_CRC,
    BAD_SIZE,
    BLANK_HERE,
    NOT_WRITTEN,
    TRUNCATED,
    Blank,
    Damage,
    LogRecord,
    Unwritten,
    check_record,
    decode_blank,
    encode_blank,
    file_name,
    file_start,
    fits,
    own_offset,
    read_record,
    resync,
    scan_commitlog,
    store_timestamp,
)

Make = Callable[..., bytes]


def offsets(items: list[object]) -> list[int]:
    return [item.physical_offset for item in items if isinstance(item, LogRecord)]


def damaged_regions(items: list[object]) -> list[Damage]:
    return [item for item in items if isinstance(item, Damage)]


def test_a_file_is_named_after_its_first_byte_in_twenty_digits() -> None:
    assert file_name(0) == "0" * 20
    assert file_name(1 << 30) == "00000000001073741824"
    assert file_start("00000000001073741824") == 1 << 30
    for name in ("1073741824", "0000000000107374182x", "", "٠" * 20, "-0000000000000000001"):
        assert file_start(name) is None
    with pytest.raises(LocalProtocolError):
        file_name(-1)


def test_blank_records_are_those_of_java(vectors: dict) -> None:
    for vector in vectors["blank_record"]:
        assert encode_blank(vector["left"]).hex() == vector["hex"]
        assert decode_blank(bytes.fromhex(vector["hex"])) == vector["left"]
    with pytest.raises(LocalProtocolError):
        encode_blank(7)
    with pytest.raises(RemoteProtocolError):
        decode_blank(bytes(8))
    with pytest.raises(RemoteProtocolError):
        decode_blank(encode_blank(8)[:7])


def test_a_record_is_written_only_where_a_blank_still_fits(vectors: dict) -> None:
    for vector in vectors["end_of_file_rule"]:
        fitting = fits(vector["record_length"], vector["left_in_file"])
        assert fitting == vector["record_is_written_here"]


def test_every_vector_record_passes_the_recovery_test(vectors: dict) -> None:
    for vector in vectors["record"]:
        data = bytes.fromhex(vector["hex"])
        fields = vector["decoded"]
        assert check_record(data, 0) == len(data), vector["name"]
        assert own_offset(data, 0) == fields["physical_offset"]
        assert store_timestamp(data, 0) == fields["store_timestamp"]
        record = read_record(data, 0, fields["physical_offset"])
        assert record.topic.decode() == fields["topic"]
        assert record.properties.hex() == fields["properties_hex"]
        assert (record.queue_id, record.queue_offset) == (
            fields["queue_id"],
            fields["queue_offset"],
        )
        body = data[record.body_position : record.body_position + record.body_length]
        assert body.hex() == fields["body_hex"]
        assert record.prepared_transaction_offset == fields["prepared_transaction_offset"]
        assert record.sys_flag == fields["sys_flag"]


def test_every_cut_of_a_record_is_refused(vectors: dict) -> None:
    for vector in vectors["record"]:
        data = bytes.fromhex(vector["hex"])
        for end in range(len(data)):
            assert check_record(data[:end], 0) in (TRUNCATED, NOT_WRITTEN), vector["name"]


def test_every_flipped_bit_is_seen_or_leaves_a_whole_record(vectors: dict) -> None:
    """Bits of plain fields may change a value; lengths, magic and body may not go unseen."""
    for vector in vectors["record"]:
        data = bytearray.fromhex(vector["hex"])
        record = read_record(bytes(data), 0)
        body = range(record.body_position, record.body_position + record.body_length)
        for position in range(len(data)):
            for bit in range(8):
                data[position] ^= 1 << bit
                status = check_record(data, 0)
                if position < 8 or position in body:
                    assert status <= 0, (vector["name"], position, bit)
                else:
                    assert status in (len(data), BAD_LENGTHS, BAD_CRC, BAD_PROPERTY_CRC, TRUNCATED)
                data[position] ^= 1 << bit


def test_each_kind_of_bad_record_has_its_status(make_record: Make) -> None:
    good = make_record(0)

    def changed(position: int, replacement: bytes) -> bytes:
        return good[:position] + replacement + good[position + len(replacement) :]

    assert check_record(good, 0) == len(good)
    assert check_record(good + bytes(100), 0) == len(good)
    assert check_record(encode_blank(100) + bytes(92), 0) == BLANK_HERE
    assert check_record(bytes(50) + encode_blank(100) + bytes(150), 50, 150) == BLANK_HERE
    assert check_record(encode_blank(100) + bytes(93), 0) == BAD_BLANK
    assert check_record(encode_blank(100), 0) == BAD_BLANK
    assert check_record(bytes(200), 0) == NOT_WRITTEN
    assert check_record(changed(4, b"\0\0\0\1"), 0) == BAD_MAGIC
    for size in (-1, 0, 1, 90):
        broken = changed(0, size.to_bytes(4, "big", signed=True))
        assert check_record(broken, 0) in (BAD_SIZE, NOT_WRITTEN)
    assert check_record(changed(0, b"\x7f\xff\xff\xff"), 0) == TRUNCATED
    assert check_record(changed(84, b"\xff\xff\xff\xff"), 0) == BAD_LENGTHS
    assert check_record(changed(84, b"\x7f\xff\xff\xff"), 0) == BAD_LENGTHS
    assert check_record(changed(88, b"J"), 0) == BAD_CRC
    assert check_record(changed(88, b"J"), 0, check_crc=False) == len(good)
    assert check_record(good, 0, len(good) - 1) == TRUNCATED


def test_the_crc_kept_in_properties_covers_the_whole_record(make_record: Make) -> None:
    plain = make_record(0, properties=b"TAGS\x01TagA\x02" + bytes(20))
    sealed = plain[:-20] + encode_property_crc(plain[:-20])
    assert check_record(sealed, 0) == len(sealed)
    moved = bytearray(sealed)
    moved[27] ^= 1  # the queue offset, which no other checksum covers
    assert check_record(moved, 0) == BAD_PROPERTY_CRC
    found = list(scan_commitlog(bytes(moved), 0))
    assert found[0].kind == "propertyCrc"


def test_a_whole_file_scans_into_its_records_and_its_blank(make_file: Make) -> None:
    data = make_file(4096, 2048, 8, full=True)
    items = list(scan_commitlog(data, 4096))
    assert [item.queue_offset for item in items[:-1]] == list(range(8))
    assert all(item.message.body == b"b" * (20 + n) for n, item in enumerate(items[:-1]))
    last = items[-2]
    assert items[-1] == Blank(
        physical_offset=last.physical_offset + last.total_size,
        length=4096 + 2048 - last.physical_offset - last.total_size,
    )


def test_a_scan_reads_any_buffer_alike(make_file: Make, tmp_path: Path) -> None:
    data = bytes(make_file(0, 2048, 8, full=True))
    path = tmp_path / "log"
    path.write_bytes(data)
    expected = list(scan_commitlog(data, 0))
    assert list(scan_commitlog(memoryview(data), 0)) == expected
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        assert list(scan_commitlog(view, 0)) == expected


def test_the_log_ends_at_the_first_zeros_that_nothing_follows(make_file: Make) -> None:
    data = make_file(0, 4096, 3)
    items = list(scan_commitlog(data, 0))
    end = items[-2].physical_offset + items[-2].total_size
    assert items[-1] == Unwritten(physical_offset=end, length=4096 - end)
    assert not damaged_regions(items)


def test_an_empty_file_holds_no_damage() -> None:
    assert list(scan_commitlog(bytes(1024), 0)) == [Unwritten(physical_offset=0, length=1024)]
    assert list(scan_commitlog(b"", 0)) == []


def test_a_full_file_without_blank_simply_ends(make_record: Make) -> None:
    data = make_record(0)
    items = list(scan_commitlog(data, 0))
    assert offsets(items) == [0]
    assert len(items) == 1


def test_decoding_is_optional(make_record: Make) -> None:
    with_message, without = (
        next(iter(scan_commitlog(make_record(0), 0, decode=decode))) for decode in (True, False)
    )
    assert with_message.message.topic == "TopicA"
    assert without.message is None
    assert without.topic == b"TopicA"


@pytest.mark.parametrize(
    ("position", "kind"),
    [
        (4, "magic"),
        (1, "truncated"),
        (3, "lengths"),
        (86, "lengths"),
        (90, "crc"),
        (34, "position"),
    ],
)
def test_a_scan_continues_after_each_kind_of_corruption(
    make_file: Make, position: int, kind: str
) -> None:
    data = make_file(0, 4096, 6, full=True)
    whole = list(scan_commitlog(bytes(data), 0))
    flipped_record = whole[2]
    data[flipped_record.physical_offset + position] ^= 0x40
    items = list(scan_commitlog(data, 0))
    (damage,) = damaged_regions(items)
    assert (damage.kind, damage.physical_offset, damage.length) == (
        kind,
        flipped_record.physical_offset,
        flipped_record.total_size,
    )
    assert damage.detail
    assert not damage.at_end
    assert offsets(items) == [o for o in offsets(whole) if o != flipped_record.physical_offset]
    assert isinstance(items[-1], Blank)
    if kind in ("crc", "position"):
        assert damage.record.queue_offset == 2


def test_zeros_are_corruption_if_records_follow(make_file: Make) -> None:
    data = make_file(0, 4096, 6)
    whole = [item for item in scan_commitlog(bytes(data), 0) if isinstance(item, LogRecord)]
    hole = whole[1]
    end = whole[3].physical_offset
    data[hole.physical_offset : end] = bytes(end - hole.physical_offset)
    (damage,) = damaged_regions(list(scan_commitlog(data, 0)))
    assert (damage.kind, damage.physical_offset, damage.length) == (
        "hole",
        hole.physical_offset,
        end - hole.physical_offset,
    )


def test_a_torn_tail_is_a_damage_at_the_end(make_file: Make) -> None:
    data = make_file(0, 65536, 6)
    last = [item for item in scan_commitlog(bytes(data), 0) if isinstance(item, LogRecord)][-1]
    torn = last.physical_offset + 60
    data[torn:] = bytes(len(data) - torn)
    items = list(scan_commitlog(data, 0))
    (damage,) = damaged_regions(items)
    assert damage.at_end
    assert damage.physical_offset == last.physical_offset
    assert damage.length <= 60
    assert isinstance(items[-1], Unwritten)


def test_a_blank_that_does_not_reach_the_end_of_its_file_is_a_damage(make_file: Make) -> None:
    data = make_file(0, 4096, 3, full=True)
    items = list(scan_commitlog(bytes(data) + bytes(100), 0))
    assert damaged_regions(items)[0].kind == "blank"


def test_a_blank_is_found_after_a_corrupt_last_record(make_file: Make) -> None:
    data = make_file(0, 4096, 3, full=True)
    last = [item for item in scan_commitlog(bytes(data), 0) if isinstance(item, LogRecord)][-1]
    data[last.physical_offset + 5] ^= 1
    items = list(scan_commitlog(data, 0))
    assert damaged_regions(items)[0].length == last.total_size
    assert isinstance(items[-1], Blank)


def test_a_record_within_a_body_is_not_taken_for_the_next_one(make_record: Make) -> None:
    """The copy contains the offset of its position; the length of the damaged record decides."""
    inner_at = 88 + 10
    body = b"x" * 10 + make_record(inner_at) + b"y" * 10
    first = bytearray(make_record(0, body=body))
    data = bytes(first) + make_record(len(first))
    first[88 + len(body)] ^= 1  # the topic's length
    items = list(scan_commitlog(bytes(first) + data[len(first) :], 0))
    assert damaged_regions(items)[0].length == len(first)
    assert offsets(items) == [len(first)]


def test_resync_wants_magic_and_own_offset(make_record: Make) -> None:
    record = make_record(1000)
    junk = b"\xda\xa3\x20\xa7" * 5
    data = junk + record
    assert resync(data, 0, 1000 - len(junk)) == len(junk)
    assert resync(data, 0, 0) == -1
    assert resync(data, len(junk) + 1, 1000 - len(junk)) == -1
    assert resync(b"", 0, 0) == -1


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_resync_passes_long_zeros(make_record: Make, kind: Make) -> None:
    stretch = 1 << 16
    for gap in (0, 1, stretch - 8, *range(stretch - 6, stretch + 6), 3 * stretch + 7):
        data = bytes(gap) + make_record(7000 + gap) + bytes(2 * stretch)
        assert resync(kind(data), 0, 7000) == gap
        assert resync(kind(data), gap + 1, 7000) == -1
        assert resync(kind(data), 0, 7000, end=gap + 7) == -1
        assert resync(kind(data), 0, 7000, end=gap + 8) == gap


def test_random_bytes_never_break_a_scan(rng: random.Random, make_file: Make) -> None:
    for _ in range(60):
        data = make_file(0, 4096, 12, full=True)
        for _ in range(rng.randrange(1, 20)):
            start = rng.randrange(len(data))
            piece = rng.randbytes(rng.randrange(1, 40))[: len(data) - start]
            data[start : start + len(piece)] = piece
        data = data[: rng.randrange(len(data) + 1)]
        position = 0
        for item in scan_commitlog(data, 0):
            assert item.physical_offset == position
            length = item.total_size if isinstance(item, LogRecord) else item.length
            assert length > 0
            position += length
        assert position == len(data)


def test_pure_noise_is_damage_up_to_its_end(rng: random.Random) -> None:
    data = rng.randbytes(3000)
    items = list(scan_commitlog(data, 0))
    assert sum(item.length for item in items) == 3000


@pytest.mark.parametrize("topic", ["T", "t" * 127])
@pytest.mark.parametrize("properties", [b"", b"TAGS\x01a\x02", b"K\x01" + b"x" * 30_000 + b"\x02"])
def test_the_fields_of_a_dispatch_are_those_of_the_record(topic: str, properties: bytes) -> None:
    record = encode_record(
        MessageExt(
            topic,
            b"body" * 50,
            properties,
            queue_id=3,
            queue_offset=1 << 40,
            store_timestamp=1_700_000_000_000,
        )
    )
    for position in (0, 1, 200):
        found = commitlog.peek_dispatch_fields(bytes(position) + record + b"after", position)
        size, queue_id, queue_offset, _, stored, name, raw = found
        assert (size, queue_id, queue_offset) == (len(record), 3, 1 << 40)
        assert (stored, name) == (1_700_000_000_000, topic.encode())
        assert raw[: len(properties)] == properties
        assert len(raw) - len(properties) <= len(b"__CRC32#\x01") + 12
