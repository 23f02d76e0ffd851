"""Numbers and copies of the compiled loops against those of Python."""

import pytest

pytest.importorskip("numba", reason="the compiled loops need the extra 'fast'")
import numpy as np
from numba import njit

from broker.store.ingest.octets import copy, equal, i32, is_ascii, put16, put32, put64, u32

VALUES = (0, 1, 255, 256, 0x7FFF, 0x8000, 2**31 - 1, -(2**31), -1, 2**62 + 77)


@njit
def round_trip(out, value):  # those functions are inlined into compiled code
    put16(out, 1, value)
    put32(out, 3, value)
    put64(out, 7, value)
    return u32(out, 3), i32(out, 3)


@pytest.mark.parametrize("value", VALUES)
def test_numbers_are_big_endian(value: int) -> None:
    out = np.zeros(16, dtype=np.uint8)
    unsigned, signed = round_trip(out, value)
    assert out[1:3].tobytes() == (value & 0xFFFF).to_bytes(2, "big")
    assert out[3:7].tobytes() == (value & 0xFFFFFFFF).to_bytes(4, "big")
    assert out[7:15].tobytes() == value.to_bytes(8, "big", signed=True)
    assert (out[0], out[15]) == (0, 0)
    assert unsigned == value & 0xFFFFFFFF
    assert signed == int.from_bytes(out[3:7].tobytes(), "big", signed=True)


def test_texts() -> None:
    data = np.frombuffer(b"some text\x80", dtype=np.uint8)
    out = np.zeros(8, dtype=np.uint8)
    copy(out, 2, data, 5, 4)
    assert out.tobytes() == b"\0\0text\0\0"
    assert equal(out, 2, data[5:], 4)
    assert not equal(out, 2, data, 4)
    assert is_ascii(data, 0, 9)
    assert not is_ascii(data, 0, 10)
    assert is_ascii(data, 10, 10)
