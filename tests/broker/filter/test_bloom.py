import pytest

from broker.filter.bloom import (
    BloomShape,
    bit_positions,
    bloom_shape,
    has_bits,
    murmur3_128_low,
    set_bits,
)


def test_golden_positions(vectors) -> None:
    vector = vectors["bloom"]
    shape = bloom_shape(vector["max_error_rate_percent"], vector["expected_consumers"])
    assert shape == bloom_shape() == BloomShape(vector["k"], vector["m_bits"])
    positions = bit_positions(vector["string"])
    assert positions == vector["bit_positions"]
    bit_map = bytearray(14)
    assert not has_bits(bit_map, positions)
    set_bits(bit_map, positions)
    expected = bytearray(14)
    for at, mask in vector["byte_and_mask"]:
        expected[at] |= mask
    assert bit_map == expected
    assert has_bits(bit_map, positions)


def test_positions_are_in_range_for_any_text(rng) -> None:
    for _ in range(300):
        text = "".join(rng.choices("abé#", k=rng.randint(0, 70)))
        positions = bit_positions(text)
        assert len(positions) == 3
        assert all(0 <= position < 112 for position in positions)


def test_murmur_of_nothing_is_0() -> None:
    assert murmur3_128_low(b"") == 0


def test_bits_past_the_end_are_not_set() -> None:
    assert not has_bits(b"\xff", [8])
    assert has_bits(b"", [])


@pytest.mark.parametrize(("rate", "groups"), [(0, 32), (100, 32), (20, 0)])
def test_impossible_shapes(rate: int, groups: int) -> None:
    with pytest.raises(ValueError, match="Bloom"):
        bloom_shape(rate, groups)
