import zlib

from broker.common.encoding.checksum import crc32


def test_golden_checksums(vectors) -> None:
    for vector in vectors["crc32"]:
        assert crc32(bytes.fromhex(vector["hex"])) == vector["crc32_ieee"], vector["name"]


def test_equals_zlib_for_any_buffer(rng) -> None:
    for size in (0, 1, 15, 16, 1000, 100_000):
        data = rng.randbytes(size)
        assert crc32(data) == crc32(memoryview(data)) == zlib.crc32(data)
