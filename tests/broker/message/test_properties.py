import pytest

from broker.errors import LocalProtocolError
from broker.message.properties import (
    append_property,
    decode_properties,
    encode_properties,
    peek_property,
    remove_property,
    set_property,
)


def test_golden_strings(vectors) -> None:
    assert len(vectors["properties"]) == 9
    for vector in vectors["properties"]:
        raw = bytes.fromhex(vector["hex"])
        assert decode_properties(raw) == vector["decoded"], vector["name"]
        assert decode_properties(memoryview(raw)) == vector["decoded"]
        assert decode_properties(raw.decode()) == vector["decoded"]
        for name, value in vector["decoded"].items():
            assert peek_property(raw, name.encode()) == value.encode(), vector["name"]


def test_encode_then_decode_is_identity(rng) -> None:
    for _ in range(300):
        properties = {
            "".join(rng.choices("aB_é息", k=rng.randint(1, 6))): "".join(
                rng.choices("xy \x01é😀", k=rng.randint(1, 9))
            )
            for _ in range(rng.randint(0, 8))
        }
        raw = encode_properties(properties)
        assert decode_properties(raw) == properties
        assert decode_properties(raw[:-1]) == properties  # 4.9 drops the last separator


def test_peek_agrees_with_decode_on_any_bytes(rng) -> None:
    names = [b"a", b"b", b"ab"]
    for _ in range(5000):
        raw = bytes(rng.choices(b"ab\x01\x02\x01\x02x", k=rng.randint(0, 16)))
        decoded = decode_properties(raw)
        for name in names:
            expected = decoded.get(name.decode())
            assert peek_property(raw, name) == (expected.encode() if expected else None), raw


def test_append_wins_over_earlier_pairs(rng) -> None:
    for _ in range(500):
        raw = bytes(rng.choices(b"ab\x01\x02x", k=rng.randint(0, 12)))
        expected = {**decode_properties(raw), "n": "v"}
        assert decode_properties(append_property(raw, b"n", b"v")) == expected
    assert append_property(b"A\x011", b"B", b"2") == b"A\x011\x02B\x012\x02"
    assert append_property(b"", b"B", b"2") == b"B\x012\x02"


def test_remove_takes_every_pair_of_the_name_and_no_other(rng) -> None:
    assert remove_property(b"A\x011\x02AA\x012\x02A\x013\x02", b"A") == b"AA\x012\x02"
    assert remove_property(b"A\x011\x02B\x012", b"B") == b"A\x011"
    assert remove_property(b"BA\x011\x02", b"A") == b"BA\x011\x02"
    for _ in range(500):
        raw = bytes(rng.choices(b"ab\x01\x02x", k=rng.randint(0, 16)))
        expected = decode_properties(raw)
        expected.pop("a", None)
        assert decode_properties(remove_property(raw, b"a")) == expected
        assert decode_properties(set_property(raw, b"a", b"z")) == {**expected, "a": "z"}


def test_separators_in_names_or_values_are_refused() -> None:
    for properties in ({"a\x01": "b"}, {"a\x02": "b"}, {"a": "b\x02c"}, {"": "b"}):
        with pytest.raises(LocalProtocolError):
            encode_properties(properties)
    assert encode_properties({"a": "b\x01c"}) == b"a\x01b\x01c\x02"


def test_broken_utf8_reads_as_replacement() -> None:
    assert decode_properties(b"a\x01\xff\x02") == {"a": "\ufffd"}
    assert encode_properties({"a": "\ud800"}) == b"a\x01?\x02"
