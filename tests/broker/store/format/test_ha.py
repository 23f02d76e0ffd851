"""The frames of the HA connection are declared as the codec writes them."""

from broker.store.format.ha import REPORT, TRANSFER
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
