import random

import pytest

from broker.common.java import (
    double_text,
    extend_hash,
    key_hash_prefix,
    parse_number,
    string_hash,
    to_int32,
    to_int64,
)


def slow_hash(text: str) -> int:
    units = text.encode("utf-16-be", "surrogatepass")
    result = 0
    for at in range(0, len(units), 2):
        result = (31 * result + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return result - (1 << 32) if result >> 31 else result


def random_text(rng: random.Random) -> str:
    alphabet = rng.choice(("abc#%", "aé", "消息x", "😀a", "\ud800b"))
    return "".join(rng.choices(alphabet, k=rng.choice((0, 1, 5, 40, 1023, 1024, 1025, 3000))))


def test_golden_hashes(vectors) -> None:
    assert len(vectors["java_hash"]) == 21
    for vector in vectors["java_hash"]:
        text = vector["string"]
        assert string_hash(text) == vector["hash"]
        assert string_hash(text.encode()) == vector["hash"]
        for cut in range(len(text) + 1):
            assert extend_hash(string_hash(text[:cut]), text[cut:]) == vector["hash"]
            assert extend_hash(string_hash(text[:cut]), text[cut:].encode()) == vector["hash"]


def test_hash_is_the_definition_for_any_text(rng) -> None:
    for _ in range(60):
        first, second = random_text(rng), random_text(rng)
        assert string_hash(first) == slow_hash(first)
        assert extend_hash(string_hash(first), second) == slow_hash(first + second)


def test_key_prefix_is_topic_and_hash_sign() -> None:
    assert extend_hash(key_hash_prefix("TopicA"), b"key1") == string_hash("TopicA#key1")


def test_broken_utf8_hashes_as_java_decodes_it() -> None:
    assert string_hash(b"a\xff") == string_hash("a\ufffd")


def test_wrap() -> None:
    for number, wrapped in ((0, 0), (1 << 31, -(1 << 31)), (-(1 << 31) - 1, (1 << 31) - 1)):
        assert to_int32(number) == wrapped
    for number, wrapped in ((5, 5), (1 << 63, -(1 << 63)), (-(1 << 63) - 1, (1 << 63) - 1)):
        assert to_int64(number) == wrapped
    assert to_int32((1 << 40) + 7) == 7


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (100.0, "100.0"),
        (12.5, "12.5"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1e10, "1.0E10"),
        (-123456789.125, "-1.23456789125E8"),
        (1e-5, "1.0E-5"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_double_text(number: float, text: str) -> None:
    assert double_text(number) == text


def test_double_text_reads_back(rng) -> None:
    for _ in range(500):
        number = rng.uniform(-1, 1) * 10 ** rng.randint(-300, 300)
        assert float(double_text(number)) == number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("42", 42),
        ("+42", 42),
        ("-42", -42),
        ("007", 7),
        ("0" * 30_000 + "7", 7),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", None),
        ("9" * 4_300, None),
        ("9" * 30_000, None),
        ("", None),
        ("-", None),
        ("+", None),
        ("--1", None),
        ("1_000", None),
        (" 1", None),
        ("1.0", None),
        ("\u00b2", None),
    ],
)
def test_only_numbers_that_java_parses_are_numbers(text: str, number: int | None) -> None:
    assert parse_number(text) == number
    assert parse_number(text.encode()) == number


def test_a_number_outside_its_bounds_is_none() -> None:
    assert [parse_number(text, 0, 9) for text in ("-1", "0", "9", "10")] == [None, 0, 9, None]
