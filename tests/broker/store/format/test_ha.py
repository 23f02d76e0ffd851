"""The frames of the HA connection are declared as the codec writes them."""

import random

from broker.message.message import MessageExt
from broker.message.record import PROPERTY_CRC_SIZE, encode_property_crc, encode_record
from broker.store.format.commitlog import check_record, own_offset, peek_dispatch_fields
from broker.store.format.ha import REPORT, TRANSFER, ReplicatedRecord, peek_replicated
from broker.store.format.layout import find_layouts
from broker.store.ha.frames import encode_report, encode_transfer_header


def test_the_frames_have_the_declared_widths_and_order() -> None:
    assert encode_report(0x0102) == REPORT.packer().pack(0x0102) == b"\0" * 6 + b"\1\2"
    assert (
        encode_transfer_header(7, 9)
        == TRANSFER.packer().pack(7, 9)
        == (b"\0" * 7 + b"\x07" + b"\0" * 3 + b"\x09")
    )


def test_store_layout_prints_both() -> None:
    assert find_layouts("ha") == [REPORT, TRANSFER]


def record(rng: random.Random, offset: int, end: bytes = b"") -> bytes:
    """A record at ``offset`` with hosts of either family; ``end``: end of its properties."""
    hosts = (b"\x7f\0\0\1" + bytes(4), b"\x20" * 20)
    return encode_record(
        MessageExt(
            "T" * rng.choice((1, 127, 200)),
            rng.randbytes(rng.randrange(60)),
            b"KEYS\x01k\x02TAGS\x01A\x02" + end,
            queue_id=3,
            queue_offset=9,
            physical_offset=offset,
            born_host_raw=rng.choice(hosts),
            store_host_raw=rng.choice(hosts),
            store_timestamp=77,
        )
    )


def test_an_intact_record_is_decoded_as_dispatch_reads_it(rng: random.Random) -> None:
    for offset in range(0, 40_000, 1_000):
        position = rng.randrange(50)
        data = b"\7" * position + record(rng, offset) + rng.randbytes(rng.randrange(50))
        found = peek_replicated(data, position, offset)
        assert found is not None
        size, queue_id, queue_offset, sys_flag, stored, topic, properties = peek_dispatch_fields(
            data, position
        )
        assert found == ReplicatedRecord(
            *(offset, size, stored, sys_flag, queue_offset, queue_id, topic, properties)
        )


def test_no_cut_and_no_changed_byte_is_taken_for_an_intact_record(rng: random.Random) -> None:
    for _ in range(20):
        whole = record(rng, 500)
        for cut in range(len(whole)):
            assert peek_replicated(whole[:cut], 0, 500) is None
        for position in range(len(whole)):
            for mask in (0x01, 0x10, 0x80, 0xFF):
                changed = bytearray(whole)
                changed[position] ^= mask
                data = bytes(changed)
                if peek_replicated(data, 0, 500) is not None:
                    assert check_record(data, 0) == len(data)
                    assert own_offset(data, 0) == 500


def test_a_record_of_another_place_is_not_intact(rng: random.Random) -> None:
    assert peek_replicated(record(rng, 500), 0, 501) is None


def test_a_record_with_a_property_crc_is_left_to_the_full_check(rng: random.Random) -> None:
    plain = record(rng, 0, bytes(PROPERTY_CRC_SIZE))
    sealed = plain[:-PROPERTY_CRC_SIZE] + encode_property_crc(plain[:-PROPERTY_CRC_SIZE])
    assert check_record(sealed, 0) == len(sealed)
    assert peek_replicated(sealed, 0, 0) is None
