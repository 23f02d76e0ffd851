"""The Bloom filter of SQL92 subscriptions: the bits of each group in a unit's bit map.

Each live SQL92 subscription ``group#topic`` has a few bit positions; at dispatch the broker sets
them in the unit's bit map if the message matches (4.9 and 5.x: enableCalcFilterBitMap). This module
computes the positions, which are also stored in ``config/consumerFilter.json``.

**Source:** RocketMQ BloomFilter#calcBitPositions, Guava murmur3_128.
"""

from math import ceil, log
from typing import NamedTuple

from broker.common.java import to_int32, to_int64

MAX_ERROR_RATE = 20  # percent, maxErrorRateOfBloomFilter
EXPECTED_GROUPS = 32  # expectConsumerNumUseFilter

_MASK = 0xFFFFFFFFFFFFFFFF
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F


class BloomShape(NamedTuple):
    """Number of hash functions and bits."""

    hash_count: int
    bit_count: int


def bloom_shape(error_percent: int = MAX_ERROR_RATE, expected: int = EXPECTED_GROUPS) -> BloomShape:
    """Return the shape for an error rate and a number of groups; the defaults give 3 and 112.

    Raises ValueError for a rate outside 1..99 or fewer than one group.
    """
    if not 1 <= error_percent < 100 or expected < 1:
        raise ValueError(f"no Bloom filter for {error_percent} % and {expected} groups")
    rate = error_percent / 100.0
    hash_count = ceil(log(rate) / log(0.5))
    bit_count = ceil(expected * log(1 / rate) / (log(2) * log(2)))
    return BloomShape(hash_count, (bit_count + 7) // 8 * 8)


def murmur3_128_low(data: bytes) -> int:
    """Return the first 64 bits of MurmurHash3 x64-128, seed 0, signed, as Guava's ``asLong``."""
    h1 = h2 = 0
    end = len(data) & ~15
    for at in range(0, end, 16):
        k1 = int.from_bytes(data[at : at + 8], "little")
        k2 = int.from_bytes(data[at + 8 : at + 16], "little")
        h1 ^= _rotate(k1 * _C1, 31) * _C2 & _MASK
        h1 = ((_rotate(h1, 27) + h2) * 5 + 0x52DCE729) & _MASK
        h2 ^= _rotate(k2 * _C2, 33) * _C1 & _MASK
        h2 = ((_rotate(h2, 31) + h1) * 5 + 0x38495AB5) & _MASK
    tail = data[end:]
    h2 ^= _rotate(int.from_bytes(tail[8:], "little") * _C2, 33) * _C1 & _MASK
    h1 ^= _rotate(int.from_bytes(tail[:8], "little") * _C1, 31) * _C2 & _MASK
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return to_int64(_finish(h1) + _finish(h2))


def _rotate(number: int, bits: int) -> int:
    number &= _MASK
    return (number << bits | number >> (64 - bits)) & _MASK


def _finish(number: int) -> int:
    number ^= number >> 33
    number = number * 0xFF51AFD7ED558CCD & _MASK
    number ^= number >> 33
    number = number * 0xC4CEB9FE1A85EC53 & _MASK
    return number ^ number >> 33


def bit_positions(text: str, shape: BloomShape | None = None) -> list[int]:
    """Return the bits of ``text`` (``group#topic``) in Java's order; may contain duplicates."""
    hash_count, bit_count = shape or bloom_shape()
    whole = murmur3_128_low(text.encode("utf-8", "replace"))
    low, high = to_int32(whole), to_int32(whole >> 32)
    positions = []
    for number in range(1, hash_count + 1):
        combined = to_int32(low + number * high)
        positions.append((combined if combined >= 0 else ~combined) % bit_count)
    return positions


def set_bits(bit_map: bytearray, positions: list[int]) -> None:
    """Set bits in a bit map; bit n is in byte n / 8, lowest first. IndexError past its end.

    **Source:** RocketMQ BitsArray#setBit.
    """
    for position in positions:
        bit_map[position >> 3] |= 1 << (position & 7)


def has_bits(bit_map: bytes | bytearray, positions: list[int]) -> bool:
    """Whether all bits are set; bits past the map's end count as not set."""
    return all(
        position >> 3 < len(bit_map) and bit_map[position >> 3] >> (position & 7) & 1
        for position in positions
    )
