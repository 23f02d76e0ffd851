import zlib

import pytest

from broker.common import sysflag
from broker.errors import LocalProtocolError, RemoteProtocolError
from broker.message.compression import (
    compress,
    compression_bits,
    compression_name,
    decompress,
)

NAMES = ["zlib", "lz4", "zstd"]


@pytest.mark.parametrize("name", NAMES)
def test_round_trip(name: str, rng) -> None:
    flag = sysflag.COMPRESSED | compression_bits(name)
    for size in (0, 1, 100, 70_000):
        body = rng.randbytes(size // 2) + b"x" * (size - size // 2)
        assert decompress(compress(body, name), flag, size) == body
        assert decompress(memoryview(compress(body, name, 1)), flag, size) == body


@pytest.mark.parametrize("name", NAMES)
def test_a_bomb_stops_at_the_limit(name: str) -> None:
    bomb = compress(b"\0" * 50_000_000, name)
    assert len(bomb) < 250_000
    with pytest.raises(RemoteProtocolError, match="more than 1000000 bytes"):
        decompress(bomb, compression_bits(name), 1_000_000)


@pytest.mark.parametrize("name", NAMES)
def test_every_cut_and_flip_is_a_value_or_a_protocol_error(name, every_cut, every_flip) -> None:
    packed = compress(b"some text, some more text, some text", name)

    def decode(data: bytes) -> bytes:
        return decompress(data, compression_bits(name), 10_000)

    assert every_cut(decode, packed) == [0]  # an empty body stays empty
    every_flip(decode, packed)


def test_flags_without_type_mean_zlib(vectors) -> None:
    assert decompress(zlib.compress(b"old"), sysflag.COMPRESSED, 10) == b"old"
    assert [compression_name(bits) for bits in (0, 0x100, 0x200, 0x300, 0x400)] == [
        "zlib",
        "lz4",
        "zstd",
        "zlib",
        "unknown",
    ]


def test_unknown_types_are_errors() -> None:
    with pytest.raises(RemoteProtocolError, match="0x400"):
        decompress(b"x", 0x401, 10)
    with pytest.raises(LocalProtocolError, match="gzip"):
        compress(b"x", "gzip")


def test_frames_in_sequence_are_joined_and_bytes_after_zlib_ignored() -> None:
    for name in ("lz4", "zstd"):
        double = compress(b"one", name) + compress(b"two", name)
        assert decompress(double, compression_bits(name), 6) == b"onetwo"
        with pytest.raises(RemoteProtocolError, match="more than 5"):
            decompress(double, compression_bits(name), 5)
    assert decompress(compress(b"one") + b"junk", 0x301, 10) == b"one"
