"""HA frames against the bytes observed on a Java master's connection, and every cut."""

import pytest

from broker.errors import RemoteProtocolError
from broker.store.ha.frames import (
    MAX_BODY_BYTES,
    ReportDecoder,
    Transfer,
    TransferDecoder,
    encode_report,
    encode_transfer_header,
)


def test_frames_equal_the_observed_bytes() -> None:
    assert encode_report(0x10C9) == bytes.fromhex("00000000000010c9")
    assert encode_transfer_header(0x1000, 0xC9) == bytes.fromhex("0000000000001000000000c9")
    assert encode_transfer_header(0x10C9, 0) == bytes.fromhex("00000000000010c900000000")


def test_every_report_is_returned_once_at_every_cut() -> None:
    data = encode_report(5) + encode_report(7) + encode_report(900)
    for cut in range(len(data) + 1):
        decoder = ReportDecoder()
        first = decoder.feed(data[:cut])
        assert first == [5, 7, 900][: cut // 8]
        assert first + decoder.feed(data[cut:]) == [5, 7, 900]


def test_a_negative_report_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="physical offset -1"):
        ReportDecoder().feed(b"\xff" * 8)


def test_transfers_arrive_complete_and_in_order_at_every_cut() -> None:
    data = (
        encode_transfer_header(100, 5)
        + b"abcde"
        + encode_transfer_header(105, 0)
        + encode_transfer_header(105, 3)
        + b"fgh"
    )
    for cut in range(len(data) + 1):
        decoder = TransferDecoder()
        parts = [*decoder.feed(data[:cut]), *decoder.feed(data[cut:])]
        assert b"".join(part.data for part in parts) == b"abcdefgh"
        assert Transfer(105, b"") in parts
        end = 100
        for part in parts:
            assert part.physical_offset == end
            end += len(part.data)


@pytest.mark.parametrize(
    ("offset", "length"), [(-1, 10), (0, -1), (0, MAX_BODY_BYTES + 1), (1 << 62, 1 << 30)]
)
def test_an_impossible_transfer_is_refused(offset: int, length: int) -> None:
    with pytest.raises(RemoteProtocolError, match="HA transfer"):
        list(TransferDecoder().feed(encode_transfer_header(offset, length)))
